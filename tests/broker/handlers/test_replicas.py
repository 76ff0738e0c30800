"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and DescribeProducers of one node."""

from __future__ import annotations

import pytest

from ottla.controller.image import PartitionImage
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.requests import batch, now_ms, produce


@pytest.fixture
def busy_controller(served):
    """A controller that does not get to the next request while the test runs."""
    lock = served.broker.controller._lock
    served.run(lock.acquire())
    yield
    served.loop.call_soon_threadsafe(lock.release)


# -- ElectLeaders

TopicPartitions = messages.ElectLeadersRequest.TopicPartitions
PREFERRED, UNCLEAN = 0, 1


def elect(wire, asked, kind=PREFERRED, version=2, timeout_ms=10_000):
    named = None if asked is None else [TopicPartitions(topic=name, partitions=which) for name, which in asked]
    reply = wire.call(
        messages.ElectLeadersRequest(election_type=kind, topic_partitions=named, timeout_ms=timeout_ms), version
    )
    results = {
        (topic.topic, one.partition_id): ErrorCode(one.error_code).name
        for topic in reply.replica_election_results
        for one in topic.partition_result
    }
    return ErrorCode(reply.error_code).name, results


def take_offline(served, topic, index):
    async def fail():
        served.broker.disks._take_offline([(topic, index)], "the disk is gone")

    served.run(fail())


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
def test_who_leads_everything_needs_no_election(wire, version, kind):
    wire.create("t", 2)
    assert elect(wire, [("t", [1, 0, 2]), ("no", [0])], kind, version) == (
        "NONE",
        {
            ("t", 1): "ELECTION_NOT_NEEDED",
            ("t", 0): "ELECTION_NOT_NEEDED",
            ("t", 2): "UNKNOWN_TOPIC_OR_PARTITION",
            ("no", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        },
    )
    assert elect(wire, None, kind, version) == ("NONE", {})
    assert elect(wire, [], kind, version) == ("NONE", {})


@pytest.mark.parametrize(
    ("kind", "code"), [(PREFERRED, "PREFERRED_LEADER_NOT_AVAILABLE"), (UNCLEAN, "ELIGIBLE_LEADERS_NOT_AVAILABLE")]
)
def test_a_partition_whose_disk_failed_has_nobody_to_lead_it(served, wire, kind, code):
    wire.create("t", 2)
    take_offline(served, "t", 1)
    assert elect(wire, [("t", [0, 1])], kind)[1] == {("t", 0): "ELECTION_NOT_NEEDED", ("t", 1): code}
    assert elect(wire, None, kind) == ("NONE", {("t", 1): code})


def test_an_unknown_kind_of_election_is_refused(wire):
    wire.create("t")
    assert elect(wire, [("t", [0])], 7) == ("INVALID_REQUEST", {("t", 0): "INVALID_REQUEST"})
    assert elect(wire, None, -1) == ("INVALID_REQUEST", {})


def test_an_election_that_is_held_is_stored_and_gives_the_partition_a_new_epoch(served, wire):
    wire.create("t")

    async def lose_leader():
        served.broker.image.topics["t"].partitions[0] = PartitionImage(-1, 4, [0], [0])

    served.run(lose_leader())
    assert elect(wire, [("t", [0])])[1] == {("t", 0): "NONE"}
    assert served.broker.partition("t", 0).leader_epoch == 5
    assert produce(wire, "t", batch("x")).error_code == 0
    served.restart()
    assert served.broker.image.topics["t"].partitions[0][:2] == (0, 5)
    assert served.broker.partition("t", 0).leader_epoch == 5


def test_an_election_past_its_timeout_says_so(wire, busy_controller):
    assert elect(wire, [("t", [0])], timeout_ms=0) == ("REQUEST_TIMED_OUT", {("t", 0): "REQUEST_TIMED_OUT"})


# -- reassignments


def reassign(wire, asked, version=1, **options):
    """`asked`: (topic, partition, replicas)"""
    request = messages.AlterPartitionReassignmentsRequest(
        topics=[
            messages.AlterPartitionReassignmentsRequest.Topic(
                name=topic,
                partitions=[
                    messages.AlterPartitionReassignmentsRequest.Partition(partition_index=index, replicas=replicas)
                ],
            )
            for topic, index, replicas in asked
        ],
        **options,
    )
    reply = wire.call(request, version)
    told = [
        (topic.name, one.partition_index, ErrorCode(one.error_code).name)
        for topic in reply.responses
        for one in topic.partitions
    ]
    return ErrorCode(reply.error_code).name, told


def under_way(wire, topics=None):
    Topic = messages.ListPartitionReassignmentsRequest.Topic
    named = None if topics is None else [Topic(name=name, partition_indexes=which) for name, which in topics]
    reply = wire.call(messages.ListPartitionReassignmentsRequest(topics=named), 0)
    assert (reply.error_code, reply.error_message) == (0, None)
    return {topic.name: topic.partitions for topic in reply.topics}


@pytest.mark.parametrize("version", [0, 1])
def test_one_node_has_nowhere_to_move_a_partition(wire, version):
    wire.create("t", 2)
    asked = [
        ("t", 0, [0]),
        ("t", 1, None),
        ("t", 1, [1]),
        ("t", 1, []),
        ("t", 1, [0, 0]),
        ("t", 2, [0]),
        ("no", 0, [0]),
    ]
    code, told = reassign(wire, asked, version)
    assert code == "NONE"
    assert told == [
        ("t", 0, "NONE"),
        ("t", 1, "NO_REASSIGNMENT_IN_PROGRESS"),
        ("t", 1, "INVALID_REPLICA_ASSIGNMENT"),
        ("t", 1, "INVALID_REPLICA_ASSIGNMENT"),
        ("t", 1, "INVALID_REPLICA_ASSIGNMENT"),
        ("t", 2, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("no", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert under_way(wire) == {}
    assert under_way(wire, [("t", [0, 1]), ("no", [0])]) == {}


def test_a_request_that_keeps_the_number_of_replicas_says_so_again(wire):
    wire.create("t")
    request = messages.AlterPartitionReassignmentsRequest(topics=[], allow_replication_factor_change=False)
    assert wire.call(request, 1).allow_replication_factor_change is False


def test_a_reassignment_past_its_timeout_says_so(wire, busy_controller):
    assert reassign(wire, [("t", 0, [0])], timeout_ms=0) == ("REQUEST_TIMED_OUT", [])


def test_replicas_of_brokers_that_are_no_more_are_let_go(served, wire):
    wire.create("t")

    async def had_two():
        served.broker.image.topics["t"].partitions[0] = PartitionImage(0, 4, [5, 0], [0], 0, (), (5,))

    served.run(had_two())
    (partition,) = under_way(wire)["t"]
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ([5, 0], [], [5])
    assert reassign(wire, [("t", 0, [0])], allow_replication_factor_change=False)[1] == [
        ("t", 0, "INVALID_REPLICATION_FACTOR")
    ]
    assert reassign(wire, [("t", 0, [0])]) == ("NONE", [("t", 0, "NONE")])
    assert under_way(wire) == {}
    served.restart()
    assert served.broker.image.topics["t"].partitions[0].replicas == [0]


# -- DescribeProducers


def producers(wire, topic, index=0):
    Topic = messages.DescribeProducersRequest.Topic
    request = messages.DescribeProducersRequest(topics=[Topic(name=topic, partition_indexes=[index])])
    (partition,) = wire.call(request, 0).topics[0].partitions
    return partition


def test_producers_of_a_partition_are_told_with_their_last_batch(served, wire):
    wire.create("t", 2)
    before = now_ms()
    produce(wire, "t", batch("a", "b", producer_id=7, producer_epoch=3, base_sequence=0))
    produce(wire, "t", batch("c", producer_id=7, producer_epoch=3, base_sequence=2))
    produce(wire, "t", batch("x", producer_id=5, producer_epoch=0, base_sequence=0))
    produce(wire, "t", batch("of nobody"))
    for _ in range(2):
        answer = producers(wire, "t")
        assert answer.error_code == 0
        first, second = answer.active_producers
        assert (first.producer_id, first.producer_epoch, first.last_sequence) == (5, 0, 0)
        assert (second.producer_id, second.producer_epoch, second.last_sequence) == (7, 3, 2)
        assert before <= second.last_timestamp <= now_ms()
        assert (second.coordinator_epoch, second.current_txn_start_offset) == (-1, -1)
        wire = served.restart().wire()
    assert producers(wire, "t", 1).active_producers == []


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("no", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("t", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("t", -1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("a b", 0, "INVALID_TOPIC_EXCEPTION"),
        ("t", 1, "KAFKA_STORAGE_ERROR"),
    ],
)
def test_producers_of_what_cannot_be_used_are_not_told(served, wire, topic, index, code):
    wire.create("t", 2)
    take_offline(served, "t", 1)
    answer = producers(wire, topic, index)
    assert (ErrorCode(answer.error_code).name, answer.active_producers) == (code, [])
    assert answer.error_message
