"""Fetch for clients that know message formats 0 and 1 only."""

import pytest

from ottla.broker.handlers import fetch_legacy
from ottla.protocol.batch import HEADER, read_header, seal
from ottla.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.protocol.errors import ErrorCode
from ottla.protocol.legacy import iter_messages
from ottla.protocol.messages import DeleteTopicsRequest
from ottla.protocol.records import Record, build_batch
from support.markers import write_marker, write_remains
from support.requests import answers, batch, fetch, fetch_request, now_ms, produce

VERSIONS = (0, 1, 2, 3)
FOREVER = 60_000
LARGE = 2 * fetch_legacy.INLINE


def messages_in(data, *, partial=False):
    return list(iter_messages(bytes(data), 1 << 30, partial=partial))


def values_in(data):
    return [one.value.decode() for one in messages_in(data)]


@pytest.fixture(params=["on the spot", "in a thread"])
def filler(request):
    """A value that makes a set large enough for a thread, or not."""
    return "x" if request.param == "on the spot" else "x" * LARGE


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("version", VERSIONS)
def test_records_become_messages(wire, version, codec, filler):
    wire.create("t")
    at = now_ms()
    produce(wire, "t", batch("a", filler, codec=codec, timestamp=at))
    produce(wire, "t", batch("b", codec=codec, timestamp=at))
    answer = fetch(wire, "t", 1, version=version)
    assert (answer.error_code, answer.high_watermark) == (0, 3)
    found = messages_in(answer.records)
    assert [one.value.decode() for one in found] == [filler, "b"]
    assert [one.offset for one in found] == [1, 2]
    assert {one.timestamp for one in found} == {at if version >= 2 else -1}
    assert bytes(answer.records)[16] == (1 if version >= 2 else 0)


def test_a_batch_that_grows_large_when_unpacked_is_converted_in_a_thread(served, wire):
    wire.create("t")
    produce(wire, "t", batch("x" * 1_000_000, codec=GZIP))
    calls = []
    real = served.broker.run_blocking
    served.broker.run_blocking = lambda *arguments: calls.append(arguments) or real(*arguments)
    assert values_in(fetch(wire, "t", 0, version=2).records) == ["x" * 1_000_000]
    assert len(calls) == 1


def test_headers_are_lost_and_nulls_stay(wire):
    wire.create("t")
    produce(wire, "t", bytes(build_batch([Record(0, now_ms(), None, None, (("h", b"v"),))])))
    (found,) = messages_in(fetch(wire, "t", 0, version=3).records)
    assert (found.key, found.value, found.headers) == (None, None, ())


@pytest.mark.parametrize("version", VERSIONS)
def test_zstd_ends_what_is_sent_and_is_an_error_where_it_comes_first(wire, version):
    wire.create("t")
    produce(wire, "t", batch("a"))
    produce(wire, "t", batch("b", codec=ZSTD))
    assert values_in(fetch(wire, "t", 0, version=version).records) == ["a"]
    assert fetch(wire, "t", 1, version=version).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_message_larger_than_the_limit_comes_in_part(wire, version):
    wire.create("t")
    produce(wire, "t", batch("x" * 5000))
    records = bytes(fetch(wire, "t", 0, version=version, partition_max_bytes=1000).records)
    assert len(records) == 1000
    assert int.from_bytes(records[8:12], "big") > 5000  # the client sees how much it needs
    assert messages_in(records, partial=True) == []
    assert not fetch(wire, "t", 0, version=version, partition_max_bytes=0).records


def test_from_version_3_on_it_comes_whole(wire):
    wire.create("t")
    produce(wire, "t", batch("x" * 5000))
    assert values_in(fetch(wire, "t", 0, version=3, partition_max_bytes=1000).records) == ["x" * 5000]


def test_the_limit_of_the_broker_holds_however_often_a_partition_is_named(serve):
    wire = serve(fetch_max_bytes=20_000).wire()
    wire.create("t")
    produce(wire, "t", batch("x" * 5000))
    reply = wire.call(fetch_request(*[("t", 0, 0)] * 500, partition_max_bytes=1000), 1)
    found = [bytes(one.records) for topic in reply.responses for one in topic.partitions]
    assert len(found) == 500
    assert 0 < sum(map(len, found)) <= 20_000


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_without_records_are_stepped_over(served, wire, version):
    wire.create("t")
    produce(wire, "t", batch("a"))
    for _ in range(3):
        write_marker(served, "t")
    write_remains(served, "t", 10)
    produce(wire, "t", batch("b" * 500))
    assert values_in(fetch(wire, "t", 0, version=version).records) == ["a", "b" * 500]
    for offset in range(1, 15):
        assert values_in(fetch(wire, "t", offset, version=version).records) == ["b" * 500]
    # not one of them fits, and the message behind them does not either
    answer = fetch(wire, "t", 1, version=version, partition_max_bytes=100)
    assert len(answer.records) == 100 if version < 3 else values_in(answer.records) == ["b" * 500]


@pytest.mark.parametrize("version", VERSIONS)
def test_behind_the_last_record_a_fetch_waits_though_markers_follow(served, until, version):
    consumer, producer = served.wire(), served.wire()
    producer.create("t")
    produce(producer, "t", batch("a"))
    write_marker(served, "t")
    partition = served.broker.partition("t", 0)
    waiting = consumer.send(fetch_request(("t", 0, 1), max_wait_ms=FOREVER), version)
    until(lambda: partition.waiters)
    produce(producer, "t", batch("b"))
    found = answers(consumer.receive("Fetch", version, waiting))
    assert values_in(found["t", 0].records) == ["b"]


@pytest.mark.parametrize("version", [2, 3])
def test_a_batch_that_has_no_record_from_the_offset_on_is_read_past(served, wire, version):
    """Compaction keeps a batch's range of offsets when it drops its last records."""
    wire.create("t")
    now = now_ms()
    produce(wire, "t", bytes(build_batch([Record(offset, now, b"k", b"a%d" % offset) for offset in range(3)])))
    log = served.broker.partition("t", 0).log

    async def compact():

        data = build_batch([Record(0, now, b"k", b"a0")])
        header = read_header(data)._replace(last_offset_delta=2)
        HEADER.pack_into(data, 0, *header)
        seal(data, 0, len(data))
        path = next(log.directory.glob("*.log"))
        path.write_bytes(data)
        log.active.size = len(data)

    served.run(compact())
    produce(wire, "t", batch("b"))
    assert values_in(fetch(wire, "t", 0, version=version).records) == ["a0", "b"]
    limit = log.active.batch_at(0)
    answer = fetch(wire, "t", 1, version=version, partition_max_bytes=len(limit))
    assert values_in(answer.records) == ["b"]


def test_a_topic_deleted_while_its_records_are_converted_is_still_answered(served, wire):
    wire.create("t")
    produce(wire, "t", batch("x" * LARGE))
    real, admin = served.broker.run_blocking, served.wire()

    async def delete_first(function, *arguments):
        served.broker.run_blocking = real
        await served.broker.controller.delete_topics(["t"])
        return await real(function, *arguments)

    served.broker.run_blocking = delete_first
    assert values_in(fetch(wire, "t", 0, version=2).records) == ["x" * LARGE]
    assert admin.call(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")]), 6).responses[0].error_code == 3


def test_requests_behind_a_conversion_wait_their_turn(wire):
    wire.create("t")
    produce(wire, "t", batch("x" * LARGE))
    sent = [wire.send(fetch_request(("t", 0, 0)), version) for version in (1, 2, 4, 1)]
    for correlation_id, version in zip(sent, (1, 2, 4, 1)):
        assert answers(wire.receive("Fetch", version, correlation_id))["t", 0].high_watermark == 1


def test_errors_are_told_as_to_new_clients(wire):
    wire.create("t")
    assert fetch(wire, "t", 5, version=0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(wire, "t", 0, 7, version=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(wire, "nowhere", 0, version=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
