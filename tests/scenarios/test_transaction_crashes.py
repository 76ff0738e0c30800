"""A broker that dies between any two writes of a transaction: afterwards it is there as a whole, or not at all.

A story is played once, and every append to any log is noted, in order. Then the data directory is cut back to each of
these points, as the death of the process would have left it, and a broker is started on it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.storage.log import Log
from support.group_wire import fetch as fetch_offsets
from support.group_wire import find_coordinator as find_group_coordinator
from support.served import Served
from support.transactional import (
    Producer,
    end_offset,
    find_coordinator,
    listed,
    patiently,
    read_committed,
    state_of,
)
from support.wire import Wire

GROUP = "g"
PARTS = 2  # partitions that each transaction writes to
SETTINGS = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1, "num_partitions": 1}


class Append(NamedTuple):
    log: str  # name of its directory
    size: int  # of its segment, afterwards


class Told(NamedTuple):
    """A transaction, and at which append the client learnt that it is decided."""

    number: int
    committed: bool
    at: int


class Story(NamedTuple):
    directory: Path
    sizes: dict[str, int]  # of segments before it began
    appends: list[Append]
    told: list[Told]


@pytest.fixture(scope="module", params=[1, 2], ids=["version-1", "version-2"])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    directory = tmp_path_factory.mktemp("story") / "data"
    running = Served(directory, SETTINGS).start()
    wire = running.wire()
    wire.create("t", PARTS)
    find_group_coordinator(wire, GROUP)
    find_coordinator(wire, "mover")
    sizes = {path.parent.name: path.stat().st_size for path in directory.glob("*/*.log")}
    appends: list[Append] = []
    append = Log.append

    def noted(self: Log, *arguments: Any) -> int:
        offset = append(self, *arguments)
        appends.append(Append(self.directory.name, self.active.size))
        return offset

    patch = pytest.MonkeyPatch()
    patch.setattr(Log, "append", noted)
    try:
        told = play(wire, request.param, appends)
    finally:
        patch.undo()
        running.stop()
    return Story(directory, sizes, appends, told)


def play(wire: Wire, version: int, appends: list[Append]) -> list[Told]:
    one = Producer(wire, "mover", version=version)
    assert one.init() == "NONE"
    told = []
    for number, commit in enumerate([True, False, True, True]):
        if version == 1:
            one.begin(*(("t", index) for index in range(PARTS)))
            assert one.add_offsets(GROUP) == "NONE"
        for index in range(PARTS):
            assert one.send("t", f"{number}", partition=index) == "NONE"
        assert one.commit_offsets(GROUP, {("t", 0): number}, 5 if version == 2 else 3) == "NONE"
        if number == 3:  # another takes its place in the middle of it
            assert Producer(wire, "mover", version=version).init() == "NONE"
            told.append(Told(number, False, len(appends)))
        else:
            assert one.end(commit) == "NONE"
            told.append(Told(number, commit, len(appends)))
    return told


def cut_back(story: Story, point: int, to: Path) -> None:
    """The data directory as it was after so many appends."""
    shutil.copytree(story.directory, to)
    (to / ".kafka_cleanshutdown").unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (to / name).unlink(missing_ok=True)
    sizes = dict(story.sizes)
    for log, size in story.appends[:point]:
        sizes[log] = size
    for path in to.glob("*/*.log"):
        with path.open("r+b") as file:
            file.truncate(sizes.get(path.parent.name, 0))
    for path in [*to.glob("*/*.snapshot"), *to.glob("*/*.txnindex"), *to.glob("*/*index")]:
        path.unlink(missing_ok=True)


def seen(wire: Wire) -> list[list[str]]:
    return [read_committed(wire, "t", index)[0] for index in range(PARTS)]


def position(wire: Wire) -> int:
    (answer,) = patiently(lambda: fetch_offsets(wire, GROUP, ("t", 0), version=9), ([14],))
    return int(answer[2])


def test_whatever_was_decided_is_whole_and_what_was_not_is_gone(story: Story, tmp_path: Path) -> None:
    assert len(story.appends) > 30
    outcomes = set()
    for point in range(len(story.appends) + 1):
        to = tmp_path / f"{point}"
        cut_back(story, point, to)
        running = Served(to, SETTINGS).start()
        try:
            wire = running.wire()
            find_coordinator(wire, "mover")
            decided = patiently(lambda wire=wire: settled(wire), ("waits",))
            before = seen(wire) if decided != "Ongoing" else None
            # whoever comes next finds everything decided
            successor = Producer(wire, "mover")
            assert successor.init() == "NONE"
            ends = [end_offset(wire, "t", index) for index in range(PARTS)]
            assert ends == [end_offset(wire, "t", index, committed=False) for index in range(PARTS)], "something hangs"
            values = seen(wire)
            assert before is None or values == before
            assert values[0] == values[1], f"torn at {point}: {values}"
            committed = [int(value) for value in values[0]]
            assert committed == sorted(set(committed)), f"twice at {point}: {committed}"
            assert set(committed) <= {one.number for one in story.told if one.committed}
            known = {one.number for one in story.told if one.committed and one.at <= point}
            assert known <= set(committed), f"lost at {point}: {committed}"
            assert position(wire) == (committed[-1] if committed else -1), f"offsets apart from records at {point}"
            outcomes.add(tuple(committed))
            # and it goes on
            for index in range(PARTS):
                assert patiently(lambda s=successor, i=index: s.send("t", "next", partition=i)) == "NONE"
            assert successor.commit() == "NONE"
            assert seen(wire)[0][-1] == "next"
        finally:
            running.stop()
            shutil.rmtree(to)
    assert outcomes == {(), (0,), (0, 2)}


def settled(wire: Wire) -> str:
    """The state of the id when nothing is on its way."""
    if "mover" not in listed_or_loading(wire):
        return "waits" if listed_or_loading(wire) == ["loading"] else "unknown"
    state = state_of(wire, "mover")
    return "waits" if state.startswith(("Prepare", "COORDINATOR")) else state


def listed_or_loading(wire: Wire) -> list[str]:
    try:
        return list(listed(wire))
    except AssertionError:
        return ["loading"]
