"""ListOffsets through the wire, in every version."""

from __future__ import annotations

import pytest

from ottla.protocol import messages
from ottla.protocol.batch import seal
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, build_batch

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6

SINCE_1 = range(1, 12)
NONE_FOUND = (0, -1, -1)


def ask(wire, version, *asked, replica_id=-1, **more):
    """Each asked entry is (topic, partition, timestamp[, leader epoch or most offsets])."""
    topics = []
    for topic, index, timestamp, *rest in asked:
        partition = messages.ListOffsetsRequest.Partition(partition_index=index, timestamp=timestamp)
        if rest and version == 0:
            partition.max_num_offsets = rest[0]
        elif rest:
            partition.current_leader_epoch = rest[0]
        topics.append(messages.ListOffsetsRequest.Topic(name=topic, partitions=[partition]))
    reply = wire.call(messages.ListOffsetsRequest(replica_id=replica_id, topics=topics, **more), version)
    return [partition for topic in reply.topics for partition in topic.partitions]


def brief(partitions):
    return [(partition.error_code, partition.timestamp, partition.offset) for partition in partitions]


def records(*timestamps):
    return [Record(at, timestamp, None, b"v%d" % timestamp, []) for at, timestamp in enumerate(timestamps)]


@pytest.fixture
def filled(wire):
    """Offsets 0-2 at 1000, 1010, 1005; 3-4 at 2000, 2000; 5 at 1500."""
    wire.create("t")
    wire.produce("t", records(1000, 1010, 1005), codec=0)
    wire.produce("t", records(2000, 2000), codec=4)
    wire.produce("t", records(1500), codec=1)
    return wire


@pytest.mark.parametrize("version", SINCE_1)
def test_earliest_and_latest(filled, version):
    first, last = ask(filled, version, ("t", 0, EARLIEST))[0], ask(filled, version, ("t", 0, LATEST))[0]
    assert brief([first, last]) == [(0, -1, 0), (0, -1, 6)]
    if version >= 4:
        assert (first.leader_epoch, last.leader_epoch) == (0, 0)


@pytest.mark.parametrize("version", SINCE_1)
def test_a_time_is_answered_with_the_first_record_that_is_not_older(filled, version):
    for timestamp, found in (
        (0, (0, 1000, 0)),
        (1000, (0, 1000, 0)),
        (1001, (0, 1010, 1)),
        (1006, (0, 1010, 1)),
        (1011, (0, 2000, 3)),
        (2000, (0, 2000, 3)),
        (2001, NONE_FOUND),
    ):
        (partition,) = ask(filled, version, ("t", 0, timestamp))
        assert brief([partition]) == [found]
        if version >= 4:
            assert partition.leader_epoch == (0 if found[2] >= 0 else -1)


@pytest.mark.parametrize("version", range(7, 12))
def test_the_newest_timestamp_is_answered_with_the_first_record_that_has_it(filled, version):
    assert brief(ask(filled, version, ("t", 0, MAX_TIMESTAMP))) == [(0, 2000, 3)]


def test_the_newest_timestamp_of_an_empty_partition_is_none(wire):
    wire.create("t")
    assert brief(ask(wire, 7, ("t", 0, MAX_TIMESTAMP))) == [NONE_FOUND]
    assert brief(ask(wire, 7, ("t", 0, 0))) == [NONE_FOUND]


def test_tiers_that_do_not_exist_are_answered_as_kafka_does(filled):
    assert brief(ask(filled, 8, ("t", 0, EARLIEST_LOCAL))) == [(0, -1, 0)]
    assert brief(ask(filled, 9, ("t", 0, LATEST_TIERED))) == [NONE_FOUND]
    assert brief(ask(filled, 11, ("t", 0, EARLIEST_PENDING), timeout_ms=1000)) == [NONE_FOUND]


@pytest.mark.parametrize(
    ("version", "timestamp"),
    [(0, -3), (6, MAX_TIMESTAMP), (7, EARLIEST_LOCAL), (8, LATEST_TIERED), (10, EARLIEST_PENDING), (11, -7)],
)
def test_a_special_time_is_unsupported_before_its_version(filled, version, timestamp):
    (partition,) = ask(filled, version, ("t", 0, timestamp))
    assert partition.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(12))
def test_an_unknown_partition_has_its_own_error(filled, version):
    found = ask(filled, version, ("t", 1, LATEST), ("nope", 0, LATEST), ("t", -1, LATEST))
    assert {partition.error_code for partition in found} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", SINCE_1)
def test_a_partition_named_twice_is_refused_and_the_others_answered(filled, version):
    filled.create("u")
    found = ask(filled, version, ("t", 0, LATEST), ("u", 0, LATEST), ("t", 0, EARLIEST))
    assert [(partition.error_code, partition.offset) for partition in found] == [
        (ErrorCode.INVALID_REQUEST, -1),
        (0, 0),
    ]


@pytest.mark.parametrize("version", range(4, 12))
def test_the_leader_epoch_that_a_client_knows_is_checked(served, filled, version):
    async def elect():
        served.broker.partition("t", 0).leader_epoch = 3

    served.run(elect())
    codes = [ask(filled, version, ("t", 0, LATEST, epoch))[0].error_code for epoch in (-1, 2, 3, 4)]
    assert codes == [0, ErrorCode.FENCED_LEADER_EPOCH, 0, ErrorCode.UNKNOWN_LEADER_EPOCH]


@pytest.mark.parametrize("version", range(2, 12))
def test_consumers_see_what_is_committed_and_followers_all(served, filled, version):
    async def hold_back():
        partition = served.broker.partition("t", 0)
        partition.high_watermark, partition.last_stable_offset = 4, 3

    served.run(hold_back())
    assert brief(ask(filled, version, ("t", 0, LATEST))) == [(0, -1, 4)]
    assert brief(ask(filled, version, ("t", 0, LATEST), isolation_level=1)) == [(0, -1, 3)]
    assert brief(ask(filled, version, ("t", 0, LATEST), replica_id=7)) == [(0, -1, 6)]
    assert brief(ask(filled, version, ("t", 0, 1100))) == [(0, 2000, 3)]
    assert brief(ask(filled, version, ("t", 0, 1100), isolation_level=1)) == [NONE_FOUND]


def test_by_time_across_segments_and_a_restart(served, wire):
    wire.create("t", 1, {"segment.bytes": "300"})
    for batch in range(20):
        wire.produce("t", records(*range(batch * 100, batch * 100 + 5)))
    assert len(served.broker.partition("t", 0).log.segments) > 3

    def lookup(wire):
        return [ask(wire, 7, ("t", 0, timestamp))[0].offset for timestamp in (0, 3, 5, 100, 1104, 1902, 1905)]

    expected = [0, 3, 5, 5, 59, 97, -1]
    assert lookup(wire) == expected
    assert lookup(served.restart().wire()) == expected


def test_a_large_batch_is_looked_through_to_its_very_record(wire):
    wire.create("t")
    wire.produce("t", records(*range(1000, 6000)))
    wire.produce("t", records(*range(6000, 11000)), codec=3)
    assert brief(ask(wire, 7, ("t", 0, 5555))) == [(0, 5555, 4555)]
    assert brief(ask(wire, 7, ("t", 0, 9999))) == [(0, 9999, 8999)]
    assert brief(ask(wire, 7, ("t", 0, MAX_TIMESTAMP))) == [(0, 10999, 9999)]


def test_records_before_the_start_of_the_log_are_not_found(served, filled):
    async def cut():
        served.broker.partition("t", 0).log.start_offset = 1

    served.run(cut())
    assert brief(ask(filled, 7, ("t", 0, 0))) == [(0, 1010, 1)]
    assert brief(ask(filled, 7, ("t", 0, EARLIEST))) == [(0, -1, 1)]


@pytest.mark.parametrize("timestamp", [0, MAX_TIMESTAMP])
def test_a_batch_that_cannot_be_unpacked_is_an_error_of_its_partition_alone(wire, timestamp):
    wire.create("bad")
    wire.create("good")
    wire.produce("good", records(5))
    batch = build_batch(records(1, 2, 3))
    batch[22] |= 1  # says gzip, and is not
    seal(batch, 0, len(batch))
    wire.produce_batch("bad", batch)
    found = ask(wire, 7, ("bad", 0, timestamp), ("good", 0, timestamp))
    assert brief(found) == [(ErrorCode.CORRUPT_MESSAGE, -1, -1), (0, 5, 0)]


def test_version_0_lists_segment_starts_and_the_end_newest_first(served, wire):
    wire.create("t", 1, {"segment.bytes": "300"})
    for batch in range(6):
        wire.produce("t", records(*range(batch * 100, batch * 100 + 5)))
    bases = [segment.base_offset for segment in served.broker.partition("t", 0).log.segments]
    assert len(bases) > 1
    everything = [30, *reversed(bases)]

    def old_style(timestamp, most):
        (partition,) = ask(wire, 0, ("t", 0, timestamp, most))
        assert partition.error_code == 0
        return partition.old_style_offsets

    assert old_style(LATEST, 100) == everything
    assert old_style(LATEST, 1) == [30]
    assert old_style(LATEST, 2) == everything[:2]
    assert old_style(EARLIEST, 100) == [0]
    assert old_style(LATEST, 0) == old_style(LATEST, -5) == []
    assert old_style(0, 100) == [], "no segment is as old as that"
    assert old_style(1 << 60, 100) == everything


def test_version_0_of_an_empty_partition_is_its_start(wire):
    wire.create("t")
    assert ask(wire, 0, ("t", 0, LATEST, 10))[0].old_style_offsets == [0]
    assert ask(wire, 0, ("t", 0, EARLIEST, 10))[0].old_style_offsets == [0]


def test_a_topic_deleted_during_a_lookup_does_no_harm(served, filled):
    correlation_ids = []
    other = served.wire()
    for _ in range(30):
        topic = messages.ListOffsetsRequest.Topic(
            name="t", partitions=[messages.ListOffsetsRequest.Partition(partition_index=0, timestamp=1500)]
        )
        correlation_ids.append(other.send(messages.ListOffsetsRequest(replica_id=-1, topics=[topic]), 7))
    filled.call(messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
    for correlation_id in correlation_ids:
        (topic,) = other.receive("ListOffsets", 7, correlation_id).topics
        (partition,) = topic.partitions
        assert (partition.error_code, partition.offset) in (
            (0, 3),
            (0, -1),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        )
