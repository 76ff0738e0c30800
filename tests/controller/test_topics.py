"""Decisions about creating and deleting topics."""

from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig
from ottla.controller.image import BrokerInfo, ClusterImage, PartitionImage, TopicImage
from ottla.controller.names import new_id
from ottla.controller.topics import NewTopic, plan_creation, plan_deletion
from ottla.protocol.errors import ErrorCode


def cluster(brokers=1, topics=()):
    image = ClusterImage("c", 0)
    for broker in range(brokers):
        image.brokers[broker] = BrokerInfo(broker, None, {})
    for name in topics:
        image.add(TopicImage(name, new_id(), [PartitionImage(0, 0, [0], [0])], {}))
    return image


def plan(asked, image=None, being_deleted=(), **config):
    return plan_creation(
        asked,
        image or cluster(),
        BrokerConfig(**config),
        being_deleted=being_deleted,
        new_id=new_id,
        pick_start=lambda count: 0,
    )


def codes(results):
    return [result.error_code for result in results]


def test_a_new_topic_gets_an_id_its_partitions_and_only_its_own_configs():
    (result,) = plan([NewTopic("t", 3, 2, configs={"retention.ms": "1"})], cluster(2))
    assert result.error_code == ErrorCode.NONE
    assert result.image.partitions == [
        PartitionImage(0, 0, [0, 1], [0, 1]),
        PartitionImage(1, 0, [1, 0], [1, 0]),
        PartitionImage(0, 0, [0, 1], [0, 1]),
    ]
    assert result.image.configs == {"retention.ms": "1"}
    assert len(result.image.id) == 16


def test_minus_one_means_the_brokers_defaults():
    (result,) = plan([NewTopic("t")], cluster(2), num_partitions=4, default_replication_factor=2)
    assert [len(partition.replicas) for partition in result.image.partitions] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (NewTopic("there.is"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("leaving"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("there_is"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, -1, [(0, [0])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, 1, [(0, [0])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, -1, [(0, [5])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_is_wrong_is_refused_with_its_own_error_and_words(new, code):
    (result,) = plan([new], cluster(1, ["there.is"]), being_deleted=["leaving"])
    assert (result.error_code, result.image) == (code, None)
    assert result.message


def test_a_hand_made_assignment_is_used():
    (result,) = plan([NewTopic("t", -1, -1, [(0, [1, 0]), (1, [0, 1])])], cluster(2))
    assert [partition.replicas for partition in result.image.partitions] == [[1, 0], [0, 1]]
    assert [partition.leader for partition in result.image.partitions] == [1, 0]


def test_good_and_bad_entries_of_one_request_each_get_their_own():
    results = plan([NewTopic("good"), NewTopic("bad name"), NewTopic("fine")])
    assert codes(results) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]


def test_a_topic_named_twice_is_not_made_at_all():
    assert codes(plan([NewTopic("t"), NewTopic("u"), NewTopic("t", 3)])) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]


def test_names_that_collide_within_one_request_are_not_both_made():
    assert codes(plan([NewTopic("a.b"), NewTopic("a_b")])) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_one_request_makes_ten_thousand_partitions_and_no_more():
    assert codes(plan([NewTopic("a", 5000), NewTopic("b", 5000)])) == [ErrorCode.NONE] * 2
    assert codes(plan([NewTopic("a", 2**31 - 1), NewTopic("b", 1)])) == [ErrorCode.POLICY_VIOLATION] * 2
    assert codes(plan([NewTopic("a")], num_partitions=10_001)) == [ErrorCode.POLICY_VIOLATION]
    assert codes(plan([NewTopic("a", assignments=[(0, [0])] * 10_001)])) == [ErrorCode.POLICY_VIOLATION]


def test_deletion_finds_topics_by_name_and_by_id():
    image = cluster(1, ["a", "b"])
    id_a, id_b = image.topics["a"].id, image.topics["b"].id
    results = plan_deletion(["a", id_b], image)
    assert [(r.name, r.id, r.error_code) for r in results] == [
        ("a", id_a, ErrorCode.NONE),
        ("b", id_b, ErrorCode.NONE),
    ]


def test_deletion_of_what_is_not_there_has_an_error_for_names_and_one_for_ids():
    results = plan_deletion(["nope", b"n" * 16], cluster())
    assert [(r.name, r.id, r.error_code) for r in results] == [
        ("nope", None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, b"n" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_a_topic_named_twice_is_not_deleted():
    image = cluster(1, ["a", "b"])
    assert codes(plan_deletion(["a", "a"], image)) == [ErrorCode.INVALID_REQUEST]
    assert codes(plan_deletion(["b", image.topics["b"].id, "a"], image)) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]


def test_a_removed_topic_no_longer_collides():
    image = cluster(1, ["a.b"])
    assert image.colliding("a_b") == "a.b"
    image.remove("a.b")
    assert image.colliding("a_b") is None
    assert not image.topics_by_id
