import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol import batch, compression
from ottla.protocol.batch import CorruptBatch, UnsupportedMagic
from ottla.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, DecompressionTooLarge, UnsupportedCodec
from ottla.protocol.records import (
    ABORT,
    COMMIT,
    InvalidRecord,
    Record,
    build_batch,
    control_batch,
    control_type,
    first_at_or_after,
    iter_batches,
    iter_records,
    keys_missing,
    marker_coordinator_epoch,
    max_timestamp_record,
)

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
LIMIT = 1 << 20
NOW = 1_700_000_000_000
REFUSALS = (CorruptBatch, DecompressionTooLarge, UnsupportedCodec)
RECORDS = [
    Record(0, NOW, b"k0", b"v0"),
    Record(1, NOW + 70, None, b"v" * 200, (("h", b"x"), ("n", None), ("", b""))),
    Record(2, NOW - 9000, b"", b""),
    Record(3, NOW + 100_000, b"k" * 9000, None),
    Record(4, NOW + 100_000, None, None, (("ключ", b"y" * 300),)),
]
VECTORS = Path(__file__).parent / "vectors" / "java_records.txt"

all_codecs = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: compression.NAMES[codec])


def java_batches(magic: int) -> list[tuple[int, bytes]]:
    lines = [line.split() for line in VECTORS.read_text().splitlines() if not line.startswith("#")]
    return [(int(codec), bytes.fromhex(data)) for version, codec, data in lines if int(version) == magic]


def with_payload(payload: bytes, count: int, codec: int = NONE, **fields: int) -> bytearray:
    """A batch around any payload, its length and CRC right."""
    header = batch.read_header(build_batch([Record(0, NOW, None, None)]))._replace(
        batch_length=49 + len(payload), record_count=count, last_offset_delta=max(count - 1, 0), attributes=codec
    )
    buf = bytearray(batch.HEADER.pack(*header._replace(**fields)) + payload)
    batch.seal(buf, 0, len(buf))
    return buf


def read_all(buf: Any) -> list[Record]:
    return list(iter_records(buf, LIMIT))


@all_codecs
def test_records_come_back_as_they_were_put_in(codec: int) -> None:
    built = build_batch(RECORDS, codec=codec)
    for buf in (built, bytes(built), memoryview(built), built + b"bytes of the next batch"):
        assert read_all(buf) == RECORDS


def test_the_header_of_a_built_batch_says_what_is_in_it() -> None:
    records = [record._replace(offset=record.offset * 3 + 50) for record in RECORDS]
    built = build_batch(
        records,
        codec=ZSTD,
        base_offset=50,
        producer_id=7,
        producer_epoch=2,
        base_sequence=11,
        leader_epoch=4,
        transactional=True,
    )
    header = batch.check(built)
    assert (header.base_offset, header.last_offset, header.record_count, header.size) == (50, 62, 5, len(built))
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 100_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 11)
    assert (header.partition_leader_epoch, header.codec) == (4, ZSTD)
    assert header.is_transactional
    assert not header.is_control
    assert read_all(built) == records


def test_a_log_append_time_batch_gives_every_record_its_max_timestamp() -> None:
    built = build_batch(RECORDS, timestamp_type=1)
    assert {record.timestamp for record in read_all(built)} == {NOW + 100_000}
    batch.set_max_timestamp(built, 0, NOW + 5)
    assert {record.timestamp for record in read_all(built)} == {NOW + 5}


def test_a_compacted_batch_keeps_its_last_offset_and_may_be_empty() -> None:
    header = batch.check(build_batch(RECORDS[:2], last_offset_delta=9))
    assert (header.last_offset, header.record_count) == (9, 2)
    empty = build_batch([], last_offset_delta=9)
    assert read_all(empty) == []
    assert batch.check(empty).next_offset == 10
    assert (keys_missing(empty, LIMIT), first_at_or_after(empty, 0, LIMIT)) == (None, None)
    assert max_timestamp_record(empty, LIMIT) == (-1, -1)


@pytest.mark.parametrize(
    ("records", "fields"),
    [
        ([], {}),
        ([Record(1, 0, None, None), Record(1, 0, None, None)], {}),
        ([Record(0, 0, None, None)], {"base_offset": 1}),
        ([Record(0, -1, None, None), Record(1, 2**63 - 1, None, None)], {}),
        ([Record(0, 2**63, None, None)], {}),
        ([Record(0, 0, None, None), Record(2**31, 0, None, None)], {}),
        ([Record(5, 0, None, None)], {"last_offset_delta": 4}),
        ([], {"last_offset_delta": -1}),
        ([Record(0, 0, None, None)], {"producer_id": 2**63}),
    ],
)
def test_records_that_no_batch_can_hold_are_refused(records: list[Record], fields: dict[str, int]) -> None:
    with pytest.raises(InvalidRecord):
        build_batch(records, **fields)  # type: ignore[arg-type]


def test_header_keys_that_are_no_utf8_survive_being_read_and_written() -> None:
    payload = bytes.fromhex("14 00 00 00 01 01 02 04 fffe 00".replace(" ", ""))
    assert len(payload) == 11
    (record,) = read_all(with_payload(payload, 1))
    assert read_all(build_batch([record])) == [record]
    assert build_batch([record])[61:] == payload


def test_the_bytes_of_a_record_are_those_of_the_format() -> None:
    built = build_batch([Record(0, NOW, b"key", b"value", (("h", b"x"),)), Record(300, NOW - 1, None, None)])
    first = "00 00 00 06" + b"key".hex() + "0a" + b"value".hex() + "02 02" + b"h".hex() + "02" + b"x".hex()
    second = "00 01 d804 01 01 00"
    expected = b"".join(bytes((2 * len(r),)) + r for r in (bytes.fromhex(first), bytes.fromhex(second)))
    assert bytes(built[61:]) == expected


@pytest.mark.parametrize(("codec", "data"), java_batches(2), ids=lambda v: compression.NAMES[v] if v in CODECS else "")
def test_batches_of_the_java_client_are_read(codec: int, data: bytes) -> None:
    header = batch.check(data)
    assert (header.codec, header.base_offset, header.record_count) == (codec, 7, 3)
    assert read_all(data) == [
        Record(7, NOW, b"k0", b"value 0 " * 4, (("h0", b"x"), ("n", None))),
        Record(8, NOW + 5, None, b"value 1 " * 4, (("h1", b"x"), ("n", None))),
        Record(9, NOW + 10, b"k2", None, (("h2", b"x"), ("n", None))),
    ]


def test_an_uncompressed_batch_is_byte_for_byte_what_the_java_client_writes() -> None:
    (data,) = [data for codec, data in java_batches(2) if codec == NONE]
    assert build_batch(read_all(data), base_offset=7) == data


# kafka-python finds no library for the codecs other than gzip here; aiokafka uses cramjam.
PEERS = [(aiokafka_records, codec) for codec in CODECS] + [(kafka_python_records, codec) for codec in (NONE, GZIP)]
peers = pytest.mark.parametrize(
    ("peer", "codec"), PEERS, ids=[f"{peer.__name__.split('.')[0]}-{compression.NAMES[codec]}" for peer, codec in PEERS]
)


@peers
def test_batches_of_other_clients_are_read(peer: Any, codec: int) -> None:
    builder = peer.DefaultRecordBatchBuilder(2, codec, 0, 5, 1, 9, 1 << 20)
    for record in RECORDS:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    data = bytes(builder.build())
    header = batch.check(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 9)
    assert (header.codec, header.last_offset_delta) == (codec, 4)
    assert read_all(data) == RECORDS


@peers
def test_other_clients_read_our_batches(peer: Any, codec: int) -> None:
    built = build_batch(RECORDS, codec=codec, producer_id=5, producer_epoch=1, base_sequence=9)
    theirs = peer.DefaultRecordBatch(bytes(built))
    assert theirs.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(tuple(h) for h in r.headers)) for r in theirs]
    assert read == RECORDS


def test_several_batches_are_iterated() -> None:
    buf = build_batch(RECORDS) + build_batch(RECORDS, codec=GZIP)
    views = [memoryview(buf)[pos : pos + header.size] for pos, header in iter_batches(buf)]
    assert [read_all(view) for view in views] == [RECORDS, RECORDS]


@all_codecs
def test_the_first_record_without_key_is_found(codec: int) -> None:
    assert keys_missing(build_batch(RECORDS, codec=codec), LIMIT) == 1
    keyed = [record._replace(key=b"") for record in RECORDS]
    assert keys_missing(build_batch(keyed, codec=codec), LIMIT) is None
    keyed[4] = keyed[4]._replace(key=None)
    assert keys_missing(build_batch(keyed, codec=codec), LIMIT) == 4


@all_codecs
def test_the_first_record_at_or_after_a_time_is_found_in_offset_order(codec: int) -> None:
    records = [record._replace(offset=record.offset + 90) for record in RECORDS]
    buf = build_batch(records, base_offset=90, codec=codec)
    assert first_at_or_after(buf, 0, LIMIT) == (NOW, 90)
    assert first_at_or_after(buf, NOW, LIMIT) == (NOW, 90)
    assert first_at_or_after(buf, NOW + 1, LIMIT) == (NOW + 70, 91)
    assert first_at_or_after(buf, NOW + 71, LIMIT) == (NOW + 100_000, 93)
    assert first_at_or_after(buf, NOW + 100_001, LIMIT) is None
    assert first_at_or_after(buf, NOW, LIMIT, start_offset=91) == (NOW + 70, 91)
    assert first_at_or_after(buf, 0, LIMIT, start_offset=92) == (NOW - 9000, 92)


def test_the_newest_record_is_the_first_of_those_with_the_greatest_timestamp() -> None:
    assert max_timestamp_record(build_batch(RECORDS), LIMIT) == (NOW + 100_000, 3)
    without_time = [Record(i, -1, None, b"v") for i in range(3)]
    assert max_timestamp_record(build_batch(without_time), LIMIT) == (-1, 0)


def test_in_a_log_append_time_batch_the_first_record_is_the_newest_and_the_first_at_any_time() -> None:
    records = [record._replace(offset=record.offset + 5) for record in RECORDS]
    buf = build_batch(records, base_offset=3, timestamp_type=1)
    batch.set_max_timestamp(buf, 0, NOW + 1)
    assert max_timestamp_record(buf, LIMIT) == (NOW + 1, 5)
    assert first_at_or_after(buf, NOW + 1, LIMIT) == (NOW + 1, 5)
    assert first_at_or_after(buf, NOW + 2, LIMIT) is None


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_control_batch_is_a_marker_that_other_clients_understand(kind: int) -> None:
    built = control_batch(
        kind, producer_id=77, producer_epoch=3, coordinator_epoch=12, timestamp=NOW, base_offset=1000, leader_epoch=6
    )
    header = batch.check(built)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, -1)
    assert (header.base_offset, header.partition_leader_epoch, header.record_count) == (1000, 6, 1)
    (record,) = read_all(built)
    assert (record.key, record.value) == (struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 12))
    assert (control_type(record.key), marker_coordinator_epoch(record.value)) == (kind, 12)
    (theirs,) = kafka_python_records.DefaultRecordBatch(bytes(built))
    assert (theirs.commit, theirs.abort) == (kind == COMMIT, kind == ABORT)


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0", b"\xff\xff\0\0\0\0"])
def test_broken_control_records_are_corrupt(data: bytes | None) -> None:
    for parse in (control_type, marker_coordinator_epoch):
        with pytest.raises(CorruptBatch):
            parse(data)


def test_a_newer_control_type_is_told_by_its_number() -> None:
    assert control_type(struct.pack(">hhq", 1, 6, 0)) == 6


PLAIN = "0c 00 00 00 01 01 00"  # one record, all null
HOSTILE = {
    "no record where one is counted": ("", 1),
    "fewer records than counted": (PLAIN, 2),
    "more records than counted": (PLAIN + PLAIN.replace("0c 00 00 00", "0c 00 00 02"), 1),
    "bytes after the records": (PLAIN + "00", 1),
    "two billion records counted": (PLAIN, 2**31 - 1),
    "negative record length": ("0b 00 00 00 01 01 00", 1),
    "negative record length whose half would fit": ("0d 00 00 00 01 01 00", 1),
    "record that ends after its offset": ("06 00 00 00" + PLAIN.replace("0c 00 00 00", "0c 00 00 02"), 2),
    "record longer than the payload": ("0e 00 00 00 01 01 00", 1),
    "record length of 2 GiB": ("feffffff0f 00 00 00 01 01 00", 1),
    "record of no bytes": ("00 00 00 00 01 01 00", 1),
    "record longer than its fields": ("0e 00 00 00 01 01 00 00", 1),
    "record shorter than its fields": ("0a 00 00 00 01 01 00", 1),
    "key longer than the record": ("0c 00 00 00 40 01 00", 1),
    "key into the next record": ("0c 00 00 00 08 01 00" + PLAIN, 2),
    "key length below -1": ("0c 00 00 00 03 01 00", 1),
    "value longer than the record": ("0c 00 00 00 01 40 00", 1),
    "value length below -1": ("0c 00 00 00 01 03 00", 1),
    "key length -2 with one byte": ("0e 00 00 00 03 ff 01 00", 1),
    "value length -2 with one byte": ("0e 00 00 00 01 03 ff 00", 1),
    "header key length -2 with one byte": ("12 00 00 00 01 01 02 03 ff 01", 1),
    "header value length -2 with one byte": ("12 00 00 00 01 01 02 00 03 ff", 1),
    "header count -2 with one header": ("10 00 00 00 01 01 03 00 01", 1),
    "key of 2 GiB": ("14 00 00 00 feffffff0f 01 00", 1),
    "negative header count": ("0c 00 00 00 01 01 01", 1),
    "two billion headers": ("14 00 00 00 01 01 feffffff0f", 1),
    "null header key": ("10 00 00 00 01 01 02 01 00", 1),
    "header key too long": ("10 00 00 00 01 01 02 60 00", 1),
    "header value too long": ("10 00 00 00 01 01 02 00 60", 1),
    "header value length below -1": ("10 00 00 00 01 01 02 00 03", 1),
    "offset delta below zero": ("0c 00 00 01 01 01 00", 1),
    "offset delta beyond the last": ("0c 00 00 02 01 01 00", 1),
    "offset delta twice": (PLAIN + PLAIN, 2),
    "varint of six bytes": ("16 00 00 808080808000 01 01 00", 1),
    "varint over 32 bits": ("14 00 00 ffffffff7f 01 01 00", 1),
    "varlong over 64 bits": ("1e 00 ffffffffffffffffff7f 00 01 01 00", 1),
    "timestamp over 64 bits": ("1e 00 feffffffffffffffff01 00 01 01 00", 1),
    "cut inside the length": ("80", 1),
    "cut inside the timestamp": ("04 00 80", 1),
    "cut before the key": ("06 00 00 00", 1),
    "cut inside a header": ("0e 00 00 00 01 01 02 00"[:-3], 1),
}
# What lies behind the key is passed over, unread, by the checks that need only times and keys.
BEHIND_THE_KEY = ("value", "header", "key", "record longer than its", "record shorter")


@pytest.mark.parametrize(("payload", "count"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("codec", [NONE, ZSTD], ids=["plain", "packed"])
def test_hostile_payloads_are_corrupt(payload: str, count: int, codec: int) -> None:
    data = bytes.fromhex(payload.replace(" ", ""))
    buf = with_payload(compression.compress(codec, data), count, codec)
    batch.check(buf)
    with pytest.raises(CorruptBatch):
        read_all(buf)


@pytest.mark.parametrize("name", [name for name in HOSTILE if not any(word in name for word in BEHIND_THE_KEY)])
def test_hostile_payloads_are_corrupt_for_the_quick_checks_too(name: str) -> None:
    payload, count = HOSTILE[name]
    keyed = payload.replace("01 01 00", "00 01 00")  # so that no keyless record ends the search before
    buf = with_payload(bytes.fromhex(keyed.replace(" ", "")), count)
    checks: list[Callable[[], object]] = [
        lambda: keys_missing(buf, LIMIT),
        lambda: first_at_or_after(buf, 2**64, LIMIT),
        lambda: max_timestamp_record(buf, LIMIT),
    ]
    for check in checks:
        with pytest.raises(CorruptBatch):
            check()


def test_offsets_beyond_64_bits_are_corrupt() -> None:
    buf = with_payload(bytes.fromhex(PLAIN.replace(" ", "")), 1, last_offset_delta=5, base_offset=2**63 - 3)
    for read in (read_all, lambda b: keys_missing(b, LIMIT)):
        with pytest.raises(CorruptBatch, match="offsets"):
            read(buf)


def test_the_extreme_timestamps_of_64_bits_are_read() -> None:
    for timestamp in (-(2**63), 2**63 - 1):
        assert read_all(build_batch([Record(0, timestamp, None, None)]))[0].timestamp == timestamp


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_unsupported(codec: int) -> None:
    with pytest.raises(UnsupportedCodec):
        read_all(with_payload(b"abc", 1, codec))


def test_old_formats_are_named() -> None:
    with pytest.raises(UnsupportedMagic):
        read_all(with_payload(b"", 0, magic=1))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=lambda codec: compression.NAMES[codec])
def test_a_bomb_in_a_batch_is_stopped_at_the_limit(codec: int) -> None:
    buf = build_batch([Record(0, NOW, None, bytes(16 << 20))], codec=codec)
    tracemalloc.start()
    try:
        for read in (read_all, lambda b: keys_missing(b, LIMIT)):
            with pytest.raises(DecompressionTooLarge):
                read(buf)
        assert tracemalloc.get_traced_memory()[1] < 3 * LIMIT
    finally:
        tracemalloc.stop()


def test_iteration_holds_one_record_at_a_time() -> None:
    buf = build_batch([Record(i, NOW, None, b"v" * 10) for i in range(20_000)])
    tracemalloc.start()
    try:
        assert sum(1 for _ in iter_records(buf, LIMIT)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 2 * len(buf)
    finally:
        tracemalloc.stop()


nullable = st.none() | st.binary(max_size=300)
timestamps = st.integers(-1, 2**62) | st.integers(NOW, NOW + 20_000)
header_lists = st.lists(st.tuples(st.text(max_size=8), nullable), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 12))):
        records.append(Record(offset, draw(timestamps), draw(nullable), draw(nullable), draw(header_lists)))
        offset += draw(st.integers(1, 3) | st.integers(1, 100_000))
    return records


@settings(max_examples=150)
@given(record_lists(), st.sampled_from(CODECS))
def test_any_records_survive_a_batch_and_the_quick_checks_agree_with_them(records: list[Record], codec: int) -> None:
    buf = build_batch(records, codec=codec, base_offset=records[0].offset)
    header = batch.check(buf)
    assert read_all(buf) == records
    assert (header.last_offset, header.record_count) == (records[-1].offset, len(records))
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert keys_missing(buf, LIMIT) == next((i for i, r in enumerate(records) if r.key is None), None)
    newest = max(records, key=lambda record: record.timestamp)
    assert max_timestamp_record(buf, LIMIT) == (newest.timestamp, newest.offset)
    middle = records[len(records) // 2].timestamp
    assert first_at_or_after(buf, middle, LIMIT) == next(
        (r.timestamp, r.offset) for r in records if r.timestamp >= middle
    )


def read_in_every_way(buf: bytes | bytearray) -> None:
    for read in (
        lambda: read_all(buf),
        lambda: keys_missing(buf, LIMIT),
        lambda: first_at_or_after(buf, NOW, LIMIT),
        lambda: max_timestamp_record(buf, LIMIT),
    ):
        try:
            read()
        except REFUSALS:
            pass


@settings(max_examples=300)
@given(st.binary(max_size=80), st.integers(0, 5), st.integers(0, 7))
def test_any_payload_is_read_or_refused_by_name(payload: bytes, count: int, codec: int) -> None:
    read_in_every_way(with_payload(payload, count, codec))


@settings(max_examples=300)
@given(st.data(), st.sampled_from(CODECS))
def test_a_mutated_batch_is_read_or_refused_by_name(data: st.DataObject, codec: int) -> None:
    buf = build_batch(RECORDS[:3], codec=codec)
    for position, value in data.draw(st.dictionaries(st.integers(0, len(buf) - 1), st.integers(0, 255))).items():
        buf[position] = value
    read_in_every_way(buf[: data.draw(st.integers(0, len(buf)))])
    read_in_every_way(buf)
