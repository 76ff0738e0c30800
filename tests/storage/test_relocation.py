"""A log that moves to another data directory: its bytes, its readers, and what a crash at each step leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.storage.directory import DataDirectory
from ottla.storage.failures import Reach, reach_of
from ottla.storage.file import FileSlice
from ottla.storage.log import Log
from ottla.storage.logs import Logs
from ottla.storage.relocation import FutureLog, SourceFailed, forget_source
from support.scribe import Scribe, topic_config

KEY = ("t", 0)
ID = bytes(range(16))
ALL = 1 << 40


class Disks:
    """Two data directories with one log on the first, written by a scribe."""

    def __init__(self, path: Path, **config: object) -> None:
        self.paths = [path / "a", path / "b"]
        self.config = topic_config(**config)
        self.open()

    def open(self) -> None:
        self.logs = Logs(self.paths)
        self.logs.lock("c", 0)
        self.logs.mark("c", 0)
        self.log = self.logs.open_all({KEY: (ID, self.config)})[KEY]
        self.scribe = Scribe(self.log)

    def crash(self) -> None:
        """As kill -9 leaves things."""
        self.log.abandon()
        self.logs.unlock(clean=False)
        self.open()

    def future(self, to: int = 1) -> FutureLog:
        future = FutureLog(KEY, self.log, self.logs.directories[to])
        self.logs.futures[KEY] = future
        future.reserve()
        future.begin(ID)
        return future

    def homes(self) -> list[str]:
        return [path.name for path in self.paths if (path / "t-0").is_dir()]

    def values(self) -> list[str]:
        return [record.value.decode() for record in self.scribe.read_all(self.log.start_offset)]

    def offsets_by_time(self) -> list[tuple[int, int] | None]:
        return [self.log.offset_for_timestamp(record.timestamp) for record in self.scribe.read_all()]

    def files(self) -> dict[str, bytes]:
        found = sorted(path for path in self.log.directory.iterdir() if path.name != "partition.metadata")
        return {path.name: path.read_bytes() for path in found}


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    made = Disks(tmp_path, segment_bytes=600)
    for number in range(12):
        made.scribe.write(f"{number}" * 40, producer=(7, 0, number), epoch=number // 4)
    assert len(made.log.segments) > 2
    return made


def copy_all(future: FutureLog) -> None:
    wanted = future.wanted()
    future.copy(wanted, ALL)
    future.put_on_disk(wanted)


def test_the_copy_has_the_same_bytes_and_the_log_goes_on_in_it(disks):
    before, values, epochs = disks.files(), disks.values(), list(disks.log.epochs)
    times = {path.name: path.stat().st_mtime_ns for path in disks.log.directory.glob("*.log")}
    future = disks.future()
    copy_all(future)
    assert future.size == disks.log.size
    was = disks.logs.move(future)
    assert disks.log.directory == disks.paths[1] / "t-0"
    assert was == disks.paths[0] / "t-0"
    after = disks.files()
    assert {name: data for name, data in after.items() if name in before} == before
    assert after.keys() - before.keys() <= {"moved-from", *(path.name for path in disks.log.directory.glob("*index"))}
    assert {path.name: path.stat().st_mtime_ns for path in disks.log.directory.glob("*.log")} == times
    assert disks.values() == values
    assert list(disks.log.epochs) == epochs
    shutil.rmtree(was)
    assert disks.scribe.write("more", producer=(7, 0, 12)) == 12
    assert disks.values() == [*values, "more"]


@pytest.mark.parametrize("limit", [1, 100, 1000])
def test_a_log_that_grows_meanwhile_is_copied_piece_by_piece(disks, limit):
    future = disks.future()
    number = 12
    while future.lacks(future.wanted()) > 200:
        assert 0 <= future.copy(future.wanted(), limit) <= limit
        assert future.end_offset <= disks.log.end_offset
        if number < 40:
            disks.scribe.write(f"{number}")
            number += 1
    while not future.may_take_over(200):
        copy_all(future)
    disks.logs.move(future)
    assert disks.values() == [f"{n}" * 40 if n < 12 else f"{n}" for n in range(number)]


def test_segments_that_retention_takes_go_from_the_copy_too(disks):
    future = disks.future()
    copy_all(future)
    for path in disks.log.delete_oldest(1):
        path.unlink()
    values = disks.values()
    disks.logs.move(future)
    assert len(list(disks.log.directory.glob("*.log"))) == len(disks.log.segments)
    assert (disks.values(), disks.log.start_offset) == (values, 12 - len(values))
    disks.crash()
    assert disks.values() == values


def test_a_segment_that_goes_before_it_is_copied_is_no_failure_and_one_that_is_lost_is(disks):
    future = disks.future()
    stale = future.wanted()
    for path in disks.log.delete_oldest(1):
        path.unlink()
    future.copy(stale, ALL)
    copy_all(future)
    assert future.may_take_over(0)
    other = disks.future()
    disks.log.segments[0].file.path.unlink()
    other.copy(other.wanted(), ALL)
    with pytest.raises(SourceFailed, match="is gone"):
        other.copy(other.wanted(), ALL)


def test_a_log_that_was_cut_is_copied_again_from_there(disks):
    future = disks.future()
    copy_all(future)
    disks.log.truncate_to(8)
    for number in range(8, 14):
        disks.scribe.write(f"new {number}", epoch=5)
    while not future.may_take_over(0):
        copy_all(future)
    values = disks.values()
    disks.logs.move(future)
    assert disks.values() == values
    assert values[8] == "new 8"


def test_of_a_log_that_grows_too_fast_all_that_is_left_is_copied_when_the_copy_takes_over(disks):
    future = disks.future()
    written = 12
    for _ in range(3):  # each time segments are complete again that were not there to be copied
        copy_all(future)
        for number in range(written, written + 8):
            disks.scribe.write(f"{number}" * 20, producer=(7, 0, number))
        written += 8
        assert not future.may_take_over(ALL)
    values, segments, times = disks.values(), len(disks.log.segments), disks.offsets_by_time()
    disks.logs.write_recovery_points()
    disks.logs.move(future)
    assert len(values) == written
    for _ in range(2):
        assert disks.values() == values
        assert len(disks.log.segments) == segments
        assert disks.offsets_by_time() == times
        assert disks.log.producers.check(7, 0, written, written) is None
        disks.crash()


def test_a_log_that_is_not_all_copied_does_not_take_over(disks):
    future = disks.future()
    future.copy(future.wanted(), 300)
    future.cancelled = True
    with pytest.raises(SourceFailed, match="not all of it"):
        disks.logs.move(future)
    assert disks.homes() == ["a"]
    disks.scribe.write("on")
    assert disks.values()[-1] == "on"


def test_readers_under_way_keep_the_old_files(tmp_path):
    disks = Disks(tmp_path)
    disks.scribe.write("x" * 200_000)
    data, length = disks.log.read(0, 1 << 20, 1 << 62, True)
    assert isinstance(data, FileSlice)
    first = data.read(1000)
    future = disks.future()
    copy_all(future)
    shutil.rmtree(disks.logs.move(future))
    rest = b"".join(iter(lambda: data.read(1 << 20), b""))
    data.close()
    again, same_length = disks.log.read(0, 1 << 20, 1 << 62, True)
    assert isinstance(again, FileSlice)
    assert (first + rest, length) == (again.read(1 << 20), same_length)


def test_indexes_and_producers_are_those_of_the_log(disks):
    found = disks.offsets_by_time()
    future = disks.future()
    copy_all(future)
    shutil.rmtree(disks.logs.move(future))
    assert disks.offsets_by_time() == found
    assert disks.log.producers.check(7, 0, 12, 12) is None
    assert disks.log.producers.check(7, 0, 11, 11) is not None  # a duplicate
    disks.crash()
    assert disks.log.producers.check(7, 0, 12, 12) is None
    assert list(disks.log.epochs) == [(0, 0), (1, 4), (2, 8)]


# -- crashes


def begin(disks: Disks) -> None:
    disks.future()


def copy_half(disks: Disks) -> None:
    future = disks.future()
    future.copy(future.wanted(), 700)


def copy_everything(disks: Disks) -> None:
    copy_all(disks.future())
    disks.logs.write_recovery_points()


def take_over(disks: Disks) -> Path:
    future = disks.future()
    copy_all(future)
    disks.logs.write_recovery_points()
    return disks.logs.move(future)


def take_over_and_write(disks: Disks) -> None:
    take_over(disks)
    disks.scribe.write("after")


def hide_the_old_one(disks: Disks) -> None:
    was = take_over(disks)
    disks.scribe.write("after")
    DataDirectory.set_aside(was)


def finish(disks: Disks) -> None:
    hide_the_old_one(disks)
    forget_source(disks.log.directory)


@pytest.mark.parametrize(
    ("step", "home", "written"),
    [
        (begin, "a", []),
        (copy_half, "a", []),
        (copy_everything, "a", []),
        (take_over, "b", []),
        (take_over_and_write, "b", ["after"]),
        (hide_the_old_one, "b", ["after"]),
        (finish, "b", ["after"]),
    ],
)
def test_a_crash_after_any_step_loses_nothing(disks, step: Callable[[Disks], object], home, written):
    values = disks.values()
    step(disks)
    for _ in range(2):
        disks.crash()
        assert disks.values() == values + written
        assert disks.homes() == [home]
        assert not list(disks.log.directory.glob("moved-from"))
    again = disks.log.end_offset
    assert disks.scribe.write("on") == again
    unfinished = [key for directory in disks.logs.directories for key, _ in directory.futures()]
    assert unfinished == ([KEY] if home == "a" else [])


def test_a_log_that_moved_from_a_disk_that_is_away_stays_when_it_comes_back(disks):
    values = disks.values()
    take_over_and_write(disks)
    disks.log.abandon()
    disks.logs.unlock(clean=False)
    # the first of log.dirs must always be there, so the one that is away is the other one here
    disks.paths.reverse()
    away = disks.paths[1].rename(disks.paths[1].with_name("away"))
    disks.paths[1].write_text("not a directory")
    disks.open()
    assert disks.values() == [*values, "after"]
    disks.scribe.write("alone")
    disks.log.abandon()
    disks.logs.unlock(clean=False)
    disks.paths[1].unlink()
    away.rename(disks.paths[1])
    disks.open()
    assert disks.values() == [*values, "after", "alone"]
    assert disks.homes() == ["b"]


@pytest.mark.parametrize("step", [take_over_and_write, hide_the_old_one])
def test_what_the_disk_refused_at_the_end_of_a_move_is_made_up_for_by_the_next(disks, step: Callable[[Disks], object]):
    values = disks.values()
    step(disks)  # and `moved-from` stays
    future = disks.future(to=0)
    copy_all(future)
    disks.logs.write_recovery_points()
    disks.logs.move(future)
    disks.scribe.write("back")
    for _ in range(2):
        disks.crash()
        assert disks.values() == [*values, "after", "back"]
        assert disks.homes() == ["a"]


def test_what_the_disk_still_refuses_keeps_a_log_from_moving_on(disks, monkeypatch):
    values = disks.values()
    take_over_and_write(disks)

    def refuse(*_: object) -> Path:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(DataDirectory, "set_aside", refuse)
        with pytest.raises(SourceFailed, match="cannot be removed") as raised:
            disks.future(to=0)
    assert reach_of(raised.value) is Reach.REQUEST
    disks.crash()
    assert disks.values() == [*values, "after"]
    assert disks.homes() == ["b"]


def test_partitions_that_name_each_other_are_both_kept(disks):
    disks.log.abandon()
    disks.logs.unlock(clean=False)
    homes = [path / "t-0" for path in disks.paths]
    shutil.copytree(*homes)
    for home, other in zip(homes, reversed(homes), strict=True):
        (home / "moved-from").write_text(str(other))
    disks.open()
    assert len(disks.values()) == 12
    assert [path.name.endswith("-stray") for path in disks.paths[1].glob("t-0*")] == [True]


def test_a_partition_that_lies_twice_for_no_known_reason_is_kept_twice(disks, caplog):
    disks.log.abandon()
    disks.logs.unlock(clean=False)
    shutil.copytree(disks.paths[0] / "t-0", disks.paths[1] / "t-0")
    disks.open()
    assert len(disks.homes()) == 1
    assert [path.name.endswith("-stray") for path in disks.paths[1].glob("t-0*")] == [True]
    assert "nobody knows why" in caplog.text


def test_checkpoints_of_both_directories_have_a_log_on_its_way(disks):
    disks.log.move_start(3)
    future = disks.future()
    copy_all(future)
    disks.logs.write_log_starts()
    disks.logs.write_recovery_points()
    disks.logs.write_high_watermarks()
    a, b = disks.logs.directories
    assert a.log_starts() == b.log_starts() == {KEY: 3}
    assert b.recovery_points() == {KEY: disks.log.active.base_offset}
    disks.logs.move(future)
    disks.logs.write_log_starts()
    assert (a.log_starts(), b.log_starts()) == ({}, {KEY: 3})
    disks.crash()
    assert disks.log.start_offset == 3


def test_what_was_left_of_a_former_move_does_not_stand_in_the_way(disks):
    (disks.paths[1] / "t-0").mkdir()
    (disks.paths[1] / "t-0" / "something").write_text("old")
    future = disks.future()
    copy_all(future)
    disks.logs.move(future)
    assert disks.values()[0] == "0" * 40


def test_a_log_of_any_kind_can_be_opened_where_it_went(disks):
    take_over(disks)
    disks.logs.close()
    reopened = Log(disks.paths[1] / "t-0", disks.config)
    reopened.open(clean=True)
    assert reopened.end_offset == 12
    reopened.abandon()
