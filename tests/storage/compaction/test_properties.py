"""Whatever is written, rolled, compacted, crashed and reopened: the log says what a dictionary says."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.storage.compaction.clean import clean
from ottla.storage.compaction.job import Group
from ottla.storage.compaction.swap import dirt_of, job_for, swap_in
from ottla.storage.leftovers import DELETED_SUFFIX
from ottla.storage.log import Log
from support.compacting import Cleaner, contents, headers, write
from support.scribe import NOW, Scribe, topic_config

DELETE_RETENTION = 1000

Entry = tuple[int, str | None, str | None]

KEYS = st.sampled_from([*"abcdefgh", "a key that is longer than a digest", ""])
BATCH = st.lists(st.tuples(KEYS, st.sampled_from(["1", "2", None])), min_size=1, max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), BATCH, st.sampled_from([0, 1, 2, 3, 4])),
        st.tuples(st.just("roll")),
        st.tuples(st.just("clean"), st.sampled_from([24 * 8, 24 * 12, 24 * 1000])),
        st.tuples(st.just("wait")),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    min_size=3,
    max_size=40,
)


class Model:
    """All that was ever written, and from where on everything must still be there."""

    def __init__(self) -> None:
        self.written: list[Entry] = []
        self.clean_to = 0

    def check(self, found: list[Entry]) -> None:
        """What is found was written, in order; of each key's newest record nothing is missing but old tombstones."""
        assert found == [entry for entry in self.written if entry in set(found)]
        newest = {key: entry for entry in self.written for key in [entry[1]]}
        for entry in newest.values():
            if entry[2] is not None:
                assert entry in found
        assert [entry for entry in found if entry[0] >= self.clean_to] == self.written[self.clean_to :]

    def check_compacted(self, found: list[Entry]) -> None:
        """In the clean part there is one record of each key, and none where the dirty part that was cleaned had one."""
        cleaned = [entry for entry in found if entry[0] < self.clean_to]
        newest = {entry[1]: entry for entry in self.written[: self.clean_to]}
        assert set(cleaned) <= set(newest.values())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_compacted_log_agrees_with_a_dictionary(steps: list[tuple[object, ...]], tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    shutil.rmtree(path, ignore_errors=True)
    config = topic_config(
        cleanup_policy="compact", delete_retention_ms=DELETE_RETENTION, index_interval_bytes=100, segment_bytes=1000
    )
    scribe = Scribe(Log(path, config))
    scribe.log.create()
    model, cleaner, now_ms = Model(), Cleaner(), NOW
    sequence = 0
    for step in steps:
        match step:
            case ("write", list() as records, int() as codec):
                producer = (7, 0, sequence) if codec % 2 else None
                first = write(scribe, *records, timestamp=now_ms, codec=codec, producer=producer)
                sequence += len(records) if producer else 0
                model.written += [(first + at, key, value) for at, (key, value) in enumerate(records)]
            case ("roll",):
                if scribe.log.active.size:
                    scribe.log.roll()
            case ("clean", int() as memory):
                cleaner.clean(scribe, now_ms=now_ms, memory=memory)
                model.clean_to = cleaner.checkpoint or 0
                model.check_compacted(contents(scribe))
            case ("wait",):
                now_ms += DELETE_RETENTION
            case ("reopen", bool() as is_clean):
                if is_clean:
                    scribe.log.close()
                else:
                    scribe.log.abandon()
                known = scribe.log.producers.check(7, 0, sequence, sequence) if sequence else None
                scribe = Scribe(Log(path, config))
                scribe.log.open(clean=is_clean)
                assert known is None
                if sequence:
                    assert scribe.log.producers.check(7, 0, sequence, sequence) is None
                    assert 7 in scribe.log.producers
        model.check(contents(scribe))
        assert scribe.log.end_offset == len(model.written)
    offsets = [offset for offset, _, _ in contents(scribe)]
    for offset in range(len(model.written)):
        found = [record.offset for record in scribe.read_all(offset)]
        assert found == [one for one in offsets if one >= offset]
    headers(path)
    scribe.log.abandon()


# -- a crash at each step of the swap ------------------------------------------------------------------------------


class Crash(BaseException):
    """The broker is gone."""


def crash_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let that many renames happen, and no more."""
    left = [steps]
    rename = Path.rename

    def counted(self: Path, target: Path) -> Path:
        if left[0] == 0:
            raise Crash
        left[0] -= 1
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", counted)


@pytest.mark.parametrize("steps", range(17))
def test_a_crash_at_any_step_of_the_swap_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Three segments become one: 3 files to .swap, 9 to .deleted, 3 to their names. Then a crash in settling it."""
    config = topic_config(cleanup_policy="compact")
    scribe = Scribe(Log(tmp_path / "t-0", config))
    scribe.log.create()
    for segment in range(3):
        write(scribe, ("a", str(segment)), (str(segment), "1"))
        scribe.log.roll()
    write(scribe, ("a", "active"))
    log = scribe.log
    log.recovery_point = log.active.base_offset
    before = contents(scribe)
    dirt = dirt_of(log, checkpoint=None, stable_offset=log.end_offset, now_ms=NOW)
    limits = {"memory": 24 * 1000, "load_factor": 0.9, "buffer": 1 << 16, "bytes_per_second": 1e300}
    ready: list[Group] = []
    clean(job_for(log, dirt, now_ms=NOW, **limits), ready.append)
    after = [(1, "0", "1"), (3, "1", "1"), (4, "a", "2"), (5, "2", "1"), (6, "a", "active")]
    with monkeypatch.context() as patched:
        crash_after(steps, patched)
        try:
            swap_in(log, ready[0])
        except Crash:
            pass
        else:
            assert steps >= 15
    log.abandon()
    for settling in (0, 1, None):  # crashes while what was left behind is settled, then none
        again = Scribe(Log(tmp_path / "t-0", config))
        with monkeypatch.context() as patched:
            if settling is not None:
                crash_after(settling, patched)
            try:
                again.log.open(clean=False, recovery_point=6)
            except Crash:
                continue
        break
    assert contents(again) == (before if steps < 3 else after)
    left = [path.name for path in (tmp_path / "t-0").iterdir()]
    assert not [name for name in left if name.endswith((".cleaned", ".swap", DELETED_SUFFIX))]
    again.log.abandon()


def test_what_stays_does_not_depend_on_how_often_it_was_compacted(tmp_path: Path) -> None:
    chance = random.Random(7)
    batches = [
        [(chance.choice("abcdefghijklmnop"), str(chance.random())) for _ in range(chance.randrange(1, 9))]
        for _ in range(200)
    ]
    results = []
    for name, every in (("often", 5), ("once", 200)):
        scribe = Scribe(Log(tmp_path / name / "t-0", topic_config(cleanup_policy="compact")))
        scribe.log.create()
        cleaner = Cleaner()
        for number, batch in enumerate(batches, 1):
            write(scribe, *batch)
            if number % every == 0:
                scribe.log.roll()
                cleaner.clean(scribe)
        results.append(contents(scribe))
        scribe.log.abandon()
    assert results[0] == results[1]
