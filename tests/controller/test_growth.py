"""Decisions about more partitions for a topic."""

from __future__ import annotations

import pytest

from ottla.controller.growth import NewPartitions, plan_growth
from ottla.controller.image import BrokerInfo, ClusterImage, PartitionImage, TopicImage
from ottla.protocol.errors import ErrorCode


@pytest.fixture
def image():
    """Brokers 0 and 1; topic `t` with two partitions of one replica, `two` with one of two, `moving` on the move."""
    image = ClusterImage("c", 0)
    for broker in range(2):
        image.brokers[broker] = BrokerInfo(broker, None, {})
    one = PartitionImage(0, 5, [0], [0], 3)
    image.add(TopicImage("t", bytes(15) + b"1", [one, one], {"retention.ms": "1"}))
    image.add(TopicImage("two", bytes(15) + b"2", [PartitionImage(0, 0, [0, 1], [0, 1])], {}))
    image.add(TopicImage("__consumer_offsets", bytes(15) + b"4", [one], {}))
    image.add(TopicImage("moving", bytes(15) + b"3", [one._replace(adding=(1,))], {}))
    return image


def plan(image, *asked):
    return plan_growth(asked, image, pick_start=lambda count: 1)


def test_new_partitions_follow_the_old_ones_which_stay_as_they_are(image):
    (result,) = plan(image, NewPartitions("t", 4))
    assert result.error_code == ErrorCode.NONE
    assert result.image.partitions[:2] == image.topics["t"].partitions
    assert result.image.partitions[2:] == [PartitionImage(1, 0, [1], [1]), PartitionImage(0, 0, [0], [0])]
    assert result.image.configs == {"retention.ms": "1"}
    assert len(image.topics["t"].partitions) == 2


def test_they_have_as_many_replicas_as_the_first_one(image):
    (result,) = plan(image, NewPartitions("two", 2))
    assert result.image.partitions[1] == PartitionImage(1, 0, [1, 0], [1, 0])


def test_an_assignment_is_taken_as_given(image):
    results = plan(image, NewPartitions("t", 3, [[1]]), NewPartitions("two", 3, [[1, 0], [0, 1]]))
    assert [result.image.partitions[-1].replicas for result in results] == [[1], [0, 1]]


@pytest.mark.parametrize(
    ("new", "code", "says"),
    [
        (NewPartitions("t", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            NewPartitions("t", 1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (NewPartitions("t", 0), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (NewPartitions("t", -1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (NewPartitions("no", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'no'"),
        (NewPartitions("", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "''"),
        (NewPartitions("__consumer_offsets", 5), ErrorCode.INVALID_TOPIC_EXCEPTION, "cannot change"),
        (NewPartitions("moving", 5), ErrorCode.REASSIGNMENT_IN_PROGRESS, "being reassigned"),
        (NewPartitions("t", 4, [[0]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 partitions are to be added, but 1"),
        (NewPartitions("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 partitions are to be added, but 0"),
        (NewPartitions("t", 3, [[0], [0]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "but 2"),
        (NewPartitions("t", 3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no broker"),
        (NewPartitions("t", 3, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9"),
        (NewPartitions("two", 2, [[0, 0]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "twice"),
        (NewPartitions("t", 3, [[0, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 replicas, the others have 1"),
        (NewPartitions("two", 2, [[0]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 replicas, the others have 2"),
        (NewPartitions("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION, "at most 10000"),
    ],
)
def test_what_is_refused_says_why_and_leaves_the_others_alone(image, new, code, says):
    bad, *rest = plan(image, new, *([] if new.name == "t" else [NewPartitions("t", 3)]))
    assert bad.error_code == code
    assert says in bad.message
    assert bad.image is None
    assert all(result.error_code == ErrorCode.NONE for result in rest)


def test_a_topic_named_twice_gets_one_refusal(image):
    results = plan(image, NewPartitions("t", 3), NewPartitions("two", 2), NewPartitions("t", 4))
    assert [(result.name, result.error_code) for result in results] == [
        ("t", ErrorCode.INVALID_REQUEST),
        ("two", ErrorCode.NONE),
    ]


def test_more_replicas_than_live_brokers_cannot_be_placed(image):
    del image.brokers[1]
    (result,) = plan(image, NewPartitions("two", 2))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
