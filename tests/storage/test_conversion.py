"""Segments in old message formats become segments of today's with the same records at the same offsets."""

from pathlib import Path

import pytest

from ottla.protocol.batch import CREATE_TIME, LOG_APPEND_TIME, check, iter_batches
from ottla.protocol.errors import ProtocolError
from ottla.protocol.legacy import downconvert
from ottla.protocol.records import Record, build_batch, iter_records
from ottla.storage.conversion import BATCH_RECORDS, convert, is_old


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    return tmp_path / f"{100:020d}.log"


def some(first: int, count: int = 3, *, time: int = 5, step: int = 2) -> list[Record]:
    return [Record(first + step * at, time + at, b"k", f"{first} {at}".encode()) for at in range(count)]


def old(records: list[Record], magic: int, **batch: int) -> bytes:
    return downconvert(build_batch(records, base_offset=records[0].offset, **batch), magic, limit=1 << 20)  # type: ignore[arg-type]


def records_of(data: bytes) -> list[Record]:
    found = []
    for position, header in iter_batches(data):
        check(data, position)
        found += list(iter_records(data[position : position + header.size], 1 << 20))
    return found


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_with_gaps_and_everything_else_stay(segment: Path, magic: int, codec: int) -> None:
    records = some(100) + some(200)
    segment.write_bytes(old(records[:3], magic, codec=codec) + old(records[3:], magic, codec=codec))
    assert is_old(segment)
    data = b"".join(convert(segment))
    expected = records if magic else [record._replace(timestamp=-1) for record in records]
    assert records_of(data) == expected
    assert {header.codec for _, header in iter_batches(data)} == {codec}


def test_messages_that_stand_alone_share_batches(segment: Path) -> None:
    records = some(100, 2 * BATCH_RECORDS, step=1)
    segment.write_bytes(old(records, 1))
    assert len(list(convert(segment))) == 2
    assert records_of(b"".join(convert(segment))) == records


@pytest.mark.parametrize("codec", [0, 1])
def test_the_type_of_timestamps_and_each_append_time_stay(segment: Path, codec: int) -> None:
    first, second = some(100, 2, time=7), some(200, 2, time=90)
    parts = [old(part, 1, codec=codec, timestamp_type=LOG_APPEND_TIME) for part in (first, second)]
    segment.write_bytes(b"".join(parts) + old(some(300), 1, codec=codec))
    data = b"".join(convert(segment))
    assert [record.timestamp for record in records_of(data)] == [8, 8, 91, 91, 5, 6, 7]
    types = [header.timestamp_type for _, header in iter_batches(data)]
    assert types == sorted(types, reverse=True)
    assert set(types) == {LOG_APPEND_TIME, CREATE_TIME}


def test_batches_of_today_pass_as_they_are(segment: Path) -> None:
    today = bytes(build_batch(some(200), base_offset=200, codec=4, producer_id=7, producer_epoch=1, base_sequence=0))
    segment.write_bytes(old(some(100), 0) + today)
    data = b"".join(convert(segment))
    assert data.endswith(today)
    assert records_of(data)[3:] == some(200)
    segment.write_bytes(today)
    assert not is_old(segment)


def test_damage_is_an_error_and_a_torn_end_is_left_out(segment: Path) -> None:
    data = old(some(100), 1) + old(some(200), 1, codec=1)
    segment.write_bytes(data[:-1])
    assert records_of(b"".join(convert(segment))) == some(100)
    segment.write_bytes(data[:30] + bytes([data[30] ^ 1]) + data[31:])
    with pytest.raises(ProtocolError, match="CRC"):
        list(convert(segment))
