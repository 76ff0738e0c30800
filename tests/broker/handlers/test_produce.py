"""Produce, as producers see it."""

import pytest

from ottla.protocol.batch import HEADER, LENGTH_OVERHEAD, read_header, seal
from ottla.protocol.compression import GZIP, NONE, SNAPPY, ZSTD, compress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import COMMIT, Record, build_batch, control_batch
from support.requests import batch, fetch, frame_of, now_ms, produce, produce_request, records_in, values_in


def patched(data, **fields):
    """A batch with other header fields, and the CRC that fits them."""
    header = read_header(data)._replace(**fields)
    out = bytearray(data)
    HEADER.pack_into(out, 0, *header)
    seal(out, 0, len(out))
    return bytes(out)


# -- acks


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(3, 14))
def test_a_batch_is_written_and_its_offset_told(served, version, acks):
    wire = served.wire()
    topic_id = wire.create("t")
    topic = topic_id if version >= 13 else "t"
    offsets = [produce(wire, topic, batch("a", "b"), acks=acks, version=version).base_offset for _ in range(2)]
    assert offsets == [0, 2]
    assert values_in(fetch(wire, "t", 0).records) == ["a", "b", "a", "b"]


def test_with_acks_0_nothing_is_answered_and_the_connection_goes_on(wire):
    wire.create("t")
    wire.send(produce_request(("t", 0, batch("a")), acks=0), 9)
    wire.send(produce_request(("t", 0, batch("b")), acks=0), 3)
    answer = produce(wire, "t", batch("c"))
    assert (answer.error_code, answer.base_offset) == (0, 2)


@pytest.mark.parametrize("version", [0, 2, 3, 9])
def test_with_acks_0_a_failure_closes_the_connection_and_the_rest_is_written(served, version):
    wire = served.wire()
    wire.create("t")
    wire.send(produce_request(("nowhere", 0, batch("a")), ("t", 0, batch("b")), acks=0), version)
    with pytest.raises(ConnectionError):
        wire.frame()
    written = values_in(fetch(served.wire(), "t", 0).records)
    assert written == (["b"] if version >= 3 else [])  # format 2 is no message set


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused_for_every_partition(wire, acks):
    wire.create("t", 2)
    request = produce_request(("t", 0, batch("a")), ("t", 1, batch("b")), acks=acks)
    (topic,) = wire.call(request, 9).responses
    assert [one.error_code for one in topic.partition_responses] == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert fetch(wire, "t", 0).high_watermark == 0


def test_min_insync_replicas_counts_only_for_acks_all(wire):
    wire.create("t", configs={"min.insync.replicas": "2"})
    assert produce(wire, "t", batch("a"), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(wire, "t", batch("b"), acks=1).error_code == 0
    assert values_in(fetch(wire, "t", 0).records) == ["b"]


# -- where to


def test_each_partition_has_its_own_answer_and_the_good_ones_are_written(served, wire):
    wire.create("t", 2)
    wire.create("compacted", configs={"cleanup.policy": "compact"})
    request = produce_request(
        ("t", 0, batch("a")),
        ("t", 1, batch("b")[:-1]),
        ("t", 2, batch("c")),
        ("t", -1, batch("c")),
        ("missing", 0, batch("d")),
        ("a/b", 0, batch("e")),
        ("", 0, batch("e")),
        ("x" * 250, 0, batch("e")),
        ("__consumer_offsets", 0, batch("f")),
        ("compacted", 0, batch("g", key=None)),
        ("t", 1, batch("h")),
        ("t", 0, None),
    )
    replies = [
        (topic.name[:20], one.index, ErrorCode(one.error_code).name, one.base_offset)
        for topic in wire.call(request, 9).responses
        for one in topic.partition_responses
    ]
    assert replies == [
        ("t", 0, "NONE", 0),
        ("t", 1, "CORRUPT_MESSAGE", -1),
        ("t", 2, "UNKNOWN_TOPIC_OR_PARTITION", -1),
        ("t", -1, "UNKNOWN_TOPIC_OR_PARTITION", -1),
        ("missing", 0, "UNKNOWN_TOPIC_OR_PARTITION", -1),
        ("a/b", 0, "INVALID_TOPIC_EXCEPTION", -1),
        ("", 0, "INVALID_TOPIC_EXCEPTION", -1),
        ("x" * 20, 0, "INVALID_TOPIC_EXCEPTION", -1),
        ("__consumer_offsets", 0, "INVALID_TOPIC_EXCEPTION", -1),
        ("compacted", 0, "INVALID_RECORD", -1),
        ("t", 1, "NONE", 0),
        ("t", 0, "INVALID_RECORD", -1),
    ]
    assert values_in(fetch(wire, "t", 0).records) == ["a"]
    assert values_in(fetch(wire, "t", 0, 1).records) == ["h"]


def test_topic_ids_name_topics_from_version_13_on(served, wire):
    topic_id = wire.create("t")
    unknown = b"?" * 16
    request = produce_request((topic_id, 0, batch("a")), (unknown, 0, batch("b")), (topic_id, 7, batch("c")))
    replies = [
        (bytes(topic.topic_id), ErrorCode(one.error_code).name)
        for topic in wire.call(request, 13).responses
        for one in topic.partition_responses
    ]
    assert replies == [
        (topic_id, "NONE"),
        (unknown, "UNKNOWN_TOPIC_ID"),
        (topic_id, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_an_internal_topic_is_not_written_to_under_any_name(served, wire):
    topic_id = wire.create("__consumer_offsets")
    for topic, version in (("__consumer_offsets", 9), (topic_id, 13)):
        answer = produce(wire, topic, batch("a"), version=version)
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert fetch(wire, "__consumer_offsets", 0).high_watermark == 0


def test_a_name_that_is_not_utf_8_is_that_of_no_topic(wire):
    wire.create("t")
    request = produce_request(("topic", 0, batch("a")))
    raw = frame_of(request, 9, None).replace(b"topic", b"\xff\xfe\xfd\xfc\xfb")
    wire.socket.sendall(len(raw).to_bytes(4, "big") + raw)
    reply = wire.frame()
    assert b"\xff\xfe\xfd\xfc\xfb" in reply
    assert ErrorCode.INVALID_TOPIC_EXCEPTION.to_bytes(2, "big") in reply


# -- idempotent producers


def sent(wire, sequence, *values, epoch=0, producer=7, version=9):
    data = batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    answer = produce(wire, "t", data, version=version)
    return answer.base_offset if not answer.error_code else ErrorCode(answer.error_code).name


def test_a_batch_sent_again_gets_its_old_offset_and_is_written_once(wire):
    wire.create("t")
    assert [sent(wire, sequence, "x", "y") for sequence in (0, 2, 4, 6, 8)] == [0, 2, 4, 6, 8]
    assert [sent(wire, sequence, "x", "y") for sequence in (0, 4, 8)] == [0, 4, 8]
    assert fetch(wire, "t", 0).high_watermark == 10
    assert sent(wire, 10, "z") == 10
    assert sent(wire, 0, "x", "y") == "OUT_OF_ORDER_SEQUENCE_NUMBER"  # five are remembered


def test_a_gap_or_a_batch_of_another_shape_is_out_of_order(wire):
    wire.create("t")
    assert sent(wire, 0, "a") == 0
    assert sent(wire, 2, "c") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(wire, 0, "a", "b") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(wire, 1, "b") == 1


def test_an_unknown_producer_may_begin_anywhere(wire):
    wire.create("t")
    assert sent(wire, 55, "a") == 0
    assert sent(wire, 56, "b") == 1


def test_a_new_epoch_starts_at_sequence_0_and_fences_the_old_one(wire):
    wire.create("t")
    assert sent(wire, 0, "a") == 0
    assert sent(wire, 1, "b", epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(wire, 0, "b", epoch=1) == 1
    assert sent(wire, 1, "c") == "INVALID_PRODUCER_EPOCH"
    assert sent(wire, 1, "c", epoch=1) == 2


def test_sequences_wrap_around(wire):
    wire.create("t")
    assert sent(wire, 2**31 - 2, "a", "b", "c") == 0
    assert sent(wire, 2**31 - 2, "a", "b", "c") == 0
    assert sent(wire, 1, "d") == 3


def test_a_producer_id_without_sequence_is_refused(wire):
    wire.create("t")
    assert sent(wire, -1, "a") == "INVALID_RECORD"


def test_producers_are_known_after_a_restart(served):
    wire = served.wire()
    wire.create("t")
    assert [sent(wire, sequence, "x") for sequence in range(6)] == list(range(6))
    wire = served.restart().wire()
    assert [sent(wire, sequence, "x") for sequence in range(1, 6)] == list(range(1, 6))
    assert sent(wire, 0, "x") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(wire, 7, "x") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(wire, 6, "x") == 6


# -- times


def test_create_time_is_kept_as_sent(wire):
    wire.create("t")
    at = now_ms() - 1000
    answer = produce(wire, "t", batch("a", timestamp=at))
    assert answer.log_append_time_ms == -1
    assert [one.timestamp for one in records_in(fetch(wire, "t", 0).records)] == [at]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_log_append_time_is_given_by_the_broker_and_told(wire, codec):
    wire.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    answer = produce(wire, "t", batch("a", "b", timestamp=5, codec=codec))
    assert before <= answer.log_append_time_ms <= now_ms()
    assert {one.timestamp for one in records_in(fetch(wire, "t", 0).records)} == {answer.log_append_time_ms}


def test_a_duplicate_is_told_the_append_time_of_the_first(wire):
    wire.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    data = batch("a", producer_id=1, producer_epoch=0, base_sequence=0)
    first, again = produce(wire, "t", data), produce(wire, "t", data)
    assert (again.base_offset, again.log_append_time_ms) == (0, first.log_append_time_ms)


def test_timestamps_too_far_from_the_brokers_clock_are_refused(wire):
    wire.create("t", configs={"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"})
    now = now_ms()
    for timestamp, code in (
        (now - 120_000, ErrorCode.INVALID_TIMESTAMP),
        (now + 120_000, ErrorCode.INVALID_TIMESTAMP),
        (now - 30_000, 0),
        (now + 30_000, 0),
        (-1, 0),  # none, as old formats have it
    ):
        assert produce(wire, "t", batch("a", timestamp=timestamp)).error_code == code, timestamp - now


def test_times_are_not_judged_where_the_broker_sets_them(wire):
    configs = {"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1000"}
    wire.create("t", configs=configs)
    assert produce(wire, "t", batch("a", timestamp=5)).error_code == 0


# -- what is in the batch


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, ZSTD])
def test_max_message_bytes_holds_for_the_batch_as_stored(wire, codec):
    data = batch("x" * 5000, codec=codec)
    wire.create("fits", configs={"max.message.bytes": str(len(data))})
    wire.create("too-small", configs={"max.message.bytes": str(len(data) - 1)})
    assert produce(wire, "fits", data).error_code == 0
    answer = produce(wire, "too-small", data)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert str(len(data)) in answer.error_message


def test_a_batch_larger_than_a_segment_is_refused(wire):
    wire.create("t", configs={"segment.bytes": "1048576", "max.message.bytes": "3000000"})
    assert produce(wire, "t", batch("x" * 1_100_000)).error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert produce(wire, "t", batch("x" * 1_000_000)).error_code == 0


@pytest.mark.parametrize("version", [8, 9])
def test_a_keyless_record_on_a_compacted_topic_is_named(wire, version):
    wire.create("t", configs={"cleanup.policy": "compact"})
    now = now_ms()
    data = build_batch([Record(0, now, b"k", b"a"), Record(1, now, b"k", b"b"), Record(2, now, None, b"c")])
    answer = produce(wire, "t", bytes(data), version=version)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [2]
    assert "key" in answer.error_message
    assert "key" in answer.record_errors[0].batch_index_error_message
    assert produce(wire, "t", batch("a")).base_offset == 0


@pytest.mark.parametrize(
    ("count", "codec"), [(10, GZIP), (3000, NONE), (30_000, ZSTD)], ids=["small", "large as sent", "large unpacked"]
)
def test_every_record_of_a_compacted_topic_is_looked_at(served, wire, count, codec):
    wire.create("t", 2, configs={"cleanup.policy": "compact"})
    now = now_ms()
    keyed = [Record(index, now, b"k%d" % index, b"v" * 20) for index in range(count)]
    flawed = [*keyed[:-1], Record(count - 1, now, None, b"v")]
    request = produce_request(
        ("t", 0, bytes(build_batch(keyed, codec=codec))),
        ("t", 1, bytes(build_batch(flawed, codec=codec))),
        ("t", 0, bytes(build_batch(keyed, codec=codec))),
        ("missing", 0, batch("x")),
        ("t", 1, None),
        ("t", 1, batch("last")),
    )
    topics = wire.call(request, 9).responses
    found = [(one.error_code, one.base_offset) for topic in topics for one in topic.partition_responses]
    invalid = (ErrorCode.INVALID_RECORD, -1)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert found == [(0, 0), invalid, (0, count), unknown, invalid, (0, 0)]
    assert [e.batch_index for e in topics[0].partition_responses[1].record_errors] == [count - 1]


def test_requests_behind_a_batch_that_is_looked_through_aside_wait_their_turn(wire):
    wire.create("t", configs={"cleanup.policy": "compact"})
    now = now_ms()
    large = bytes(build_batch([Record(index, now, b"key", b"v" * 20) for index in range(3000)]))
    wire.send(produce_request(("t", 0, large), acks=0), 9)
    sent = [wire.send(produce_request(("t", 0, data)), 9) for data in (large, batch("a"))]
    offsets = [
        wire.receive("Produce", 9, correlation).responses[0].partition_responses[0].base_offset for correlation in sent
    ]
    assert offsets == [3000, 6000]


def test_a_topic_deleted_while_its_batch_is_looked_through_is_unknown(served, wire):
    wire.create("t", configs={"cleanup.policy": "compact"})
    now = now_ms()
    large = bytes(build_batch([Record(index, now, b"key", b"v" * 20) for index in range(3000)]))
    real = served.broker.run_blocking

    async def delete_first(function, *arguments):
        served.broker.run_blocking = real
        await served.broker.controller.delete_topics(["t"])
        return await real(function, *arguments)

    served.broker.run_blocking = delete_first
    assert produce(wire, "t", large).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_bomb_on_a_compacted_topic_is_refused(wire):
    wire.create("t", configs={"cleanup.policy": "compact"})
    data = bytearray(batch("x", codec=ZSTD))
    bomb = compress(ZSTD, bytes(200 * 1024 * 1024))
    data = data[:61] + bomb
    data[8:12] = (len(data) - LENGTH_OVERHEAD).to_bytes(4, "big")
    seal(data, 0, len(data))
    answer = produce(wire, "t", bytes(data))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "limit" in answer.error_message or "bytes" in answer.error_message


def test_several_batches_for_one_partition_are_refused(wire):
    wire.create("t")
    assert produce(wire, "t", batch("a") + batch("b")).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("at", [17, 22, 40, 62, -1])
def test_bytes_that_the_crc_does_not_fit_are_corrupt(wire, at):
    wire.create("t")
    data = bytearray(batch("abc"))
    data[at] ^= 1
    assert produce(wire, "t", bytes(data)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert fetch(wire, "t", 0).high_watermark == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 2}, ErrorCode.INVALID_RECORD),
        ({"record_count": -1}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 5}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": -7, "record_count": -6}, ErrorCode.INVALID_RECORD),
        ({"magic": 1}, ErrorCode.INVALID_RECORD),
        ({"magic": 3}, ErrorCode.INVALID_RECORD),
        ({"batch_length": 10}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": -1}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": 2**31 - 1}, ErrorCode.CORRUPT_MESSAGE),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": 7}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": 8}, ErrorCode.INVALID_TIMESTAMP),
        ({"attributes": 16}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"attributes": 32}, ErrorCode.INVALID_RECORD),
        ({"attributes": 48}, ErrorCode.INVALID_RECORD),
    ],
    ids=str,
)
def test_a_header_that_cannot_be_is_refused(wire, fields, code):
    wire.create("t")
    answer = produce(wire, "t", patched(batch("a"), **fields))
    assert ErrorCode(answer.error_code) is code
    assert answer.error_message
    assert fetch(wire, "t", 0).high_watermark == 0


def test_offsets_and_epochs_that_a_producer_claims_are_overwritten(wire):
    wire.create("t")
    assert produce(wire, "t", patched(batch("a"), base_offset=99, partition_leader_epoch=12)).base_offset == 0
    header = read_header(bytes(fetch(wire, "t", 0).records))
    assert (header.base_offset, header.partition_leader_epoch) == (0, 0)


def test_clients_may_not_write_control_batches(wire):
    wire.create("t")
    marker = bytes(control_batch(COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=now_ms()))
    assert produce(wire, "t", marker).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("data", [b"", b"x" * 60], ids=len)
def test_fewer_bytes_than_a_header_are_corrupt(wire, data):
    wire.create("t")
    assert produce(wire, "t", data).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, 0)])
def test_zstd_needs_version_7(wire, version, code):
    wire.create("t")
    assert produce(wire, "t", batch("a", codec=ZSTD), version=version).error_code == code


def test_a_malformed_request_changes_nothing_and_closes_the_connection(served, wire):
    wire.create("t")
    raw = frame_of(produce_request(("t", 0, batch("a")), ("t", 0, batch("b"))), 9, None)[:-4]
    wire.socket.sendall(len(raw).to_bytes(4, "big") + raw)
    with pytest.raises(ConnectionError):
        wire.frame()
    assert fetch(served.wire(), "t", 0).high_watermark == 0


def test_what_follows_a_request_is_ignored(wire):
    wire.create("t")
    raw = frame_of(produce_request(("t", 0, batch("a"))), 9, None) + b"abc"
    wire.socket.sendall(len(raw).to_bytes(4, "big") + raw)
    wire.frame()
    assert fetch(wire, "t", 0).high_watermark == 1


def test_a_disk_that_refuses_is_a_storage_error_and_the_partition_goes_on(served, wire, monkeypatch):
    wire.create("t", configs={"segment.bytes": "1048576"})
    produce(wire, "t", batch("a"))
    log = served.broker.partition("t", 0).log
    refuse = lambda: (_ for _ in ()).throw(OSError(28, "No space left on device"))  # noqa: E731
    monkeypatch.setattr(type(log), "roll", lambda self: refuse())
    big = batch("x" * 700_000)
    assert produce(wire, "t", big).error_code == 0
    assert produce(wire, "t", big).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert produce(wire, "t", big).base_offset == 2


def test_log_start_offset_and_no_throttling_are_told(wire):
    wire.create("t")
    reply = wire.call(produce_request(("t", 0, batch("a")), ("t", 0, batch("b"))), 9)
    assert reply.throttle_time_ms == 0
    assert [one.log_start_offset for one in reply.responses[0].partition_responses] == [0, 0]
