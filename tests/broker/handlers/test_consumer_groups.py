"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on the wire, and what other requests say."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.consumer_wire import ConsumerMember, describe
from support.group_wire import GroupMember, commit, fetch, subscription

Body = messages.ConsumerGroupHeartbeatRequest
E = ErrorCode


@pytest.fixture
def topic(connect) -> str:
    name = f"topic-{uuid4().hex[:12]}"
    connect().create(name, partitions=4)
    return name


@pytest.fixture
def member(connect, group, topic) -> ConsumerMember:
    one = ConsumerMember(connect(), group, topic)
    assert one.join().error_code == E.NONE
    return one


# -- heartbeats


def test_two_members_share_a_topic_and_the_broker_says_how_often_to_report(connect, group, topic, member):
    assert member.partitions == [0, 1, 2, 3]
    assert member.beat().heartbeat_interval_ms == 5000
    other = ConsumerMember(connect(), group, topic)
    reply = other.join()
    assert (reply.error_code, other.partitions) == (E.NONE, [])
    assert 0 < reply.heartbeat_interval_ms <= 1000
    member.settle(other)
    assert sorted(member.partitions + other.partitions) == [0, 1, 2, 3]
    assert len(member.partitions) == 2


def test_a_member_without_an_id_is_given_one_in_version_0(connect, group, topic):
    one = ConsumerMember(connect(), group, topic)
    one.id = ""
    reply = one.join(version=0)
    assert reply.error_code == E.NONE
    assert len(reply.member_id) == 36
    assert one.beat(version=0).error_code == E.NONE


def test_a_heartbeat_that_changes_nothing_has_no_assignment(member):
    assert member.beat().assignment is None
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": member.topics}
    assert member.beat(topic_partitions=member.owning(), **full).assignment is not None


def joining(**fields: Any) -> dict[str, Any]:
    return {
        "member_epoch": 0,
        "rebalance_timeout_ms": 5,
        "subscribed_topic_names": [],
        "topic_partitions": [],
        **fields,
    }


SOME = [Body.TopicPartitions(topic_id=b"x" * 16, partitions=[0])]


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        (joining(group_id=""), E.INVALID_REQUEST, "GroupId can't be empty."),
        (joining(member_id=""), E.INVALID_REQUEST, "MemberId can't be empty."),
        (joining(instance_id=""), E.INVALID_REQUEST, "InstanceId can't be empty."),
        (joining(rack_id=""), E.INVALID_REQUEST, "RackId can't be empty."),
        (
            joining(rebalance_timeout_ms=-1),
            E.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided",
        ),
        (joining(topic_partitions=None), E.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
        (joining(topic_partitions=SOME), E.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
        (
            joining(subscribed_topic_names=None),
            E.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -3}, E.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"member_epoch": -2}, E.INVALID_REQUEST, "InstanceId can't be null."),
        ({"member_epoch": -1, "member_id": ""}, E.INVALID_REQUEST, "MemberId can't be empty."),
        (
            joining(server_assignor="sticky"),
            E.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
        ),
        ({"member_epoch": 7}, E.FENCED_MEMBER_EPOCH, "has a greater member epoch (7)"),
        ({"member_id": "x", "member_epoch": 1}, E.UNKNOWN_MEMBER_ID, "Member x is not a member of group"),
        ({"instance_id": "x"}, E.UNKNOWN_MEMBER_ID, "Instance id x is unknown."),
        ({"group_id": "no-such-group"}, E.GROUP_ID_NOT_FOUND, "Consumer group no-such-group not found."),
        ({"subscribed_topic_regex": "("}, E.INVALID_REGULAR_EXPRESSION, "SubscribedTopicRegex `(` is not a valid"),
    ],
)
def test_a_request_that_is_wrong_is_told_so_and_changes_nothing(member, fields, code, words):
    before = describe(member.wire, member.group)
    epoch, id = member.epoch, member.id
    reply = member.send(**fields)
    assert reply.error_code == code
    assert words in reply.error_message
    assert describe(member.wire, member.group) == before
    member.epoch, member.id = epoch, id
    assert member.beat().error_code == E.NONE


def test_an_instance_id_in_use_is_not_given_away_until_its_member_leaves_for_a_while(connect, group, topic):
    one = ConsumerMember(connect(), group, topic, instance_id="i")
    one.join()
    two = ConsumerMember(connect(), group, topic, instance_id="i")
    assert two.join().error_code == E.UNRELEASED_INSTANCE_ID
    assert one.send(member_epoch=-2, instance_id="i").member_epoch == -2
    assert two.join().error_code == E.NONE
    assert two.partitions == [0, 1, 2, 3]
    assert one.send(member_epoch=1, instance_id="i").error_code == E.FENCED_INSTANCE_ID


def test_a_pattern_reads_topics_as_they_come(connect, group, until):
    name = f"fits-{uuid4().hex[:12]}"
    one = ConsumerMember(connect(), group)
    one.join(subscribed_topic_names=None, subscribed_topic_regex=f"{name}-.*")
    assert one.partitions == []
    connect().create(f"{name}-a", partitions=2)
    until(lambda: one.beat(topic_partitions=one.owning()) and one.partitions == [0, 1])


def test_others_are_served_while_a_costly_pattern_is_tried_on_all_topics(connect, group):
    wire, other = connect(), connect()
    start = uuid4().hex
    names = [f"{start}{number:03}".ljust(249, "a").replace("aaa", "aba") for number in range(30)]
    topics = [messages.CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1) for name in names]
    assert all(made.error_code == E.NONE for made in wire.call(messages.CreateTopicsRequest(topics=topics), 7).topics)
    body = Body(group_id=group, member_id=str(uuid4()), rebalance_timeout_ms=60_000, topic_partitions=[])
    body.subscribed_topic_regex = f"{start}..." + "(?:a?b?)" * 2400
    sent = wire.send(body, 1)
    for _ in range(3):
        assert describe(other, group)
    wire.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        wire.socket.recv(1)
    wire.socket.settimeout(60)
    reply = wire.receive("ConsumerGroupHeartbeat", 1, sent)
    assert (reply.error_code, len(reply.assignment.topic_partitions)) == (E.NONE, 30)
    other.call(messages.DeleteTopicsRequest(topics=[messages.DeleteTopicsRequest.Topic(name=n) for n in names]), 6)


def test_a_group_that_is_deleted_is_gone(connect, group, topic, member):
    wire = connect()
    (result,) = wire.call(messages.DeleteGroupsRequest(groups_names=[group]), 2).results
    assert result.error_code == E.NON_EMPTY_GROUP
    assert member.send(member_epoch=-1).error_code == E.NONE
    (result,) = wire.call(messages.DeleteGroupsRequest(groups_names=[group]), 2).results
    assert result.error_code == E.NONE
    assert describe(wire, group)[0].error_code == E.GROUP_ID_NOT_FOUND


# -- what is shown


def test_a_description_tells_all_of_a_group(connect, group, topic):
    wire = connect()
    one = ConsumerMember(wire, group, topic, instance_id="i", rack_id="r", server_assignor="range")
    one.join()
    (shown,) = describe(wire, group, operations=True)
    assert (shown.error_code, shown.group_state, shown.assignor_name) == (E.NONE, "Stable", "range")
    assert (shown.group_epoch, shown.assignment_epoch) == (1, 1)
    assert shown.authorized_operations > 0
    (seen,) = shown.members
    assert (seen.member_id, seen.instance_id, seen.rack_id, seen.member_epoch) == (one.id, "i", "r", 1)
    assert (seen.client_id, seen.client_host, seen.member_type) == ("test", "/127.0.0.1", 1)
    assert (seen.subscribed_topic_names, seen.subscribed_topic_regex) == ([topic], "")
    (has,), (is_to_have,) = seen.assignment.topic_partitions, seen.target_assignment.topic_partitions
    assert has == is_to_have
    assert (has.topic_name, has.partitions) == (topic, [0, 1, 2, 3])


def test_groups_that_are_not_there_or_of_another_kind_are_not_described(connect, group, topic):
    wire = connect()
    commit(wire, group, {(topic, 0): 1})
    shown = describe(wire, group, "nowhere", "", version=0)
    assert [(one.error_code, one.error_message) for one in shown] == [
        (E.GROUP_ID_NOT_FOUND, f"Group {group} is not a consumer group."),
        (E.GROUP_ID_NOT_FOUND, "Group nowhere not found."),
        (E.INVALID_GROUP_ID, None),
    ]


def test_lists_name_type_and_state_and_classic_descriptions_do_not_know_the_group(connect, group, member):
    wire = connect()

    def listed(**filters: Any) -> list[tuple[str, str, str]]:
        groups = wire.call(messages.ListGroupsRequest(**filters), 5).groups
        return [(one.group_type, one.group_state, one.protocol_type) for one in groups if one.group_id == group]

    assert (
        listed() == listed(types_filter=["Consumer"], states_filter=["stable"]) == [("consumer", "Stable", "consumer")]
    )
    assert listed(types_filter=["classic"]) == listed(states_filter=["Empty"]) == []
    (shown,) = wire.call(messages.DescribeGroupsRequest(groups=[group]), 6).groups
    assert (shown.error_code, shown.group_state) == (E.GROUP_ID_NOT_FOUND, "Dead")
    assert shown.error_message == f"Group {group} is not a classic group."
    (shown,) = wire.call(messages.DescribeGroupsRequest(groups=[group]), 5).groups
    assert (shown.error_code, shown.group_state) == (E.NONE, "Dead")


# -- offsets


def test_commits_and_fetches_need_the_members_epoch(connect, group, topic, member):
    wire = connect()
    as_member = {"member_id": member.id, "generation_id_or_member_epoch": member.epoch}
    assert commit(wire, group, {(topic, 0): 5}, **as_member) == [E.NONE]
    assert commit(wire, group, {(topic, 0): 6}) == [E.UNKNOWN_MEMBER_ID]
    stale = {**as_member, "generation_id_or_member_epoch": 0}
    assert commit(wire, group, {(topic, 0): 6}, **stale) == [E.STALE_MEMBER_EPOCH]
    assert commit(wire, group, {(topic, 0): 6}, version=8, **as_member) == [E.UNSUPPORTED_VERSION]
    assert fetch(wire, group, (topic, 0))[0][2] == 5

    def fetched(member_id: str, epoch: int) -> int:
        topics = [messages.OffsetFetchRequest.GroupTopic(name=topic, partition_indexes=[0])]
        asked = messages.OffsetFetchRequest.Group(
            group_id=group, member_id=member_id, member_epoch=epoch, topics=topics
        )
        return int(wire.call(messages.OffsetFetchRequest(groups=[asked]), 9).groups[0].error_code)

    assert fetched(member.id, member.epoch) == E.NONE
    assert fetched(member.id, member.epoch + 1) == E.STALE_MEMBER_EPOCH
    assert fetched("x", member.epoch) == E.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_that_members_read_cannot_be_deleted(connect, group, topic, member):
    wire = connect()
    commit(wire, group, {(topic, 0): 5}, member_id=member.id, generation_id_or_member_epoch=member.epoch)
    asked = messages.OffsetDeleteRequest.Topic(
        name=topic, partitions=[messages.OffsetDeleteRequest.Partition(partition_index=0)]
    )
    reply = wire.call(messages.OffsetDeleteRequest(group_id=group, topics=[asked]), 0)
    assert reply.topics[0].partitions[0].error_code == E.GROUP_SUBSCRIBED_TO_TOPIC
    assert fetch(wire, group, (topic, 0))[0][2] == 5


# -- both protocols


def test_a_classic_group_moves_to_the_new_protocol_and_back_with_its_offsets(connect, group, topic):
    wire = connect()
    classic = GroupMember(connect(), group, topic)
    classic.join()
    classic.sync({classic.id: b"\0\1\0\0\0\0\xff\xff\xff\xff"})
    assert classic.commit({(topic, 1): 7}) == [E.NONE]
    new = ConsumerMember(connect(), group, topic)
    assert new.join().error_code == E.NONE
    assert describe(wire, group)[0].error_code == E.NONE
    classic.notice()
    classic.join(protocols={"range": subscription(topic)})
    assert classic.sync().error_code == E.NONE
    assert classic.beat() == E.NONE
    assert [one.member_type for one in describe(wire, group)[0].members] == [0, 1]
    assert fetch(wire, group, (topic, 1))[0][2] == 7
    new.send(member_epoch=-1)
    classic.notice()
    assert classic.join().error_code == E.NONE
    (shown,) = wire.call(messages.DescribeGroupsRequest(groups=[group]), 6).groups
    assert shown.error_code == E.NONE
    assert fetch(wire, group, (topic, 1))[0][2] == 7


def test_an_empty_consumer_group_becomes_classic_with_a_classic_member(connect, group, topic, member):
    member.send(member_epoch=-1)
    classic = GroupMember(connect(), group, topic)
    assert classic.join().error_code == E.NONE
    assert describe(connect(), group)[0].error_code == E.GROUP_ID_NOT_FOUND
    assert classic.leave() == E.NONE


# -- settings


def test_settings_of_a_group_hold_for_its_members_at_once(serve):
    served = serve(
        group_consumer_min_heartbeat_interval_ms=100,
        group_consumer_max_size=1,
        group_consumer_assignors=["org.apache.kafka.coordinator.group.assignor.RangeAssignor"],
    )
    wire = served.wire()
    wire.create("t", partitions=1)
    wire.call(messages.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    one = ConsumerMember(wire, "g", "t")
    assert one.join().heartbeat_interval_ms == 5000
    resource = messages.IncrementalAlterConfigsRequest.Resource(
        resource_type=32,
        resource_name="g",
        configs=[
            messages.IncrementalAlterConfigsRequest.Config(
                name="consumer.heartbeat.interval.ms", config_operation=0, value="1234"
            )
        ],
    )
    wire.call(messages.IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert one.beat().heartbeat_interval_ms == 1234
    assert ConsumerMember(wire, "g", "t").join().error_code == E.GROUP_MAX_SIZE_REACHED
    assert one.beat(server_assignor="uniform").error_code == E.UNSUPPORTED_ASSIGNOR
    assert describe(wire, "g")[0].assignor_name == "range"


def test_the_protocol_is_offered_as_a_feature_and_can_be_switched_off(serve):
    served = serve()
    wire = served.wire()
    reply = wire.call(messages.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    assert [(one.name, one.max_version_level) for one in reply.finalized_features if one.name == "group.version"] == [
        ("group.version", 1)
    ]
    update = messages.UpdateFeaturesRequest.FeatureUpdate(feature="group.version", max_version_level=0, upgrade_type=2)
    assert wire.call(messages.UpdateFeaturesRequest(feature_updates=[update], timeout_ms=5000), 1).error_code == 0
    wire.call(messages.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert ConsumerMember(wire, "g", "t").join().error_code == E.UNSUPPORTED_VERSION
    assert describe(wire, "g")[0].error_code == E.UNSUPPORTED_VERSION


def test_a_broker_that_serves_the_classic_protocol_alone_says_so(serve):
    wire = serve(group_coordinator_rebalance_protocols=["classic"]).wire()
    wire.call(messages.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert ConsumerMember(wire, "g", "t").join().error_code == E.UNSUPPORTED_VERSION


# -- restarts


def test_members_go_on_after_a_restart_with_epochs_partitions_and_offsets(serve):
    served = serve()
    wire = served.wire()
    wire.create("t", partitions=4)
    wire.call(messages.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    one, two = ConsumerMember(wire, "g", "t"), ConsumerMember(wire, "g", "t")
    one.join()
    two.join()
    one.settle(two)
    commit(wire, "g", {("t", 0): 3}, member_id=one.id, generation_id_or_member_epoch=one.epoch)
    before = describe(wire, "g")
    one.wire = two.wire = wire = served.restart().wire()
    while describe(wire, "g")[0].error_code == E.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    assert describe(wire, "g") == before
    assert one.beat(topic_partitions=one.owning()).error_code == E.NONE
    assert two.beat(topic_partitions=two.owning()).error_code == E.NONE
    assert fetch(wire, "g", ("t", 0))[0][2] == 3
