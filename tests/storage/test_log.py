"""A log keeps what it is given, finds it again, and survives being left in any state."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.batch import iter_batches
from ottla.storage.errors import OffsetOutOfRange, StorageError
from ottla.storage.file import FileSlice
from ottla.storage.log import Log
from ottla.storage.segment import SMALL_READ
from support.scribe import NOW, Scribe, topic_config

NewLog = Callable[..., Scribe]


def values(records: list) -> list[bytes]:
    return [record.value for record in records]


def test_offsets_count_records_and_the_end_is_the_next_one(new_log: NewLog) -> None:
    scribe = new_log()
    assert scribe.write("a", "b", "c") == 0
    assert scribe.write("d") == 3
    assert scribe.log.end_offset == 4
    assert [(record.offset, record.value) for record in scribe.read(0)] == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]


def test_a_read_from_inside_a_batch_returns_the_whole_batch(new_log: NewLog) -> None:
    scribe = new_log()
    scribe.write("a", "b", "c")
    scribe.write("d")
    assert values(scribe.read(2)) == [b"a", b"b", b"c", b"d"]


def test_a_read_at_the_end_is_empty_and_beyond_it_is_out_of_range(new_log: NewLog) -> None:
    scribe = new_log()
    scribe.write("a")
    assert scribe.log.read(1, 100, 1, True) == (None, 0)
    with pytest.raises(OffsetOutOfRange):
        scribe.log.read(2, 100, 2, True)
    with pytest.raises(OffsetOutOfRange):
        scribe.log.read(-1, 100, 2, True)


def test_a_byte_limit_ends_on_a_batch_boundary_but_the_first_batch_always_comes(new_log: NewLog) -> None:
    scribe = new_log()
    for _ in range(50):
        scribe.write("x" * 100)
    one = len(scribe.log.active.batch_at(0))
    assert len(scribe.read(0, 3 * one + 10)) == 3
    assert len(scribe.read(7, one - 1)) == 1
    assert scribe.log.read(0, one - 1, 50, False) == (None, 0)


def test_records_at_or_above_the_bound_are_not_shown(new_log: NewLog) -> None:
    scribe = new_log()
    for value in "abcdef":
        scribe.write(value)
    assert values(scribe.read(1, below=4)) == [b"b", b"c", b"d"]
    assert scribe.log.read(4, 1000, 4, True) == (None, 0)


def test_many_small_batches_are_found_by_index_from_any_offset(new_log: NewLog) -> None:
    scribe = new_log(index_interval_bytes=200)
    for number in range(2000):
        scribe.write(f"{number}" * 5)
    scribe.log.active._hints.clear()  # what a reader finds without help of the last writes
    for offset in (0, 1, 499, 1000, 1777, 1999):
        assert scribe.read(offset, 1)[0].offset == offset
    assert len(scribe.log.active.index) > 512  # part of it is in the file


def test_a_consumer_that_reads_in_steps_sees_every_record_once(new_log: NewLog) -> None:
    scribe = new_log(segment_bytes=20_000, index_interval_bytes=500)
    for number in range(1500):
        scribe.write(f"value {number}", timestamp=NOW + number)
    assert len(scribe.log.segments) > 3
    offset, seen = 0, []
    while offset < scribe.log.end_offset:
        step = scribe.read(offset, 1500)
        seen += [record.value for record in step if record.offset >= offset]
        offset = step[-1].offset + 1
    assert seen == [f"value {number}".encode() for number in range(1500)]


def test_a_large_read_comes_as_a_part_of_the_file_that_outlives_the_segment(new_log: NewLog) -> None:
    scribe = new_log()
    payload = os.urandom(SMALL_READ)
    scribe.write(payload)
    part, length = scribe.log.read(0, 1 << 20, 1, True)
    assert isinstance(part, FileSlice)
    scribe.log.active.delete_files()
    data = b"".join(iter(lambda: part.read(1000), b""))
    part.close()
    assert len(data) == length
    assert payload in data


def test_segments_roll_by_size_by_time_and_when_the_index_is_full(new_log: NewLog, tmp_path: Path) -> None:
    scribe = new_log(segment_bytes=1000)
    for _ in range(20):
        scribe.write("x" * 90)
    assert all(segment.size <= 1000 for segment in scribe.log.segments)
    assert len(scribe.log.segments) == 4
    scribe = new_log(segment_ms=1000)
    before = len(scribe.log.segments)
    scribe.write("a", timestamp=NOW)
    scribe.write("a", timestamp=NOW + 1000)
    assert len(scribe.log.segments) == before
    scribe.write("b", timestamp=NOW + 1001)
    assert len(scribe.log.segments) == before + 1
    scribe = new_log(segment_index_bytes=24, index_interval_bytes=0)
    before = len(scribe.log.segments)
    for _ in range(10):
        scribe.write("x" * 10)
    assert len(scribe.log.segments) == before + 2
    names = sorted(path.name for path in (tmp_path / "t-0").glob("*.log"))
    assert names[0] == "00000000000000000000.log"


def test_a_log_that_was_closed_opens_as_it_was(new_log: NewLog) -> None:
    scribe = new_log(segment_bytes=2000, index_interval_bytes=100)
    for number in range(100):
        scribe.write(f"{number}" * 10, timestamp=NOW + number)
    scribe.log.close()
    again = new_log(segment_bytes=2000, index_interval_bytes=100)
    assert again.log.end_offset == 100
    assert values(again.read_all()) == [f"{number}".encode() * 10 for number in range(100)]
    assert again.log.offset_for_timestamp(NOW + 57) == (NOW + 57, 57)
    assert again.write("more") == 100


@pytest.mark.parametrize("left", ["cleanly", "in a hurry"])
def test_the_last_five_batches_of_a_producer_are_known_after_a_restart(new_log: NewLog, left: str) -> None:
    scribe = new_log(segment_bytes=1200)
    for sequence in range(40):
        scribe.write("x" * 50, producer=(1, 0, sequence))
        scribe.write("y" * 50, producer=(2, 0, sequence))
    scribe.write("z", producer=(3, 5, 9))
    known = [(producer, state.batches) for producer, state in scribe.log.producers.items()]
    assert [len(batches) for _, batches in known] == [5, 5, 1]
    if left == "cleanly":
        scribe.log.close()
    else:
        scribe.log.roll()  # a snapshot in the midst of it
        scribe.log.abandon()
    again = new_log(clean=left == "cleanly", segment_bytes=1200)
    assert [(producer, state.batches) for producer, state in again.log.producers.items()] == known


def test_records_without_a_time_do_not_make_a_segment_look_old(new_log: NewLog) -> None:
    scribe = new_log(segment_ms=1000)
    scribe.write("format 0 has no time", timestamp=-1)
    scribe.write("a", timestamp=NOW)
    scribe.log.close()
    scribe = new_log(segment_ms=1000)
    scribe.write("b", timestamp=NOW + 900)
    assert len(scribe.log.segments) == 1
    scribe.write("c", timestamp=NOW + 1901)
    assert len(scribe.log.segments) == 2


@pytest.mark.parametrize("damage", ["torn", "flipped", "garbage", "zeros"])
def test_after_a_crash_the_log_ends_behind_the_last_good_batch(new_log: NewLog, tmp_path: Path, damage: str) -> None:
    scribe = new_log()
    for number in range(10):
        scribe.write(f"value {number}" * 20)
    scribe.log.abandon()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    last = [position for position, _ in iter_batches(data)][-1]
    if damage == "torn":
        del data[-3:]
    elif damage == "flipped":
        data[last + 80] ^= 4
    else:
        data += os.urandom(300) if damage == "garbage" else bytes(4096)
    path.write_bytes(data)
    again = new_log(clean=False)
    kept = 9 if damage in ("torn", "flipped") else 10
    assert values(again.read_all()) == [f"value {number}".encode() * 20 for number in range(kept)]
    assert again.write("next") == kept


def test_segments_behind_a_damaged_one_are_dropped_and_those_before_the_recovery_point_are_not_read(
    new_log: NewLog, tmp_path: Path
) -> None:
    scribe = new_log(segment_bytes=500)
    for number in range(20):
        scribe.write("x" * 100, timestamp=NOW + number)
    bases = scribe.log.segment_base_offsets()
    scribe.log.close()
    path = tmp_path / "t-0" / f"{bases[1]:020d}.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    trusting = new_log(clean=False, recovery_point=bases[2], segment_bytes=500)
    assert trusting.log.end_offset == 20
    trusting.log.abandon()
    checking = new_log(clean=False, segment_bytes=500)
    assert checking.log.end_offset == bases[1]


def test_missing_and_foreign_index_files_are_made_again(new_log: NewLog, tmp_path: Path) -> None:
    scribe = new_log(segment_bytes=3000, index_interval_bytes=100)
    for number in range(100):
        scribe.write("x" * 50, timestamp=NOW + number)
    scribe.log.close()
    for at, path in enumerate(sorted((tmp_path / "t-0").glob("*.index"))):
        path.unlink() if at % 2 else path.write_bytes(os.urandom(64))
    again = new_log(segment_bytes=3000, index_interval_bytes=100)
    assert [record.offset for record in again.read_all()] == list(range(100))
    assert again.log.offset_for_timestamp(NOW + 31) == (NOW + 31, 31)


def test_a_write_that_the_disk_refuses_leaves_no_trace(new_log: NewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    scribe = new_log()
    scribe.write("kept")
    size = scribe.log.active.size
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", lambda fd, data, at: 7)
        with pytest.raises(StorageError):
            scribe.write("refused")
    assert scribe.log.end_offset == 1
    assert os.fstat(scribe.log.active.file.fd).st_size == size
    assert scribe.write("next") == 1
    assert values(scribe.read_all()) == [b"kept", b"next"]


def test_a_timestamp_finds_the_exact_record_also_inside_a_compressed_batch(new_log: NewLog) -> None:
    scribe = new_log(index_interval_bytes=0)
    scribe.write("a", "b", "c", timestamp=NOW, codec=4)
    scribe.write("d", "e", timestamp=NOW + 100, codec=1)
    assert scribe.log.offset_for_timestamp(NOW - 5) == (NOW, 0)
    assert scribe.log.offset_for_timestamp(NOW + 1) == (NOW + 1, 1)
    assert scribe.log.offset_for_timestamp(NOW + 50) == (NOW + 100, 3)
    assert scribe.log.offset_for_timestamp(NOW + 101) == (NOW + 101, 4)
    assert scribe.log.offset_for_timestamp(NOW + 102) is None
    assert scribe.log.max_timestamp_offset() == (NOW + 101, 4)


def test_the_newest_timestamp_may_lie_anywhere(new_log: NewLog) -> None:
    scribe = new_log(segment_bytes=300)
    assert scribe.log.max_timestamp_offset() == (-1, -1)
    for timestamp in (5, 9, 3, 9, 1, 2):
        scribe.write("x" * 60, timestamp=NOW + timestamp)
    assert scribe.log.max_timestamp_offset() == (NOW + 9, 1)
    assert scribe.log.offset_for_timestamp(NOW + 6) == (NOW + 9, 1)


def test_producers_are_remembered_over_a_proper_stop_and_over_a_crash(new_log: NewLog) -> None:
    scribe = new_log(segment_bytes=400)
    for sequence in range(8):
        scribe.write("x" * 50, producer=(7, 0, sequence))
    scribe.log.close()
    for clean in (True, False):
        again = new_log(clean=clean, segment_bytes=400)
        assert again.log.producers.check(7, 0, 7, 7) == (7, NOW)
        assert again.log.producers.check(7, 0, 8, 8) is None
        again.log.abandon()


def test_a_broken_snapshot_is_replaced_by_reading_the_log(new_log: NewLog, tmp_path: Path) -> None:
    scribe = new_log()
    for sequence in range(3):
        scribe.write("x", producer=(7, 0, sequence))
    scribe.log.close()
    (snapshot,) = (tmp_path / "t-0").glob("*.snapshot")
    snapshot.write_bytes(snapshot.read_bytes()[:-2])
    again = new_log()
    assert again.log.producers.check(7, 0, 1, 1) == (1, NOW)
    assert not snapshot.exists()


def test_leader_epochs_are_noted_where_they_begin(new_log: NewLog) -> None:
    scribe = new_log()
    scribe.write("a", epoch=0)
    scribe.write("b", epoch=0)
    scribe.write("c", epoch=3)
    scribe.log.close()
    again = new_log()
    assert list(again.log.epochs) == [(0, 0), (3, 2)]
    assert again.log.epochs.epoch_at(1) == 0
    assert again.log.epochs.epoch_at(2) == 3


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=5), min_size=1, max_size=40),
    cut=st.integers(min_value=0, max_value=2000),
    segment_bytes=st.integers(min_value=400, max_value=3000),
)
def test_whatever_a_crash_leaves_of_the_tail_the_log_is_a_prefix_of_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]], cut: int, segment_bytes: int
) -> None:
    directory = tmp_path_factory.mktemp("log") / "t-0"
    config = topic_config(segment_bytes=segment_bytes, index_interval_bytes=100)
    log = Log(directory, config)
    log.create()
    scribe = Scribe(log)
    for batch in batches:
        scribe.write(*batch)
    written = values(scribe.read_all())
    log.abandon()
    path = sorted(directory.glob("*.log"))[-1]
    os.truncate(path, max(0, path.stat().st_size - cut))
    log = Log(directory, config)
    log.open(clean=False)
    kept = values(Scribe(log).read_all())
    log.abandon()
    assert kept == written[: len(kept)]
    assert len(kept) >= len(written) - sum(len(batch) for batch in batches if cut)
    if not cut:
        assert kept == written
