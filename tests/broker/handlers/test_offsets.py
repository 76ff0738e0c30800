"""OffsetCommit, OffsetFetch and OffsetDelete through the wire, in every version and with every error."""

from __future__ import annotations

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.group_wire import GroupMember, commit, fetch

NONE = ErrorCode.NONE


def delete_topic(wire, name):
    wanted = messages.DeleteTopicsRequest(topics=[messages.DeleteTopicsRequest.Topic(name=name)], timeout_ms=20_000)
    assert wire.call(wanted, 6).responses[0].error_code == 0


@pytest.fixture
def wire(connect):
    return connect()


@pytest.fixture
def topic(wire, group):
    """A topic with two partitions, and its id."""
    name = f"topic-of-{group}"
    return name, wire.create(name, 2)


@pytest.mark.parametrize("version", range(11))
def test_what_is_committed_is_fetched_in_every_version(wire, group, topic, version):
    name, id = topic
    key = id if version >= 10 else name
    assert commit(wire, group, {(key, 0): (42, 3, "text"), (key, 1): (7, -1, None)}, version) == [NONE, NONE]
    epoch = 3 if version >= 6 else -1
    assert fetch(wire, group, (name, 0), (name, 1)) == [(name, 0, 42, epoch, "text", NONE), (name, 1, 7, -1, "", NONE)]


@pytest.mark.parametrize("version", range(11))
def test_offsets_are_fetched_in_every_version_and_those_never_committed_are_minus_one(wire, group, topic, version):
    name, id = topic
    commit(wire, group, {(name, 1): (8, 5, "m")})
    key = id if version >= 10 else name
    epoch = 5 if version >= 5 else -1
    expected = [(key, 0, -1, -1, "", NONE), (key, 1, 8, epoch, "m", NONE)]
    assert fetch(wire, group, (key, 0), (key, 1), version=version) == expected
    if version >= 2:
        assert fetch(wire, group, version=version) == expected[1:]
    assert fetch(wire, "no-such-group", (key, 0), version=version) == expected[:1]


def test_many_groups_are_asked_for_at_once(wire, group, topic):
    name, _ = topic
    commit(wire, group, {(name, 0): 1})
    commit(wire, group + "-2", {(name, 0): 2})
    Group = messages.OffsetFetchRequest.Group
    asked = [Group(group_id=group, topics=None), Group(group_id=group + "-2", topics=None), Group(group_id="none")]
    reply = wire.call(messages.OffsetFetchRequest(groups=asked), 8)
    assert [
        (one.group_id, one.error_code, [t.partitions[0].committed_offset for t in one.topics]) for one in reply.groups
    ] == [
        (group, 0, [1]),
        (group + "-2", 0, [2]),
        ("none", 0, []),
    ]


@pytest.mark.parametrize("version", range(11))
def test_each_partition_has_its_own_error(wire, group, topic, version):
    name, id = topic
    key, missing = (id, b"x" * 16) if version >= 10 else (name, "no-such-topic")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else unknown
    wanted = {(missing, 0): 1, (key, 2): 1, (key, -1): 1, (key, 0): (1, -1, "x" * 4097), (key, 1): (1, -1, "x" * 4096)}
    assert commit(wire, group, wanted, version) == [
        no_topic,
        unknown,
        unknown,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        NONE,
    ]
    assert [one[:3] for one in fetch(wire, group)] == [(name, 1, 1)]


def test_an_id_that_is_not_known_is_told_when_fetching(wire, group):
    assert fetch(wire, group, (b"y" * 16, 0), version=10) == [(b"y" * 16, 0, -1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)]


def test_text_beside_an_offset_is_as_long_as_the_setting_says(serve):
    wire = serve(offset_metadata_max_bytes=100_000, offsets_topic_num_partitions=1).wire()
    wire.create("t")
    while commit(wire, "g", {("t", 0): 1}) == [ErrorCode.NOT_COORDINATOR]:
        pass
    assert commit(wire, "g", {("t", 0): (1, -1, "x" * 32_767)}, 8) == [NONE]


@pytest.mark.parametrize("version", [1, 8, 9])
def test_who_is_no_member_commits_only_while_there_are_none(wire, connect, group, topic, version):
    at = (topic[0], 0)
    member = GroupMember(connect(), group, topic[0])
    gone = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert member.commit({at: 1}, version, generation_id_or_member_epoch=3) == [gone]
    member.join()
    assert member.commit({at: 1}, version) == [ErrorCode.REBALANCE_IN_PROGRESS]
    member.sync({member.id: b""})
    assert member.commit({at: 2}, version) == [NONE]
    assert commit(wire, group, {at: 3}, version) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert member.commit({at: 3}, version, generation_id_or_member_epoch=0) == [ErrorCode.ILLEGAL_GENERATION]
    assert member.commit({at: 3}, version, member_id="nobody") == [ErrorCode.UNKNOWN_MEMBER_ID]
    member.leave()
    assert member.commit({at: 3}, version) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(wire, group, {at: 4}, version) == [NONE]
    assert [one[2] for one in fetch(wire, group)] == [4]


def test_members_may_commit_while_others_join(connect, group, topic):
    a, b = GroupMember(connect(), group), GroupMember(connect(), group)
    a.join()
    a.sync({a.id: b""})
    b.send_join(3)
    a.notice()
    assert a.commit({(topic[0], 0): 5}) == [NONE]


def test_a_static_member_whose_place_is_taken_cannot_commit(connect, group, topic):
    old, new = GroupMember(connect(), group, instance="i"), GroupMember(connect(), group, instance="i")
    old.join()
    old.sync({old.id: b""})
    new.join()
    assert old.commit({(topic[0], 0): 5}) == [ErrorCode.FENCED_INSTANCE_ID]
    assert new.commit({(topic[0], 0): 5}) == [NONE]


def test_a_group_with_an_empty_name_has_offsets_too(wire, topic):
    assert commit(wire, "", {(topic[0], 0): 5}) == [NONE]
    assert fetch(wire, "", (topic[0], 0))[0][2] == 5


def test_a_commit_of_very_many_partitions_is_taken_whole(wire, group):
    name = f"wide-{group}"
    wire.create(name, 3000)
    wanted = {(name, index): (index, 1, "x" * 300) for index in range(3000)}
    request = messages.OffsetCommitRequest(group_id=group, topics=[])
    Topic, Partition = messages.OffsetCommitRequest.Topic, messages.OffsetCommitRequest.Partition
    partitions = [
        Partition(partition_index=index, committed_offset=offset, committed_metadata=text)
        for (_, index), (offset, _, text) in wanted.items()
    ]
    request.topics = [Topic(name=name, partitions=partitions)]
    (answer,) = wire.call(request, 8).topics
    assert {one.error_code for one in answer.partitions} == {0}
    assert sum(one[2] for one in fetch(wire, group)) == sum(range(3000))
    delete_topic(wire, name)


def test_when_a_topic_goes_its_offsets_go(wire, group, topic):
    name, _ = topic
    wire.create(name + "-stays")
    commit(wire, group, {(name, 0): 5, (name + "-stays", 0): 6})
    delete_topic(wire, name)
    assert [one[:3] for one in fetch(wire, group)] == [(name + "-stays", 0, 6)]
    wire.create(name)
    assert fetch(wire, group, (name, 0))[0][2] == -1


# -- OffsetDelete


def delete(wire, group, *partitions):
    Topic, Partition = messages.OffsetDeleteRequest.Topic, messages.OffsetDeleteRequest.Partition
    request = messages.OffsetDeleteRequest(
        group_id=group,
        topics=[Topic(name=topic, partitions=[Partition(partition_index=index)]) for topic, index in partitions],
    )
    reply = wire.call(request, 0)
    return reply.error_code or [one.error_code for topic in reply.topics for one in topic.partitions]


def test_offsets_are_deleted_one_by_one(wire, group, topic):
    name, _ = topic
    commit(wire, group, {(name, 0): 5, (name, 1): 6})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(wire, group, (name, 0), (name, 0), (name, 2), ("no-such", 0)) == [0, 0, unknown, unknown]
    assert [one[:3] for one in fetch(wire, group)] == [(name, 1, 6)]


def test_offsets_of_topics_that_members_read_stay(wire, connect, group, topic):
    name, _ = topic
    commit(wire, group, {(name, 0): 5})
    member = GroupMember(connect(), group, name)
    member.join()
    member.sync({member.id: b""})
    assert delete(wire, group, (name, 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    other = GroupMember(connect(), group, "another")
    member.leave()
    other.join()
    assert delete(wire, group, (name, 0)) == [0]


def test_offsets_of_groups_that_are_not_of_consumers_stay_while_they_have_members(wire, connect, group, topic):
    member = GroupMember(connect(), group)
    member.join(protocol_type="connect")
    assert delete(wire, group, (topic[0], 0)) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert delete(wire, group, (topic[0], 0)) == [0]


def test_offsets_of_no_group_cannot_be_deleted(wire, group, topic):
    assert delete(wire, group, (topic[0], 0)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(wire, "", (topic[0], 0)) == ErrorCode.INVALID_GROUP_ID
