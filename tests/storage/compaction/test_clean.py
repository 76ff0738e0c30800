"""What compaction keeps, what it drops, and what it leaves as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.protocol.batch import CorruptBatch
from ottla.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.protocol.records import ABORT, COMMIT, Record, build_batch, control_batch
from ottla.storage.compaction.clean import Uncleanable
from ottla.storage.transactions import AbortedTransaction, encode_txn_index, read_txn_index
from support.compacting import Cleaner, contents, headers, write, write_batch
from support.scribe import NOW, Scribe

DAY = 86_400_000

NewLog = Callable[..., Scribe]


@pytest.fixture
def scribe(new_log: NewLog) -> Scribe:
    return new_log(cleanup_policy="compact")


@pytest.fixture
def cleaner() -> Cleaner:
    return Cleaner()


def test_the_newest_record_of_each_key_stays_where_it_was(scribe: Scribe, cleaner: Cleaner) -> None:
    write(scribe, ("A", "1000"), ("B", "1000"), ("C", "1000"))
    write(scribe, ("A", "2000"), ("B", "2000"), ("b", "3000"))
    scribe.log.roll()
    totals = cleaner.clean(scribe)
    assert contents(scribe) == [(2, "C", "1000"), (3, "A", "2000"), (4, "B", "2000"), (5, "b", "3000")]
    assert (totals.records_read, totals.records_kept, totals.end) == (6, 4, 6)
    assert scribe.read_all()[0].timestamp == NOW + 2


def test_the_active_segment_is_left_alone(scribe: Scribe, cleaner: Cleaner) -> None:
    write(scribe, ("a", "1"))
    scribe.log.roll()
    write(scribe, ("a", "2"))
    write(scribe, ("a", "3"))
    cleaner.clean(scribe)
    assert contents(scribe) == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]
    scribe.log.roll()
    cleaner.clean(scribe)
    assert contents(scribe) == [(2, "a", "3")]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_that_loses_records_keeps_its_header(scribe: Scribe, cleaner: Cleaner, codec: int) -> None:
    write(scribe, ("a", "1"), ("b", "1"), ("c", "1"), producer=(7, 3, 40), codec=codec)
    write(scribe, ("a", "2"), ("c", "2"), producer=(7, 3, 43), codec=codec)
    scribe.log.roll()
    before = headers(scribe.log.directory)
    cleaner.clean(scribe)
    after = headers(scribe.log.directory)
    assert contents(scribe) == [(1, "b", "1"), (3, "a", "2"), (4, "c", "2")]
    assert after[1] == before[1]
    kept = {"batch_length", "crc", "record_count", "max_timestamp"}
    for name in before[0]._fields:
        if name not in kept:
            assert getattr(after[0], name) == getattr(before[0], name), name
    assert (after[0].record_count, after[0].max_timestamp, after[0].codec) == (1, NOW + 1, codec)


def test_a_batch_that_loses_nothing_is_copied_as_it_is(scribe: Scribe, cleaner: Cleaner) -> None:
    write(scribe, ("a", "1"), ("b", "1"), codec=LZ4)
    write(scribe, ("c", "1"))
    scribe.log.roll()
    before = (scribe.log.directory / f"{0:020}.log").read_bytes()
    cleaner.clean(scribe)
    assert (scribe.log.directory / f"{0:020}.log").read_bytes() == before


def test_headers_of_records_survive(scribe: Scribe, cleaner: Cleaner) -> None:
    kept = Record(1, NOW, b"b", b"v" * 300, (("h", b"1"), ("null", None)))
    write_batch(scribe, build_batch([Record(0, NOW, b"a", b"1"), kept]))
    write(scribe, ("a", "2"))
    scribe.log.roll()
    cleaner.clean(scribe)
    assert scribe.read_all()[0] == kept


def test_records_without_a_key_go_and_are_counted(scribe: Scribe, cleaner: Cleaner) -> None:
    write(scribe, (None, "1"), ("a", "1"), (None, "2"))
    scribe.log.roll()
    assert cleaner.clean(scribe).without_key == 2
    assert contents(scribe) == [(1, "a", "1")]


@pytest.mark.parametrize("size", [14, 15, 16, 17, 1000])
def test_keys_of_any_length_are_told_apart(scribe: Scribe, cleaner: Cleaner, size: int) -> None:
    keys = ["k" * size, "k" * size + "\0", "k" * (size - 1) + "\0", "", "\0"]
    for value in ("old", "new"):
        write(scribe, *((key, value) for key in keys))
    scribe.log.roll()
    cleaner.clean(scribe)
    assert contents(scribe) == [(len(keys) + at, key, "new") for at, key in enumerate(keys)]


# -- tombstones ----------------------------------------------------------------------------------------------------


def test_a_tombstone_stays_until_its_horizon_and_then_goes(new_log: NewLog, cleaner: Cleaner) -> None:
    scribe = new_log(cleanup_policy="compact", delete_retention_ms=1000)
    write(scribe, ("a", "1"), ("b", "1"))
    write(scribe, ("a", None), ("c", "1"), timestamp=NOW + 5)
    scribe.log.roll()
    cleaner.clean(scribe, now_ms=NOW + 10_000)
    assert contents(scribe) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    (_, marked) = headers(scribe.log.directory)
    assert marked.has_delete_horizon
    assert marked.base_timestamp == NOW + 11_000
    assert [record.timestamp for record in scribe.read(2)] == [NOW + 5, NOW + 6]
    for later, there in ((10_999, True), (11_000, False)):
        write(scribe, ("x", "1"))
        scribe.log.roll()
        cleaner.clean(scribe, now_ms=NOW + later)
        assert ((2, "a", None) in contents(scribe)) is there
    assert [record.timestamp for record in scribe.read(3) if record.offset == 3] == [NOW + 6]


def test_a_horizon_is_set_once(new_log: NewLog, cleaner: Cleaner) -> None:
    scribe = new_log(cleanup_policy="compact", delete_retention_ms=1000)
    write(scribe, ("a", None), ("b", "1"))
    scribe.log.roll()
    cleaner.clean(scribe)
    write(scribe, ("b", "2"))
    scribe.log.roll()
    cleaner.clean(scribe, now_ms=NOW + 500)
    assert contents(scribe) == [(0, "a", None), (2, "b", "2")]
    assert headers(scribe.log.directory)[0].base_timestamp == NOW + 1000


def test_a_tombstone_that_is_kept_for_ever_has_a_horizon_that_a_clock_can_hold(
    new_log: NewLog, cleaner: Cleaner
) -> None:
    scribe = new_log(cleanup_policy="compact", delete_retention_ms=2**63 - 1)
    write(scribe, ("a", None))
    scribe.log.roll()
    cleaner.clean(scribe)
    assert headers(scribe.log.directory)[0].base_timestamp == 2**63 - 1
    assert scribe.read_all()[0].timestamp == NOW


# -- producers and transactions ------------------------------------------------------------------------------------


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(new_log: NewLog, cleaner: Cleaner) -> None:
    scribe = new_log(cleanup_policy="compact")
    write(scribe, ("a", "1"), producer=(7, 0, 0))
    write(scribe, ("a", "2"), ("a", "3"), producer=(7, 0, 1), codec=GZIP)
    write(scribe, ("a", "4"))
    scribe.log.roll()
    cleaner.clean(scribe)
    assert contents(scribe) == [(3, "a", "4")]
    empty, _ = headers(scribe.log.directory)
    assert (empty.record_count, empty.base_offset, empty.last_offset, empty.codec) == (0, 1, 2, NONE)
    assert (empty.producer_id, empty.base_sequence, empty.last_sequence) == (7, 1, 2)
    scribe.log.close()
    for snapshot in scribe.log.directory.glob("*.snapshot"):
        snapshot.unlink()
    again = new_log(cleanup_policy="compact")
    assert again.log.producers.check(7, 0, 3, 3) is None
    assert again.log.producers.check(7, 0, 1, 2) == (1, NOW + 1)


def test_an_empty_batch_goes_when_its_producer_has_written_on(scribe: Scribe, cleaner: Cleaner) -> None:
    write(scribe, ("a", "1"), producer=(7, 0, 0))
    write(scribe, ("a", "2"))
    scribe.log.roll()
    cleaner.clean(scribe)
    assert [header.record_count for header in headers(scribe.log.directory)] == [0, 1]
    write(scribe, ("b", "1"), producer=(7, 0, 1))
    write(scribe, ("c", "1"))
    scribe.log.roll()
    cleaner.clean(scribe)
    assert [header.base_offset for header in headers(scribe.log.directory)] == [1, 2, 3]


def test_the_last_batch_of_a_round_stays_so_that_the_end_is_known(scribe: Scribe, cleaner: Cleaner) -> None:
    write(scribe, ("a", "1"))
    write(scribe, (None, "no key"))
    scribe.log.roll()
    cleaner.clean(scribe)
    assert [(header.base_offset, header.record_count) for header in headers(scribe.log.directory)] == [(0, 1), (1, 0)]
    assert contents(scribe) == [(0, "a", "1")]


def transaction(scribe: Scribe, producer_id: int, marker: int, *records: tuple[str, str]) -> tuple[int, int]:
    made = [Record(at, NOW, key.encode(), value.encode()) for at, (key, value) in enumerate(records)]
    first = write_batch(
        scribe,
        build_batch(made, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True),
    )
    last = write_batch(
        scribe,
        control_batch(marker, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW),
    )
    return first, last


def test_aborted_records_go_and_hide_nothing(new_log: NewLog, cleaner: Cleaner) -> None:
    scribe = new_log(cleanup_policy="compact", delete_retention_ms=1000)
    write(scribe, ("a", "committed"))
    first, last = transaction(scribe, 7, ABORT, ("a", "aborted"), ("b", "aborted"))
    write(scribe, ("z", "1"))
    index = scribe.log.directory / f"{0:020}.txnindex"
    aborted = AbortedTransaction(first, last, 7, last)
    index.write_bytes(encode_txn_index([aborted]))
    scribe.log.producers.clear()
    scribe.log.roll()

    cleaner.clean(scribe)
    values = [record.value for record in scribe.read_all()]
    assert b"committed" in values
    assert b"aborted" not in values
    assert [header.base_offset for header in headers(scribe.log.directory)] == [0, last, last + 1]
    assert read_txn_index(index) == [aborted]  # the marker is still there

    for now_ms, marker_there in ((NOW, True), (NOW + 999, True), (NOW + 1000, False)):
        write(scribe, ("y", str(now_ms)))
        scribe.log.roll()
        cleaner.clean(scribe, now_ms=now_ms)
        assert (last in [header.base_offset for header in headers(scribe.log.directory)]) is marker_there
        assert not index.exists()


def test_a_commit_marker_stays_as_long_as_its_records_and_then_to_its_horizon(
    new_log: NewLog, cleaner: Cleaner
) -> None:
    scribe = new_log(cleanup_policy="compact", delete_retention_ms=1000)
    _, last = transaction(scribe, 7, COMMIT, ("a", "1"))
    scribe.log.producers.clear()

    def rounds(*steps: tuple[str, int, bool]) -> None:
        for key, now_ms, there in steps:
            write(scribe, (key, str(now_ms)))
            scribe.log.roll()
            cleaner.clean(scribe, now_ms=now_ms)
            assert (last in [header.base_offset for header in headers(scribe.log.directory)]) is there

    rounds(("b", NOW + 5000, True), ("a", NOW + 6000, True), ("b", NOW + 7000, True), ("b", NOW + 7999, True))
    rounds(("b", NOW + 8000, False))


# -- the map's memory ----------------------------------------------------------------------------------------------


def fill(scribe: Scribe, segments: int, keys: int) -> None:
    for segment in range(segments):
        for at in range(keys):
            write(scribe, (f"{segment % 2}-{at}", str(segment)))
        scribe.log.roll()


def test_what_does_not_fit_is_left_dirty_and_the_oldest_segments_come_first(scribe: Scribe, cleaner: Cleaner) -> None:
    fill(scribe, 6, 50)
    totals = cleaner.clean(scribe, memory=24 * 90)
    assert totals.fits
    assert totals.end == 50  # the second segment has 50 keys more, and the map takes 80
    for _ in range(10):
        cleaner.clean(scribe, memory=24 * 90)
    assert cleaner.checkpoint == 300
    assert [offset for offset, _, _ in contents(scribe)] == list(range(200, 300))


def test_a_segment_that_does_not_fit_is_cleaned_in_parts(scribe: Scribe, cleaner: Cleaner) -> None:
    fill(scribe, 2, 50)
    fill(scribe, 1, 50)
    totals = cleaner.clean(scribe, memory=24 * 30)
    assert not totals.fits
    assert 0 < totals.end < 50
    for _ in range(20):
        cleaner.clean(scribe, memory=24 * 30)
    assert cleaner.checkpoint == 150
    assert [offset for offset, _, _ in contents(scribe)] == list(range(50, 150))


def test_a_map_that_takes_no_batch_makes_the_log_uncleanable(scribe: Scribe, cleaner: Cleaner) -> None:
    write(scribe, *((str(key), "1") for key in range(10)))
    scribe.log.roll()
    with pytest.raises(Uncleanable):
        cleaner.clean(scribe, memory=24 * 5)


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [16, 30, 65])
def test_a_damaged_batch_ends_the_work_and_nothing_is_left(scribe: Scribe, cleaner: Cleaner, position: int) -> None:
    write(scribe, ("a", "1"))
    scribe.log.roll()
    write(scribe, ("a", "2"))
    scribe.log.roll()
    path = scribe.log.directory / f"{1:020}.log"
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptBatch, match=r"00000000000000000001\.log at 0"):
        cleaner.clean(scribe)
    assert list(scribe.log.directory.glob("*.cleaned")) == []


# -- segments ------------------------------------------------------------------------------------------------------


def test_small_segments_become_one_and_indexes_fit_it(new_log: NewLog, cleaner: Cleaner) -> None:
    scribe = new_log(cleanup_policy="compact", index_interval_bytes=100)
    fill(scribe, 10, 20)
    cleaner.clean(scribe)
    assert scribe.log.segment_base_offsets() == [0, 200]
    expected = contents(scribe)
    assert [offset for offset, _, _ in expected] == list(range(160, 200))
    for offset, _, _ in expected:
        assert scribe.read(offset, limit=1)[0].offset == offset
        assert scribe.log.offset_for_timestamp(NOW) == (NOW, 160)
    scribe.log.close()
    assert contents(new_log(clean=True, cleanup_policy="compact")) == expected
    assert contents(new_log(clean=False, cleanup_policy="compact")) == expected


def test_the_newest_record_by_time_is_one_that_is_there(new_log: NewLog, cleaner: Cleaner) -> None:
    scribe = new_log(cleanup_policy="compact")
    write(scribe, ("a", "1"), producer=(7, 0, 0), timestamp=NOW + 100)
    write(scribe, ("a", "2"), timestamp=NOW)
    scribe.log.roll()
    cleaner.clean(scribe)
    assert scribe.log.max_timestamp_offset() == (NOW, 1)
    scribe.log.close()
    assert new_log(clean=False, cleanup_policy="compact").log.max_timestamp_offset() == (NOW, 1)
