"""CreateTopics and DeleteTopics through the wire, in every version."""

from __future__ import annotations

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record

Topic = messages.CreateTopicsRequest.Topic
ZERO = bytes(16)


def create(wire, version, *topics, **more):
    return wire.call(messages.CreateTopicsRequest(topics=list(topics), **more), version).topics


def new(name, partitions=1, replicas=1, assignments=(), configs=()):
    return Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            messages.CreateTopicsRequest.Assignment(partition_index=index, broker_ids=ids) for index, ids in assignments
        ],
        configs=[messages.CreateTopicsRequest.Config(name=name, value=value) for name, value in configs],
    )


def names(served):
    return sorted(served.broker.image.topics)


@pytest.mark.parametrize("version", range(8))
def test_every_version_creates_topics_that_serve_at_once(served, wire, version):
    (made,) = create(wire, version, new("t", 3, configs=[("retention.ms", "1000")]))
    assert (made.name, made.error_code) == ("t", 0)
    assert not made.error_message
    assert served.broker.partition("t", 2) is not None
    assert served.broker.topic_config("t").retention_ms == 1000
    if version >= 5:
        assert (made.num_partitions, made.replication_factor, made.topic_config_error_code) == (3, 1, 0)
        configs = {config.name: config for config in made.configs}
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
        assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("delete", 5)
        assert [config.name for config in made.configs] == sorted(configs)
    if version >= 7:
        assert made.topic_id == served.broker.image.topics["t"].id != ZERO


@pytest.mark.parametrize("version", range(8))
def test_each_bad_entry_has_its_own_error_and_the_good_ones_are_made(served, wire, version):
    wire.create("there")
    results = create(
        wire,
        version,
        new("good"),
        new("there"),
        new("a b"),
        new("t", 0),
        new("t2", 1, 2),
        new("t3", configs=[("no.such", "1")]),
        new("t4", configs=[("retention.ms", None)]),
        new("t5", -1, -1, [(0, [9])]),
        new("twice"),
        new("twice", 2),
    )
    assert [(topic.name, ErrorCode(topic.error_code).name) for topic in results] == [
        ("good", "NONE"),
        ("there", "TOPIC_ALREADY_EXISTS"),
        ("a b", "INVALID_TOPIC_EXCEPTION"),
        ("t", "INVALID_PARTITIONS"),
        ("t2", "INVALID_REPLICATION_FACTOR"),
        ("t3", "INVALID_CONFIG"),
        ("t4", "INVALID_CONFIG"),
        ("t5", "INVALID_REPLICA_ASSIGNMENT"),
        ("twice", "INVALID_REQUEST"),
    ]
    assert names(served) == ["good", "there"]
    for topic in results[1:]:
        assert (topic.num_partitions, topic.replication_factor, topic.topic_id) == (-1, -1, ZERO)
        assert not topic.configs
        assert bool(topic.error_message) == (version >= 1)


def test_minus_one_takes_the_defaults_and_an_assignment_is_taken_as_given(serve):
    served = serve(num_partitions=4)
    defaults, assigned = create(served.wire(), 5, new("a", -1, -1), new("b", -1, -1, [(1, [0]), (0, [0])]))
    assert (defaults.num_partitions, defaults.replication_factor) == (4, 1)
    assert (assigned.num_partitions, assigned.replication_factor) == (2, 1)


@pytest.mark.parametrize("version", range(1, 8))
def test_validate_only_answers_and_makes_nothing(served, wire, version):
    good, bad = create(wire, version, new("t", 2), new("a b"), validate_only=True)
    assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert good.topic_id == ZERO
    assert names(served) == []


def test_an_absurd_number_of_partitions_is_refused_at_once(served, wire):
    (result,) = create(wire, 7, new("t", 2**31 - 1))
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    assert names(served) == []


def test_a_creation_past_its_timeout_says_so_and_goes_on(served, wire, until):
    (result,) = create(wire, 7, new("t"), timeout_ms=0)
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    until(lambda: names(served) == ["t"])


def test_a_thousand_partitions_answer(wire):
    create(wire, 7, new("wide", 1000))
    asked = messages.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            messages.ListOffsetsRequest.Topic(
                name="wide",
                partitions=[
                    messages.ListOffsetsRequest.Partition(partition_index=index, timestamp=-1) for index in range(1000)
                ],
            )
        ],
    )
    (topic,) = wire.call(asked, 7).topics
    assert {(partition.error_code, partition.offset) for partition in topic.partitions} == {(0, 0)}


def test_topics_and_their_configs_outlive_a_restart(served):
    id = served.wire().create("t", 2, {"cleanup.policy": "compact"})
    served.restart()
    assert served.broker.image.topics["t"].id == id
    assert served.broker.topic_config("t").compacted
    assert served.broker.partition("t", 1) is not None


# -- deleting


def delete(wire, version, *asked, timeout_ms=10_000):
    if version < 6:
        request = messages.DeleteTopicsRequest(topic_names=list(asked), timeout_ms=timeout_ms)
    else:
        topics = [
            messages.DeleteTopicsRequest.Topic(name=key) if isinstance(key, str) else _by_id(key) for key in asked
        ]
        request = messages.DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)
    return wire.call(request, version).responses


def _by_id(id):
    return messages.DeleteTopicsRequest.Topic(name=None, topic_id=id)


@pytest.mark.parametrize("version", range(7))
def test_every_version_deletes_by_name_with_an_error_for_each_that_is_not_there(served, wire, version, tmp_path):
    id = wire.create("t")
    wire.create("kept")
    results = {result.name: result for result in delete(wire, version, "t", "nope")}
    assert results["t"].error_code == 0
    assert results["nope"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert names(served) == ["kept"]
    assert not list(tmp_path.glob("*/t-0"))
    if version >= 5:
        assert results["nope"].error_message
    if version >= 6:
        assert results["t"].topic_id == id


def test_version_6_deletes_by_id(served, wire):
    id = wire.create("t")
    found, unknown = delete(wire, 6, id, b"u" * 16)
    assert (found.name, found.topic_id, found.error_code) == ("t", id, 0)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, b"u" * 16, ErrorCode.UNKNOWN_TOPIC_ID)
    assert names(served) == []


def test_an_entry_with_name_and_id_or_with_neither_is_refused(served, wire):
    id = wire.create("t")
    both = messages.DeleteTopicsRequest.Topic(name="t", topic_id=id)
    neither = messages.DeleteTopicsRequest.Topic(name=None)
    results = wire.call(messages.DeleteTopicsRequest(topics=[both, neither], timeout_ms=1000), 6).responses
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert names(served) == ["t"]


def test_a_topic_named_twice_is_not_deleted(served, wire):
    id = wire.create("t")
    assert [result.error_code for result in delete(wire, 5, "t", "t")] == [ErrorCode.INVALID_REQUEST]
    assert [result.error_code for result in delete(wire, 6, "t", id)] == [ErrorCode.INVALID_REQUEST] * 2
    assert names(served) == ["t"]


@pytest.mark.parametrize("version", range(7))
def test_deletion_that_is_switched_off_is_told_in_words_that_the_version_knows(serve, version):
    served = serve(delete_topic_enable=False)
    wire = served.wire()
    wire.create("t")
    (result,) = delete(wire, version, "t")
    expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert (result.name, result.error_code) == ("t", expected)
    assert names(served) == ["t"]


def test_a_topic_can_be_made_again_after_its_deletion_with_another_id_and_no_records(wire):
    first = wire.create("t")
    wire.produce("t", [Record(0, 1000, None, b"x", [])])
    delete(wire, 6, "t")
    assert wire.create("t") != first
    asked = messages.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            messages.ListOffsetsRequest.Topic(
                name="t", partitions=[messages.ListOffsetsRequest.Partition(partition_index=0, timestamp=-1)]
            )
        ],
    )
    assert wire.call(asked, 5).topics[0].partitions[0].offset == 0


def test_a_deletion_past_its_timeout_says_so_and_goes_on(served, wire, until):
    wire.create("t")
    (result,) = delete(wire, 6, "t", timeout_ms=0)
    assert (result.name, result.error_code) == ("t", ErrorCode.REQUEST_TIMED_OUT)
    until(lambda: names(served) == [])
