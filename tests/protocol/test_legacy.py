import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import aiokafka.record.legacy_records as aiokafka_records
import kafka.record.legacy_records as kafka_python_records
import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol import batch, compression
from ottla.protocol.batch import CorruptBatch
from ottla.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, DecompressionTooLarge, UnsupportedCodec
from ottla.protocol.errors import ProtocolError
from ottla.protocol.legacy import CannotDownconvert, EmptyMessageSet, downconvert, iter_messages, upconvert
from ottla.protocol.records import COMMIT, InvalidRecord, Record, build_batch, control_batch, iter_records

LIMIT = 1 << 20
NOW = 1_700_000_000_000
OLD_CODECS = [NONE, GZIP, SNAPPY, LZ4]
VECTORS = Path(__file__).parent / "vectors" / "java_records.txt"
REFUSALS = (CorruptBatch, DecompressionTooLarge, UnsupportedCodec, InvalidRecord)

both_magics = pytest.mark.parametrize("magic", [0, 1])
old_codecs = pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: compression.NAMES[codec])


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = NOW,
    crc: int | None = None,
    size: int | None = None,
) -> bytes:
    """One message, packed here field by field."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    crc = zlib.crc32(body) if crc is None else crc
    return struct.pack(">qiI", offset, len(body) + 4 if size is None else size, crc) + body


def wrapper(offset: int, inner: bytes, codec: int, **fields: Any) -> bytes:
    magic = fields.get("magic", 1)
    packed = compression.compress(codec, inner, broken_lz4_header=magic == 0)
    return message(offset, None, packed, attributes=codec | fields.pop("attributes", 0), **fields)


def up(message_set: bytes, timestamp_type: int = 0, limit: int = LIMIT) -> bytearray:
    return upconvert(message_set, timestamp_type=timestamp_type, now_ms=NOW + 999, limit=limit)


def records_of(buf: bytes | bytearray) -> list[Record]:
    batch.check(buf)
    return list(iter_records(buf, LIMIT))


def numbered(count: int, magic: int, base: int = 0) -> list[Record]:
    """Records with gaps in their offsets, as downconversion to `magic` leaves them."""
    return [
        Record(base + 2 * i, NOW + 7 * i if magic else -1, b"k%d" % i if i % 3 else None, b"v" * i if i % 4 else None)
        for i in range(count)
    ]


def java_sets() -> list[tuple[int, int, bytes]]:
    lines = [line.split() for line in VECTORS.read_text().splitlines() if line[0] in "01"]
    return [(int(magic), int(codec), bytes.fromhex(data)) for magic, codec, data in lines]


JAVA = pytest.mark.parametrize(
    ("magic", "codec", "data"), java_sets(), ids=[f"format-{m}-{compression.NAMES[c]}" for m, c, _ in java_sets()]
)


@JAVA
def test_message_sets_of_the_java_client_are_read(magic: int, codec: int, data: bytes) -> None:
    assert list(iter_messages(data, LIMIT)) == [
        Record(7, NOW if magic else -1, b"k0", b"value 0 " * 4),
        Record(8, NOW + 5 if magic else -1, None, b"value 1 " * 4),
        Record(9, NOW + 10 if magic else -1, b"k2", None),
    ]


@JAVA
def test_message_sets_of_the_java_client_become_batches_with_their_codec(magic: int, codec: int, data: bytes) -> None:
    built = up(data)
    header = batch.check(built)
    assert (header.codec, header.base_offset, header.record_count, header.producer_id) == (codec, 0, 3, -1)
    assert (header.base_timestamp, header.max_timestamp) == ((NOW, NOW + 10) if magic else (-1, -1))
    assert [record[2:4] for record in records_of(built)] == [record[2:4] for record in iter_messages(data, LIMIT)]


def test_uncompressed_messages_are_byte_for_byte_those_of_the_java_client() -> None:
    for magic, codec, data in java_sets():
        if codec == NONE:
            stored = build_batch(list(iter_messages(data, LIMIT)), base_offset=7)
            assert downconvert(stored, magic, limit=LIMIT) == data


def test_lz4_of_format_0_is_written_with_the_header_checksum_of_the_java_client() -> None:
    stored = build_batch(numbered(5, 0), codec=LZ4)
    for magic in (0, 1):
        out = downconvert(stored, magic, limit=LIMIT)
        frame = out[out.index(b"\x04\x22\x4d\x18") :]
        covered = frame[:6] if magic == 0 else frame[4:6]
        assert frame[6] == compression._xxh32(covered) >> 8 & 0xFF


# kafka-python finds no library for codecs other than gzip here; aiokafka refuses lz4 in format 0.
PEERS = [(kafka_python_records, magic, codec) for magic in (0, 1) for codec in (NONE, GZIP)]
PEERS += [(aiokafka_records, 0, codec) for codec in (NONE, GZIP, SNAPPY)]
PEERS += [(aiokafka_records, 1, codec) for codec in OLD_CODECS]
peers = pytest.mark.parametrize(
    ("peer", "magic", "codec"),
    PEERS,
    ids=[f"{peer.__name__.split('.')[0]}-format-{magic}-{compression.NAMES[codec]}" for peer, magic, codec in PEERS],
)


@peers
def test_message_sets_of_other_clients_become_batches(peer: Any, magic: int, codec: int) -> None:
    expected = [record._replace(offset=i) for i, record in enumerate(numbered(40, magic))]
    builder = peer.LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for record in expected:
        builder.append(record.offset, record.timestamp if magic else None, record.key, record.value)
    built = up(bytes(builder.build()))
    assert records_of(built) == expected
    assert batch.check(built).codec == codec


@peers
def test_other_clients_read_downconverted_batches(peer: Any, magic: int, codec: int) -> None:
    records = numbered(40, magic, base=1000)
    out = downconvert(build_batch(records, base_offset=1000, codec=codec), magic, limit=LIMIT)
    read = []
    pos = 0
    while pos < len(out):
        end = pos + 12 + struct.unpack_from(">i", out, pos + 8)[0]
        entry = peer.LegacyRecordBatch(out[pos:end], magic)
        assert entry.validate_crc()
        read += [Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in entry]
        pos = end
    assert read == records


def test_a_whole_downconverted_fetch_is_read_by_aiokafka() -> None:
    records = numbered(30, 1)
    stored = b"".join(
        bytes(build_batch(records[i : i + 10], base_offset=records[i].offset, codec=codec))
        for i, codec in zip((0, 10, 20), (NONE, LZ4, SNAPPY))
    )
    entries = MemoryRecords(downconvert(stored, 1, limit=LIMIT))
    read = []
    while entries.has_next():
        read += [Record(r.offset, r.timestamp, r.key, r.value) for r in entries.next_batch()]
    assert read == records


@both_magics
def test_messages_and_several_wrappers_become_one_batch_with_the_first_wrappers_codec(magic: int) -> None:
    def inner(*names: bytes) -> bytes:
        return b"".join(message(i, name, b"v", magic=magic, timestamp=NOW + i) for i, name in enumerate(names))

    message_set = (
        message(0, b"a", b"v", magic=magic)
        + wrapper(2, inner(b"b", b"c"), SNAPPY, magic=magic)
        + message(3, b"d", b"v", magic=magic)
        + wrapper(4, inner(b"e"), GZIP, magic=magic)
    )
    built = up(message_set)
    header = batch.check(built)
    assert (header.codec, header.base_offset, header.last_offset_delta, header.record_count) == (SNAPPY, 0, 4, 5)
    assert [(record.offset, record.key) for record in records_of(built)] == list(
        enumerate([b"a", b"b", b"c", b"d", b"e"])
    )
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_timestamps_of_a_produced_set_are_kept_with_create_time() -> None:
    times = [NOW + 50, NOW, NOW + 90, NOW - 20]
    built = up(b"".join(message(0, None, b"v", timestamp=time) for time in times))
    header = batch.check(built)
    assert (header.base_timestamp, header.max_timestamp, header.timestamp_type) == (NOW + 50, NOW + 90, 0)
    assert [record.timestamp for record in records_of(built)] == times


@both_magics
def test_with_log_append_time_every_record_gets_the_time_of_arrival(magic: int) -> None:
    built = up(b"".join(message(i, None, b"v", magic=magic, timestamp=NOW - i) for i in range(3)), timestamp_type=1)
    header = batch.check(built)
    assert (header.timestamp_type, header.max_timestamp) == (1, NOW + 999)
    assert {record.timestamp for record in records_of(built)} == {NOW + 999}


def test_messages_without_timestamp_say_so() -> None:
    built = up(message(0, None, b"v", magic=0))
    header = batch.check(built)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)
    assert records_of(built)[0].timestamp == -1


def test_a_log_append_time_wrappers_timestamp_holds_for_what_is_inside() -> None:
    inner = message(0, None, b"a", timestamp=5) + message(1, None, b"b", timestamp=6)
    appended = wrapper(11, inner, GZIP, timestamp=NOW, attributes=8)
    created = wrapper(11, inner, GZIP, timestamp=NOW)
    assert [(r.offset, r.timestamp) for r in iter_messages(appended, LIMIT)] == [(10, NOW), (11, NOW)]
    assert [(r.offset, r.timestamp) for r in iter_messages(created, LIMIT)] == [(10, 5), (11, 6)]


def test_inner_offsets_are_absolute_in_format_0_and_relative_in_format_1() -> None:
    for magic, expected in ((0, [3, 5]), (1, [98, 100])):
        inner = message(3, None, b"a", magic=magic) + message(5, None, b"b", magic=magic)
        found = [record.offset for record in iter_messages(wrapper(100, inner, GZIP, magic=magic), LIMIT)]
        assert found == expected


@old_codecs
@both_magics
def test_downconverted_wrappers_have_the_offset_of_their_last_message(magic: int, codec: int) -> None:
    records = numbered(4, magic, base=50)
    out = downconvert(build_batch(records, base_offset=50, codec=codec), magic, limit=LIMIT)
    assert list(iter_messages(out, LIMIT)) == records
    offset, _, _, found_magic, attributes = struct.unpack_from(">qiIbb", out)
    assert (found_magic, attributes & 7) == (magic, codec)
    assert offset == (records[-1].offset if codec else records[0].offset)
    if codec:
        start = 18 + (8 if magic else 0) + 8
        inner = compression.decompress(codec, out[start:], LIMIT, broken_lz4_header=magic == 0)
        assert struct.unpack_from(">q", inner)[0] == (0 if magic else 50)


@old_codecs
def test_downconverting_log_append_time_marks_every_message_with_it(codec: int) -> None:
    stored = build_batch(numbered(3, 1), timestamp_type=1, codec=codec)
    batch.set_max_timestamp(stored, 0, NOW + 1234)
    out = downconvert(stored, 1, limit=LIMIT)
    assert {record.timestamp for record in iter_messages(out, LIMIT)} == {NOW + 1234}
    assert out[17] & 8
    assert not downconvert(stored, 0, limit=LIMIT)[17] & 8


def test_a_wrapper_carries_the_newest_timestamp_inside() -> None:
    records = [Record(0, NOW, None, b"a"), Record(1, NOW + 9, None, b"b"), Record(2, NOW + 3, None, b"c")]
    out = downconvert(build_batch(records, codec=GZIP), 1, limit=LIMIT)
    assert struct.unpack_from(">q", out, 18)[0] == NOW + 9


@both_magics
def test_headers_and_control_batches_are_lost_on_the_way_down(magic: int) -> None:
    data = build_batch([Record(0, NOW, b"k", b"v", (("h", b"x"),))], producer_id=1, producer_epoch=0, base_sequence=0)
    marker = control_batch(COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW, base_offset=1)
    out = downconvert(data + marker, magic, limit=LIMIT)
    assert [record[:1] + record[2:] for record in iter_messages(out, LIMIT)] == [(0, b"k", b"v", ())]
    assert downconvert(marker, magic, limit=LIMIT) == b""
    assert downconvert(b"", magic, limit=LIMIT) == b""


@old_codecs
@both_magics
def test_records_before_the_asked_offset_are_left_out(magic: int, codec: int) -> None:
    records = numbered(10, magic, base=20)
    first = build_batch(records[:5], base_offset=20, codec=codec)
    second = build_batch(records[5:], base_offset=30, codec=codec)
    for start in (0, 20, 23, 29, 30, 36, 38, 39):
        out = downconvert(first + second, magic, start_offset=start, limit=LIMIT)
        assert list(iter_messages(out, LIMIT)) == [record for record in records if record.offset >= start]


def test_a_batch_that_a_fetch_limit_cut_is_left_out() -> None:
    first, second = build_batch(numbered(2, 1)), build_batch(numbered(2, 1, base=4), base_offset=4)
    for cut in (1, 20, 61, len(second) - 1):
        assert len(list(iter_messages(downconvert(first + second[:cut], 1, limit=LIMIT), LIMIT))) == 2


def test_zstd_has_no_old_form() -> None:
    stored = build_batch(numbered(3, 1), codec=ZSTD)
    with pytest.raises(CannotDownconvert, match="zstd"):
        downconvert(stored, 1, limit=LIMIT)
    with pytest.raises(CannotDownconvert, match="format 2"):
        downconvert(stored, 2, limit=LIMIT)
    with pytest.raises(UnsupportedCodec, match="zstd"):
        up(wrapper(0, message(0, None, b"v"), ZSTD))
    with pytest.raises(UnsupportedCodec, match="5"):
        up(message(0, None, b"v", attributes=5))


def test_what_lies_before_a_batch_that_cannot_be_converted_is_served() -> None:
    good = build_batch(numbered(3, 1))
    zstd = build_batch(numbered(3, 1, base=6), base_offset=6, codec=ZSTD)
    bomb = build_batch([Record(6, NOW, None, bytes(2 * LIMIT))], base_offset=6, codec=GZIP)
    broken = bytearray(zstd)
    broken[16] = 9
    for bad in (zstd, bomb, broken):
        assert downconvert(good + bad, 1, limit=LIMIT) == downconvert(good, 1, limit=LIMIT)
        with pytest.raises(ProtocolError):
            downconvert(bad + good, 1, limit=LIMIT)
    with pytest.raises(DecompressionTooLarge):
        downconvert(bomb, 1, limit=LIMIT)


def test_the_limit_holds_for_all_batches_of_a_downconversion_together() -> None:
    value = bytes(100_000)
    stored = b"".join(
        bytes(build_batch([Record(i, NOW, None, None, (("h", value),))], base_offset=i, codec=GZIP)) for i in range(5)
    )
    out = downconvert(stored, 1, limit=250_000)
    assert [record.offset for record in iter_messages(out, LIMIT)] == [0, 1]


def test_the_limit_holds_for_all_wrappers_of_a_set_together() -> None:
    inner = message(0, None, bytes(100_000))
    message_set = wrapper(0, inner, GZIP) * 3
    assert batch.check(up(message_set, limit=3 * len(inner))).record_count == 3
    with pytest.raises(DecompressionTooLarge):
        up(message_set, limit=3 * len(inner) - 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4], ids=lambda codec: compression.NAMES[codec])
def test_a_bomb_in_a_wrapper_is_stopped_at_the_limit(codec: int) -> None:
    bomb = wrapper(0, message(0, None, bytes(16 << 20)), codec)
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionTooLarge):
            up(bomb)
        assert tracemalloc.get_traced_memory()[1] < 3 * LIMIT
    finally:
        tracemalloc.stop()


def test_an_empty_set_makes_no_batch() -> None:
    with pytest.raises(EmptyMessageSet):
        up(b"")
    assert list(iter_messages(b"", LIMIT)) == []


@both_magics
def test_a_cut_off_last_message_is_corrupt_unless_it_may_be_partial(magic: int) -> None:
    whole = message(0, b"k", b"v", magic=magic)
    for cut in range(1, len(whole)):
        with pytest.raises(CorruptBatch):
            up(whole + whole[:cut])
        assert len(list(iter_messages(whole + whole[:cut], LIMIT, partial=True))) == 1


@both_magics
def test_any_changed_byte_behind_the_size_is_found_by_the_crc(magic: int) -> None:
    good = message(0, b"key", b"value", magic=magic)
    for position in range(12, len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x40
        with pytest.raises(CorruptBatch):
            up(bytes(bad))


def test_a_wrong_crc_inside_a_wrapper_is_found() -> None:
    with pytest.raises(CorruptBatch, match="CRC"):
        up(wrapper(0, message(0, None, b"v", crc=1), GZIP))


def sized(body: bytes, size: int | None = None) -> bytes:
    """A message around any body, with a right CRC."""
    return struct.pack(">qiI", 0, len(body) + 4 if size is None else size, zlib.crc32(body)) + body


HOSTILE = {
    "negative size": message(0, None, b"v", size=-1),
    "size of nothing": message(0, None, b"v", size=0),
    "size of 2 GiB": message(0, None, b"v", size=2**31 - 1),
    "format 2": message(0, None, b"v", magic=2),
    "format -1": message(0, None, b"v", magic=-1),
    "format 1 in the size of format 0": sized(struct.pack(">bbii", 1, 0, -1, -1)),
    "key longer than the message": sized(struct.pack(">bbii", 0, 0, 100, -1)),
    "key over the value's length": sized(struct.pack(">bbii", 0, 0, 1, -1)),
    "key length below -1": sized(struct.pack(">bbii", 0, 0, -2, -1)),
    "key of 2 GiB": sized(struct.pack(">bbii", 0, 0, 2**31 - 1, -1)),
    "value longer than the message": sized(struct.pack(">bbii", 0, 0, -1, 1)),
    "value length below -1": sized(struct.pack(">bbii", 0, 0, -1, -5)),
    "bytes after the value": sized(struct.pack(">bbii", 0, 0, -1, -1) + b"x"),
    "wrapper without value": message(0, None, None, attributes=GZIP),
    "wrapper around nothing": wrapper(0, b"", GZIP),
    "wrapper around nothing in format 0": wrapper(0, b"", GZIP, magic=0),
    "wrapper around garbage": wrapper(0, b"garbage", GZIP),
    "wrapper that does not unpack": message(0, None, b"garbage", attributes=GZIP),
    "wrapper in a wrapper": wrapper(0, wrapper(0, message(0, None, b"v"), GZIP), GZIP),
    "other format in a wrapper": wrapper(0, message(0, None, b"v", magic=0), GZIP, magic=1),
    "half a message in a wrapper": wrapper(0, message(0, None, b"v") + message(1, None, b"v")[:-1], GZIP),
}


@pytest.mark.parametrize("message_set", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_sets_are_corrupt(message_set: bytes) -> None:
    with pytest.raises(CorruptBatch):
        up(message_set)


def test_timestamps_before_the_epoch_and_too_far_apart_are_invalid() -> None:
    with pytest.raises(InvalidRecord, match="timestamp -2"):
        up(message(0, None, b"v", timestamp=-2))
    with pytest.raises(InvalidRecord, match="timestamp"):
        up(message(0, None, b"v", timestamp=-1) + message(0, None, b"v", timestamp=2**63 - 1))


def test_the_errors_are_protocol_errors() -> None:
    for error in (CannotDownconvert, EmptyMessageSet, InvalidRecord, DecompressionTooLarge, UnsupportedCodec):
        assert issubclass(error, ProtocolError)


nullable = st.none() | st.binary(max_size=200)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 10))):
        records.append(Record(offset, draw(st.integers(-1, 2**62)), draw(nullable), draw(nullable)))
        offset += draw(st.integers(1, 5))
    return records


@settings(max_examples=150)
@given(record_lists(), st.sampled_from([0, 1]), st.sampled_from(OLD_CODECS))
def test_any_records_survive_the_way_down_and_up(records: list[Record], magic: int, codec: int) -> None:
    stored = build_batch(records, base_offset=records[0].offset, codec=codec)
    out = downconvert(stored, magic, limit=LIMIT)
    expected = records if magic else [record._replace(timestamp=-1) for record in records]
    assert list(iter_messages(out, LIMIT)) == expected
    again = up(out)
    assert records_of(again) == [record._replace(offset=i) for i, record in enumerate(expected)]
    assert batch.check(again).codec == codec


@settings(max_examples=200)
@given(st.binary(max_size=120), st.integers(0, 1), st.integers(0, 7))
def test_any_wrapped_bytes_become_a_batch_or_are_refused_by_name(data: bytes, magic: int, codec: int) -> None:
    packed = compression.compress(codec, data) if codec in OLD_CODECS else data
    for message_set in (data, message(0, None, packed, magic=magic, attributes=codec)):
        try:
            batch.check(up(message_set))
        except REFUSALS:
            pass


@settings(max_examples=200)
@given(st.data(), st.sampled_from([0, 1]), st.sampled_from(OLD_CODECS))
def test_mutated_messages_become_a_batch_or_are_refused_by_name(data: st.DataObject, magic: int, codec: int) -> None:
    """The mutation lies inside a wrapper, with the inner CRC made right, so that it gets past both CRCs."""
    body = bytearray(message(0, b"key", b"value", magic=magic)[16:])
    for position, value in data.draw(st.dictionaries(st.integers(0, len(body) - 1), st.integers(0, 255))).items():
        body[position] = value
    inner = sized(bytes(body))
    message_set = inner if codec == NONE else wrapper(0, inner, codec, magic=magic)
    try:
        batch.check(up(message_set))
    except REFUSALS:
        pass


@settings(max_examples=200)
@given(st.data(), st.sampled_from([0, 1]), st.sampled_from([*OLD_CODECS, ZSTD]))
def test_mutated_batches_are_downconverted_or_refused_by_name(data: st.DataObject, magic: int, codec: int) -> None:
    stored = build_batch(numbered(3, 1), codec=codec)
    for position, value in data.draw(st.dictionaries(st.integers(0, len(stored) - 1), st.integers(0, 255))).items():
        stored[position] = value
    try:
        downconvert(stored, magic, limit=LIMIT)
    except (*REFUSALS, CannotDownconvert):
        pass
