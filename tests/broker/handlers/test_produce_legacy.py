"""Produce of message formats 0 and 1, small sets and large ones."""

import struct
import zlib

import pytest

from ottla.broker.handlers import produce_legacy
from ottla.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.legacy import downconvert
from support.requests import batch, fetch, now_ms, produce, produce_request, records_in, values_in

VERSIONS = (0, 1, 2)
LARGE = 2 * produce_legacy.INLINE


def message_set(*values, magic, codec=NONE, **options):
    return downconvert(batch(*values, codec=codec, **options), magic, limit=1 << 30)


def one_message(value, *, magic=1, attributes=0, timestamp=5, key=b"k"):
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@pytest.fixture(params=["on the spot", "in a thread"])
def filler(request):
    """A value that makes a set large enough for a thread, or not."""
    return "x" if request.param == "on the spot" else "x" * LARGE


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_set_becomes_records(wire, version, codec, filler):
    wire.create("t")
    magic = 1 if version == 2 else 0
    at = now_ms()
    data = message_set("a", filler, None, magic=magic, codec=codec, timestamp=at)
    answer = produce(wire, "t", data, version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert produce(wire, "t", data, version=version).base_offset == 3
    records = records_in(fetch(wire, "t", 0).records)
    assert [one.value for one in records] == [b"a", filler.encode(), None] * 2
    assert [one.offset for one in records] == list(range(6))
    assert {one.timestamp for one in records} == {at if magic else -1}
    assert {one.key for one in records} == {b"k"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_set_that_grows_large_when_unpacked_is_converted_in_a_thread(served, wire, version):
    wire.create("t")
    data = message_set("x" * 1_000_000, magic=0, codec=GZIP)
    assert len(data) < produce_legacy.INLINE
    calls = []
    real = served.broker.run_blocking
    served.broker.run_blocking = lambda *arguments: calls.append(arguments) or real(*arguments)
    assert produce(wire, "t", data, version=version).error_code == 0
    assert len(calls) == 1


def test_format_0_is_taken_in_every_old_version(wire):
    wire.create("t")
    for version in VERSIONS:
        assert produce(wire, "t", message_set("a", magic=0), version=version).error_code == 0


@pytest.mark.parametrize("acks", [1, -1, 2, 32767])
def test_any_positive_acks_means_the_leader(wire, acks):
    wire.create("t")
    assert produce(wire, "t", message_set("a", magic=1), acks=acks, version=2).error_code == 0


def test_negative_acks_are_refused(wire):
    wire.create("t")
    answer = produce(wire, "t", message_set("a", magic=1), acks=-2, version=2)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_0_is_not_answered_and_the_order_of_requests_is_kept(wire, filler):
    wire.create("t")
    wire.send(produce_request(("t", 0, message_set(filler, "a", magic=1)), acks=0), 2)
    assert produce(wire, "t", message_set("b", magic=1), version=2).base_offset == 2


def test_acks_0_with_an_error_closes_the_connection(wire, filler):
    wire.create("t")
    wire.send(produce_request(("t", 0, message_set(filler, magic=1)[:-1]), acks=0), 2)
    with pytest.raises(ConnectionError):
        wire.frame()


def test_each_partition_has_its_own_answer(wire, filler):
    wire.create("t", 2)
    good = message_set(filler, magic=1)
    broken = bytearray(good)
    broken[-1] ^= 1
    request = produce_request(
        ("t", 0, good), ("t", 1, bytes(broken)), ("t", 2, good), ("no", 0, good), ("a b", 0, good), ("t", 1, None)
    )
    found = {
        (topic.name, one.index, ErrorCode(one.error_code).name, one.base_offset)
        for topic in wire.call(request, 2).responses
        for one in topic.partition_responses
    }
    assert found == {
        ("t", 0, "NONE", 0),
        ("t", 1, "CORRUPT_MESSAGE", -1),
        ("t", 2, "UNKNOWN_TOPIC_OR_PARTITION", -1),
        ("no", 0, "UNKNOWN_TOPIC_OR_PARTITION", -1),
        ("a b", 0, "INVALID_TOPIC_EXCEPTION", -1),
    }
    assert fetch(wire, "t", 0, 1).high_watermark == 0


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.CORRUPT_MESSAGE),
        (one_message(b"v")[:-1], ErrorCode.CORRUPT_MESSAGE),
        (one_message(b"v") + b"abc", ErrorCode.CORRUPT_MESSAGE),
        (one_message(b"v", magic=3), ErrorCode.CORRUPT_MESSAGE),
        (one_message(b"not gzip", attributes=GZIP), ErrorCode.CORRUPT_MESSAGE),
        (one_message(None, attributes=GZIP), ErrorCode.CORRUPT_MESSAGE),
        (one_message(compress(GZIP, b""), attributes=GZIP), ErrorCode.CORRUPT_MESSAGE),
        (one_message(b"v", attributes=ZSTD), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (one_message(b"v", attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (one_message(b"v", timestamp=-5), ErrorCode.INVALID_RECORD),
        (batch("format 2"), ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=[
        "empty",
        "cut off",
        "rest",
        "magic 3",
        "not packed",
        "null wrapper",
        "empty wrapper",
        "zstd",
        "codec 7",
        "timestamp -5",
        "format 2",
    ],
)
def test_what_is_no_message_set_is_refused(wire, data, code):
    wire.create("t")
    assert ErrorCode(produce(wire, "t", data, version=2).error_code) is code
    assert fetch(wire, "t", 0).high_watermark == 0


def test_a_bomb_is_refused(wire):
    wire.create("t", configs={"max.message.bytes": "100000"})
    inner = one_message(bytes(20_000_000))
    data = one_message(compress(GZIP, inner), attributes=GZIP)
    assert len(data) < produce_legacy.INLINE
    assert produce(wire, "t", data, version=2).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time_is_given_and_told(wire, filler):
    wire.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    answer = produce(wire, "t", message_set(filler, magic=1, timestamp=5), version=2)
    assert before <= answer.log_append_time_ms <= now_ms()
    assert [one.timestamp for one in records_in(fetch(wire, "t", 0).records)] == [answer.log_append_time_ms]


def test_a_compacted_topic_takes_no_message_without_key(wire, filler):
    wire.create("t", configs={"cleanup.policy": "compact"})
    assert produce(wire, "t", message_set(filler, magic=1, key=None), version=2).error_code == ErrorCode.INVALID_RECORD
    assert produce(wire, "t", message_set(filler, magic=1), version=2).base_offset == 0


def test_max_message_bytes_holds_for_the_batch_that_is_stored(wire, filler):
    wire.create("t", configs={"max.message.bytes": "100"})
    data = message_set(filler * 200, magic=1)
    assert produce(wire, "t", data, version=2).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_topic_deleted_while_its_messages_are_converted_is_unknown(served, wire):
    wire.create("t")
    real = served.broker.run_blocking

    async def delete_first(function, *arguments):
        served.broker.run_blocking = real
        await served.broker.controller.delete_topics(["t"])
        return await real(function, *arguments)

    served.broker.run_blocking = delete_first
    answer = produce(wire, "t", message_set("x" * LARGE, magic=1), version=2)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_values_come_out_for_new_and_old_readers_alike(wire):
    wire.create("t")
    produce(wire, "t", message_set("old", magic=0), version=0)
    produce(wire, "t", batch("new"))
    assert values_in(fetch(wire, "t", 0).records) == ["old", "new"]
    assert b"old" in bytes(fetch(wire, "t", 0, version=0).records)
