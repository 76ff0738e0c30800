"""Fetch, as consumers see it."""

import pytest

from ottla.protocol.compression import GZIP, ZSTD
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import DeleteTopicsRequest, MetadataRequest
from ottla.storage.segment import SMALL_READ
from support.markers import write_marker
from support.requests import answers, batch, fetch, fetch_request, produce, records_in, values_in

FOREVER = 60_000  # ms; tests that wait this long have failed


def parked(served):
    """How many fetches wait for records."""
    return sum(len(partition.waiters) for partition in served.broker.replicas)


# -- what comes back


@pytest.mark.parametrize("version", range(4, 19))
def test_records_come_back_from_the_batch_that_has_the_offset(wire, version):
    topic_id = wire.create("t")
    produce(wire, "t", batch("a", "b", "c"))
    produce(wire, "t", batch("d"))
    answer = fetch(wire, topic_id if version >= 13 else "t", 1, version=version)
    assert values_in(answer.records) == ["a", "b", "c", "d"]
    assert [one.offset for one in records_in(answer.records)] == [0, 1, 2, 3]


def test_offsets_of_the_partition_are_told(served, wire):
    wire.create("t")
    produce(wire, "t", batch("a", "b"))
    for isolation in (0, 1):
        for offset in (0, 2):
            answer = fetch(wire, "t", offset, isolation=isolation)
            assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (2, 2, 0)
            assert answer.aborted_transactions == []
            assert answer.preferred_read_replica == -1


def test_at_the_end_there_is_nothing_and_beyond_or_before_it_the_offset_is_out_of_range(served, wire):
    wire.create("t")
    produce(wire, "t", batch("a", "b"))
    assert fetch(wire, "t", 2).error_code == 0
    for offset in (3, 2**62, -1, -(2**62)):
        answer = fetch(wire, "t", offset)
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert not answer.records
    served.broker.partition("t", 0).log.start_offset = 1
    assert fetch(wire, "t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(wire, "t", 1).error_code == 0


@pytest.mark.parametrize("isolation", [0, 1])
def test_consumers_see_no_more_than_is_committed(served, wire, isolation):
    wire.create("t")
    for value in "abc":
        produce(wire, "t", batch(value))
    partition = served.broker.partition("t", 0)
    partition.last_stable_offset = 1
    partition.high_watermark = 2
    visible = 1 if isolation else 2
    answer = fetch(wire, "t", 0, isolation=isolation)
    assert values_in(answer.records) == list("abc")[:visible]
    assert (answer.high_watermark, answer.last_stable_offset) == (2, 1)
    for offset in range(visible, 4):
        answer = fetch(wire, "t", offset, isolation=isolation)
        assert (answer.error_code, len(answer.records)) == (0, 0)
    assert fetch(wire, "t", 4, isolation=isolation).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_unknown_topics_and_partitions_have_their_errors_and_the_others_their_records(wire):
    topic_id = wire.create("t")
    produce(wire, "t", batch("a"))
    reply = wire.call(fetch_request(("nowhere", 0, 0), ("t", 0, 0), ("t", 1, 0), ("t", -1, 0), max_wait_ms=FOREVER), 12)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(key, one.error_code) for key, one in answers(reply).items()] == [
        (("nowhere", 0), unknown),
        (("t", 0), 0),
        (("t", 1), unknown),
        (("t", -1), unknown),
    ]
    assert values_in(answers(reply)["t", 0].records) == ["a"]
    reply = wire.call(fetch_request((b"?" * 16, 0, 0), (topic_id, 3, 0), (topic_id, 0, 0), max_wait_ms=FOREVER), 13)
    assert [one.error_code for one in answers(reply).values()] == [ErrorCode.UNKNOWN_TOPIC_ID, unknown, 0]


def test_a_topic_made_again_has_another_id(wire):
    old = wire.create("t")
    produce(wire, "t", batch("old"))
    wire.call(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")]), 6)
    new = wire.create("t")
    assert fetch(wire, old, 0, version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(wire, new, 0, version=13).high_watermark == 0


def test_a_client_with_another_leader_epoch_is_fenced(served, wire):
    wire.create("t")
    served.broker.partition("t", 0).leader_epoch = 5
    for epoch, code in (
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (5, 0),
        (-1, 0),
    ):
        assert fetch(wire, "t", 0, leader_epoch=epoch, max_wait_ms=0).error_code == code
    assert fetch(wire, "t", 0, leader_epoch=4, version=8).error_code == 0  # version 8 has no epochs


def test_a_log_that_went_another_way_is_told_where(served, wire):
    wire.create("t")
    partition = served.broker.partition("t", 0)
    produce(wire, "t", batch("a", "b"))  # epoch 0: offsets 0 and 1
    partition.leader_epoch = 3
    produce(wire, "t", batch("c"))  # epoch 3: from offset 2
    for last_epoch, offset, diverging in (
        (0, 2, None),
        (3, 3, None),
        (-1, 3, None),
        (0, 3, (0, 2)),  # it has more of epoch 0 than we
        (2, 3, (0, 2)),  # it knows an epoch between that we never had
    ):
        answer = fetch(wire, "t", offset, last_epoch=last_epoch, max_wait_ms=FOREVER, min_bytes=0)
        found = (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
        assert found == (diverging or (-1, -1)), (last_epoch, offset)
        if diverging:
            assert (answer.error_code, len(answer.records)) == (0, 0)
    # an epoch later than all of ours: Kafka has no better word for it
    assert fetch(wire, "t", 3, last_epoch=5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# -- limits


def test_a_partition_gives_whole_batches_within_its_limit(wire):
    wire.create("t")
    data = batch("x" * 100)
    for _ in range(5):
        produce(wire, "t", data)
    size = len(data)
    for limit, count in (
        (2 * size, 2),
        (3 * size - 1, 2),
        (5 * size, 5),
        (9 * size, 5),
        (size - 1, 1),
        (0, 1),
        (-1, 1),
    ):
        assert len(values_in(fetch(wire, "t", 0, partition_max_bytes=limit).records)) == count


def test_the_first_batch_comes_however_large_it_is_and_only_the_first(wire):
    wire.create("t", 3)
    for index in range(3):
        for value in ("x" * 5000, "y"):
            produce(wire, "t", batch(value), index)
    request = fetch_request(*(("t", index, 0) for index in range(3)), max_bytes=10, partition_max_bytes=20)
    counts = [len(records_in(one.records)) for one in answers(wire.call(request, 12)).values()]
    assert counts == [1, 0, 0]
    request = fetch_request(*(("t", index, 0) for index in range(3)), partition_max_bytes=20)
    counts = [len(records_in(one.records)) for one in answers(wire.call(request, 12)).values()]
    assert counts == [1, 0, 0]


def test_the_limit_for_all_is_shared_in_the_order_asked(wire):
    wire.create("t", 3)
    data = batch("x" * 100)
    for index in range(3):
        for _ in range(3):
            produce(wire, "t", data, index)
    request = fetch_request(*(("t", index, 0) for index in (2, 0, 1)), max_bytes=4 * len(data))
    counts = {key[1]: len(records_in(one.records)) for key, one in answers(wire.call(request, 12)).items()}
    assert counts == {2: 3, 0: 1, 1: 0}


def test_the_broker_has_a_limit_of_its_own(serve):
    wire = serve(fetch_max_bytes=2048).wire()
    wire.create("t")
    for _ in range(10):
        produce(wire, "t", batch("x" * 500))
    assert len(values_in(fetch(wire, "t", 0).records)) == 3


@pytest.mark.parametrize("version", [4, 12, 16])
def test_large_answers_are_whole(wire, version):
    topic_id = wire.create("t", 2)
    values = [f"{number} " + "x" * 30_000 for number in range(10)]
    for value in values:
        for index in range(2):
            produce(wire, "t", batch(value), index)
    topic = topic_id if version >= 13 else "t"
    reply = wire.call(fetch_request((topic, 0, 0), (topic, 1, 0)), version)
    found = [bytes(one.records) for one in answers(reply).values()]
    assert all(len(one) > SMALL_READ for one in found)
    assert [values_in(one) for one in found] == [values] * 2


def test_a_consumer_that_is_given_little_at_a_time_gets_everything_once(wire):
    wire.create("t", configs={"segment.bytes": "1048576", "index.interval.bytes": "300"})
    expected = [f"{number}" * 50 for number in range(300)]
    for value in expected:
        produce(wire, "t", batch(value))
    offset, seen = 0, []
    while offset < 300:
        records = records_in(fetch(wire, "t", offset, partition_max_bytes=1000).records)
        assert records
        seen += [one.value.decode() for one in records if one.offset >= offset]
        offset = records[-1].offset + 1
    assert seen == expected


# -- waiting


def test_a_fetch_waits_and_is_answered_by_the_records_that_arrive(served, until):
    consumer, producer = served.wire(), served.wire()
    producer.create("t", 2)
    waiting = consumer.send(fetch_request(("t", 0, 0), ("t", 1, 0), max_wait_ms=FOREVER), 12)
    until(lambda: parked(served) == 2)
    produce(producer, "t", batch("a"), 1)
    found = answers(consumer.receive("Fetch", 12, waiting))
    assert values_in(found["t", 1].records) == ["a"]
    assert parked(served) == 0


def test_records_of_another_partition_wake_nobody(served, until):
    consumer, producer = served.wire(), served.wire()
    producer.create("t", 2)
    waiting = consumer.send(fetch_request(("t", 0, 0), max_wait_ms=FOREVER), 12)
    until(lambda: parked(served) == 1)
    produce(producer, "t", batch("a"), 1)
    assert parked(served) == 1
    produce(producer, "t", batch("b"), 0)
    assert values_in(answers(consumer.receive("Fetch", 12, waiting))["t", 0].records) == ["b"]


def test_min_bytes_are_gathered_over_partitions(served, until):
    consumer, producer = served.wire(), served.wire()
    producer.create("t", 2)
    data = batch("x" * 100)
    produce(producer, "t", data, 0)  # counts too
    request = fetch_request(("t", 0, 0), ("t", 1, 0), max_wait_ms=FOREVER, min_bytes=3 * len(data))
    waiting = consumer.send(request, 12)
    until(lambda: parked(served) == 2)
    produce(producer, "t", data, 1)
    assert parked(served) == 2
    produce(producer, "t", data, 0)
    found = answers(consumer.receive("Fetch", 12, waiting))
    assert [len(records_in(one.records)) for one in found.values()] == [2, 1]


def test_when_time_is_up_there_is_what_there_is(served, wire):
    wire.create("t")
    produce(wire, "t", batch("a"))
    assert values_in(fetch(wire, "t", 0, max_wait_ms=20, min_bytes=1 << 20).records) == ["a"]
    assert not fetch(wire, "t", 1, max_wait_ms=20).records
    assert parked(served) == 0


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (-1, 1), (FOREVER, 0), (FOREVER, -5)])
def test_who_wants_no_waiting_is_answered_at_once(wire, max_wait_ms, min_bytes):
    wire.create("t")
    answer = fetch(wire, "t", 0, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    assert (answer.error_code, len(answer.records)) == (0, 0)


def test_a_fetch_of_nothing_is_answered_at_once(wire):
    assert wire.call(fetch_request(max_wait_ms=FOREVER), 12).responses == []


def test_requests_behind_a_waiting_fetch_are_answered_after_it_and_in_order(served, until):
    consumer, producer = served.wire(), served.wire()
    producer.create("t")
    first = consumer.send(fetch_request(("t", 0, 0), max_wait_ms=FOREVER), 12)
    second = consumer.send(MetadataRequest(topics=[]), 12)
    third = consumer.send(fetch_request(("t", 0, 1), max_wait_ms=FOREVER), 12)
    fourth = consumer.send(fetch_request(("t", 0, 0)), 4)
    until(lambda: parked(served) == 1)
    produce(producer, "t", batch("a"))
    assert values_in(answers(consumer.receive("Fetch", 12, first))["t", 0].records) == ["a"]
    consumer.receive("Metadata", 12, second)
    until(lambda: parked(served) == 1)
    produce(producer, "t", batch("b"))
    assert values_in(answers(consumer.receive("Fetch", 12, third))["t", 0].records) == ["b"]
    assert values_in(answers(consumer.receive("Fetch", 4, fourth))["t", 0].records) == ["a", "b"]


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_deleted_while_a_fetch_waits_answers_it(served, until, version):
    consumer, admin = served.wire(), served.wire()
    topic_id, other = admin.create("t"), admin.create("other")
    topics = (topic_id, other) if version >= 13 else ("t", "other")
    waiting = consumer.send(fetch_request(*((one, 0, 0) for one in topics), max_wait_ms=FOREVER), version)
    until(lambda: parked(served) == 2)
    admin.call(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")]), 6)
    found = answers(consumer.receive("Fetch", version, waiting))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [found[one, 0].error_code for one in topics] == [unknown, 0]
    assert parked(served) == 0


def test_a_client_that_leaves_while_its_fetch_waits_is_forgotten(served, until):
    consumer, producer = served.wire(), served.wire()
    producer.create("t")
    consumer.send(fetch_request(("t", 0, 0), max_wait_ms=FOREVER), 12)
    until(lambda: parked(served) == 1)
    consumer.close()
    until(lambda: parked(served) == 0)
    assert produce(producer, "t", batch("a")).error_code == 0


def test_many_consumers_wait_for_one_record(served, until):
    producer = served.wire()
    producer.create("t")
    consumers = [served.wire() for _ in range(50)]
    waiting = [one.send(fetch_request(("t", 0, 0), max_wait_ms=FOREVER), 12) for one in consumers]
    until(lambda: parked(served) == 50)
    produce(producer, "t", batch("a"))
    for consumer, correlation_id in zip(consumers, waiting):
        assert values_in(answers(consumer.receive("Fetch", 12, correlation_id))["t", 0].records) == ["a"]


def test_a_fetch_that_fails_while_it_waits_closes_its_connection_and_no_other(served, until, monkeypatch):
    consumer, producer = served.wire(), served.wire()
    producer.create("t")
    consumer.send(fetch_request(("t", 0, 0), max_wait_ms=FOREVER), 12)
    until(lambda: parked(served) == 1)
    monkeypatch.setattr("ottla.broker.handlers.fetch.write_response", None)
    assert produce(producer, "t", batch("a")).error_code == 0
    with pytest.raises(ConnectionError):
        consumer.frame()
    monkeypatch.undo()
    assert values_in(fetch(producer, "t", 0).records) == ["a"]


# -- codecs


@pytest.mark.parametrize("version", [4, 9])
def test_clients_before_version_10_get_what_lies_before_zstd_and_then_an_error(wire, version):
    wire.create("t")
    for value, codec in (("a", 0), ("b", GZIP), ("c", ZSTD), ("d", 0)):
        produce(wire, "t", batch(value, codec=codec))
    assert values_in(fetch(wire, "t", 0, version=version).records) == ["a", "b"]
    answer = fetch(wire, "t", 2, version=version)
    assert (answer.error_code, len(answer.records)) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0)
    assert values_in(fetch(wire, "t", 3, version=version).records) == ["d"]
    assert values_in(fetch(wire, "t", 0, version=10).records) == ["a", "b", "c", "d"]


def test_control_batches_come_as_they_are(served, wire):
    wire.create("t")
    produce(wire, "t", batch("a"))
    write_marker(served, "t")
    assert len(records_in(fetch(wire, "t", 0).records)) == 2
