"""Decisions about moving partitions to other brokers."""

from __future__ import annotations

import pytest

from ottla.controller.image import BrokerInfo, ClusterImage, PartitionImage, TopicImage
from ottla.controller.reassignment import Reassignment, moving, plan_reassignment
from ottla.protocol.errors import ErrorCode

AT_REST = PartitionImage(1, 5, [1, 2], [1, 2])
ON_THE_MOVE = PartitionImage(1, 5, [3, 1, 2], [1, 2], adding=(3,), removing=(2,))


def cluster(*partitions):
    image = ClusterImage()
    for broker in range(1, 5):
        image.brokers[broker] = BrokerInfo(broker, None, {})
    image.add(TopicImage("t", bytes(16), list(partitions), {}))
    return image


def plan(partition, replicas, **options):
    (result,) = plan_reassignment([Reassignment("t", 0, replicas)], cluster(partition), **options)
    return result


@pytest.mark.parametrize(
    ("partition", "replicas", "becomes"),
    [
        (AT_REST, [1, 2], None),
        (AT_REST, [2, 1], PartitionImage(1, 5, [2, 1], [1, 2])),
        (AT_REST, [1], PartitionImage(1, 5, [1], [1])),
        (AT_REST, [2], PartitionImage(2, 6, [2], [2])),  # the leader goes
        (AT_REST, [3, 1], PartitionImage(1, 5, [3, 1, 2], [1, 2], 0, (3,), (2,))),
        (AT_REST, [1, 2, 3], PartitionImage(1, 5, [1, 2, 3], [1, 2], 0, (3,), ())),
        (AT_REST, [3, 4], PartitionImage(1, 5, [3, 4, 1, 2], [1, 2], 0, (3, 4), (1, 2))),
        (ON_THE_MOVE, None, PartitionImage(1, 5, [1, 2], [1, 2])),
        (ON_THE_MOVE, [1, 2], PartitionImage(1, 5, [1, 2], [1, 2])),  # back, the other way to cancel
        (ON_THE_MOVE, [4, 1], PartitionImage(1, 5, [4, 1, 2], [1, 2], 0, (4,), (2,))),  # elsewhere instead
    ],
)
def test_where_a_partition_goes(partition, replicas, becomes):
    result = plan(partition, replicas)
    assert (result.error_code, result.image) == (ErrorCode.NONE, becomes)


@pytest.mark.parametrize(
    ("partition", "replicas", "code"),
    [
        (AT_REST, None, "NO_REASSIGNMENT_IN_PROGRESS"),
        (AT_REST, [], "INVALID_REPLICA_ASSIGNMENT"),
        (AT_REST, [1, 1], "INVALID_REPLICA_ASSIGNMENT"),
        (AT_REST, [1, 9], "INVALID_REPLICA_ASSIGNMENT"),
        (AT_REST, [-1], "INVALID_REPLICA_ASSIGNMENT"),
        (AT_REST._replace(isr=[1]), [2], "INVALID_REPLICA_ASSIGNMENT"),  # nobody in sync would be left
    ],
)
def test_what_is_refused(partition, replicas, code):
    result = plan(partition, replicas)
    assert (result.error_code, result.image) == (ErrorCode[code], None)
    assert result.message


@pytest.mark.parametrize(("replicas", "code"), [([3, 4], "NONE"), ([1], "INVALID_REPLICATION_FACTOR")])
def test_a_request_may_insist_on_the_number_of_replicas(replicas, code):
    assert plan(AT_REST, replicas, keep_factor=True).error_code == ErrorCode[code]


def test_each_partition_has_its_own_fate():
    asked = [Reassignment("t", 0, [1, 2]), Reassignment("t", 1, [1]), Reassignment("no", 0, [1])]
    results = plan_reassignment(asked, cluster(AT_REST))
    assert [one.error_code.name for one in results] == ["NONE", *["UNKNOWN_TOPIC_OR_PARTITION"] * 2]


def test_those_on_the_move_are_found():
    image = cluster(AT_REST, ON_THE_MOVE)
    assert moving(image, None) == {"t": [1]}
    assert moving(image, [("t", [0, 1, 7]), ("no", [0])]) == {"t": [1]}
    assert moving(image, [("t", [0])]) == {}
