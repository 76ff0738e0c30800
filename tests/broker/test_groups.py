"""Groups and their log: restarts, loading, refused writes, expiry, and what becomes of the topic itself."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.names import CONSUMER_OFFSETS
from ottla.groups.effects import Reply
from ottla.groups.records import Committed
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.group_wire import GroupMember, commit, fetch, find_coordinator, members_of

NONE = ErrorCode.NONE


@pytest.fixture
def broker(serve):
    served = serve(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1)
    wire = served.wire()
    find_coordinator(wire, "g")
    wire.create("t", 2)
    return served


def set_config(wire, key, value):
    """Give the offsets topic a setting of its own, or take it away."""
    Resource, Config = (
        messages.IncrementalAlterConfigsRequest.Resource,
        messages.IncrementalAlterConfigsRequest.Config,
    )
    operation = 0 if value is not None else 1
    change = Config(name=key, config_operation=operation, value=value)
    topic = Resource(resource_type=2, resource_name=CONSUMER_OFFSETS, configs=[change])
    (answer,) = wire.call(messages.IncrementalAlterConfigsRequest(resources=[topic]), 1).responses
    assert answer.error_code == 0, answer


def partition_of_offsets(served):
    return served.broker.partition(CONSUMER_OFFSETS, 0)


def test_the_topic_is_made_with_its_settings_when_a_coordinator_is_first_asked_for(serve):
    served = serve(offsets_topic_num_partitions=3, offsets_topic_segment_bytes=1_000_000)
    wire = served.wire()
    assert CONSUMER_OFFSETS not in served.broker.image.topics
    assert wire.call(messages.ListGroupsRequest(), 5).groups == []
    find_coordinator(wire, "g")
    topic = served.broker.image.topics[CONSUMER_OFFSETS]
    assert len(topic.partitions) == 3
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "1000000",
    }


def test_before_the_topic_is_there_every_group_has_another_coordinator(serve):
    wire = serve().wire()
    wire.create("t")
    no_coordinator = ErrorCode.NOT_COORDINATOR
    assert GroupMember(wire, "g").beat() == no_coordinator
    assert fetch(wire, "g", ("t", 0)) == [no_coordinator]
    assert fetch(wire, "g", ("t", 0), version=1)[0][-1] == no_coordinator
    assert wire.call(messages.DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code == no_coordinator
    assert wire.call(messages.DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == no_coordinator
    assert commit(wire, "g", {("t", 0): 1}) == [no_coordinator]  # and now it is being made
    while commit(wire, "g", {("t", 0): 1}) != [NONE]:
        pass


def test_offsets_and_groups_outlive_a_restart(broker):
    member = GroupMember(broker.wire(), "g", "t", instance="i")
    member.join()
    member.sync({member.id: b"mine"})
    member.commit({("t", 0): (5, 2, "text"), ("t", 1): 7})
    member.commit({("t", 1): 8})
    commit(broker.wire(), "simple", {("t", 0): 1})
    broker.restart()
    member.wire = broker.wire()
    while member.beat() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    assert member.beat() == NONE
    assert member.sync().assignment == b"mine"
    assert member.fetch() == [("t", 0, 5, 2, "text", NONE), ("t", 1, 8, -1, "", NONE)]
    assert members_of(member.wire, "g") == 1
    assert member.commit({("t", 0): 6}) == [NONE]
    assert fetch(member.wire, "simple")[0][2] == 1


def test_what_was_deleted_does_not_come_back(broker):
    wire = broker.wire()
    member = GroupMember(broker.wire(), "left")
    member.join()
    member.sync({member.id: b""})
    member.leave()
    commit(wire, "left", {("t", 0): 1})
    commit(wire, "g", {("t", 0): 1, ("t", 1): 2})
    assert wire.call(messages.DeleteGroupsRequest(groups_names=["left"]), 2).results[0].error_code == 0
    Topic, Partition = messages.OffsetDeleteRequest.Topic, messages.OffsetDeleteRequest.Partition
    gone = Topic(name="t", partitions=[Partition(partition_index=1)])
    wire.call(messages.OffsetDeleteRequest(group_id="g", topics=[gone]), 0)
    broker.restart()
    wire = broker.wire()
    while (listed := wire.call(messages.ListGroupsRequest(), 5)).error_code:
        pass
    assert [one.group_id for one in listed.groups] == ["g"]
    assert [one[:3] for one in fetch(wire, "g")] == [("t", 0, 1)]


@pytest.mark.parametrize("codec", range(5))
def test_groups_are_written_in_any_codec(serve, codec):
    served = serve(offsets_topic_compression_codec=codec, offsets_topic_num_partitions=1)
    find_coordinator(served.wire(), "g")
    served.wire().create("t")
    commit(served.wire(), "g", {("t", 0): (3, 1, "x" * 1000)})
    served.restart()
    while fetch(served.wire(), "g") == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]:
        pass
    assert fetch(served.wire(), "g")[0][2:5] == (3, 1, "x" * 1000)


def test_while_the_log_is_read_back_groups_are_told_to_wait_and_others_are_served(broker):
    wire = broker.wire()
    wire.create("wide", 2000)
    Topic, Partition = messages.OffsetCommitRequest.Topic, messages.OffsetCommitRequest.Partition
    for offset in range(20):
        partitions = [Partition(partition_index=index, committed_offset=offset) for index in range(2000)]
        request = messages.OffsetCommitRequest(group_id="g", topics=[Topic(name="wide", partitions=partitions)])
        wire.call(request, 8)
    broker.stop()
    seen = []

    async def start():
        made = await make()
        seen.append(made.groups.find("g"))
        return made

    make, broker._make = broker._make, start
    broker.start()
    wire = broker.wire()
    assert seen == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert wire.call(messages.MetadataRequest(topics=None), 12).topics
    while (answer := fetch(wire, "g")) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]:
        pass
    assert len(answer) == 2000
    assert {one[2] for one in answer} == {19}


def test_commits_wait_for_the_disk_where_the_topic_asks_for_it(broker):
    wire = broker.wire()
    set_config(wire, "flush.messages", "1")
    assert commit(wire, "g", {("t", 0): 5}) == [NONE]
    partition = partition_of_offsets(broker)
    assert partition.log.recovery_point == partition.log.end_offset == partition.high_watermark
    member = GroupMember(broker.wire(), "h")
    member.join()
    assert member.sync({member.id: b"x"}).assignment == b"x"
    assert partition.log.recovery_point == partition.log.end_offset


def test_what_cannot_be_written_is_refused_and_forgotten(broker, until):
    wire = broker.wire()
    member = GroupMember(broker.wire(), "m")
    member.join()
    member.sync({member.id: b"x"})
    assert commit(wire, "g", {("t", 0): 5}) == [NONE]
    set_config(wire, "min.insync.replicas", "2")
    assert commit(wire, "g", {("t", 0): 6}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    until(lambda: fetch(wire, "g") != [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
    assert fetch(wire, "g")[0][2] == 5
    assert member.beat() == NONE
    set_config(wire, "min.insync.replicas", None)
    assert commit(wire, "g", {("t", 0): 6}) == [NONE]
    assert fetch(wire, "g")[0][2] == 6


def test_a_group_too_large_for_the_log_is_told_so_and_nobody_else_notices(broker):
    member = GroupMember(broker.wire(), "m")
    member.join()
    assert member.sync({member.id: b"x" * 1_100_000}).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    member.join()
    assert member.sync({member.id: b"x"}).assignment == b"x"
    assert commit(broker.wire(), "g", {("t", 0): 5}) == [NONE]


def test_commits_that_come_together_are_written_together(broker):
    groups, answers = broker.broker.groups, []

    async def commit_many():
        shard = groups.shard_of("g")
        for number in range(500):
            group = shard.find_or_create(f"group-{number}")
            write = group.offsets.commit("t", 0, Committed(number, -1, "", 1))
            shard.carry_out(group, [write, Reply(answers.append, number)])
        assert not answers
        await asyncio.sleep(0)

    before = partition_of_offsets(broker).end_offset
    broker.run(commit_many())
    assert answers == list(range(500))
    batches = list(partition_of_offsets(broker).log.batches(before))
    assert [header.record_count for _, _, header in batches] == [500]


def test_offsets_expire_and_with_the_last_one_the_group(broker):
    wire = broker.wire()

    async def expire():
        broker.broker.groups.expire_offsets()

    assert commit(wire, "g", {("t", 0): 5}, 2, retention_time_ms=0) == [NONE]
    assert commit(wire, "h", {("t", 0): 5}, 2, retention_time_ms=3_600_000) == [NONE]
    broker.run(expire())
    assert [one.group_id for one in wire.call(messages.ListGroupsRequest(), 5).groups] == ["h"]
    broker.restart()
    wire = broker.wire()
    while (listed := wire.call(messages.ListGroupsRequest(), 5)).error_code:
        pass
    assert [one.group_id for one in listed.groups] == ["h"]


def test_a_topic_deleted_while_groups_were_not_served_leaves_no_offsets(broker):
    wire = broker.wire()
    commit(wire, "g", {("t", 0): 5})

    async def forget():  # as after a crash between the topic's deletion and the tombstones
        broker.broker.groups.topics_changed = lambda **_: None

    broker.run(forget())
    request = messages.DeleteTopicsRequest(topics=[messages.DeleteTopicsRequest.Topic(name="t")], timeout_ms=20_000)
    assert wire.call(request, 6).responses[0].error_code == 0
    broker.restart()
    wire = broker.wire()
    while (answer := fetch(wire, "g")) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]:
        pass
    assert answer == []


def test_when_the_offsets_topic_is_deleted_groups_begin_anew(broker):
    wire = broker.wire()
    commit(wire, "g", {("t", 0): 5})
    a, b = GroupMember(broker.wire(), "m"), GroupMember(broker.wire(), "m")
    a.join()
    waiting = b.send_join(3)
    a.notice()
    topic = messages.DeleteTopicsRequest.Topic(name=CONSUMER_OFFSETS)
    reply = wire.call(messages.DeleteTopicsRequest(topics=[topic], timeout_ms=20_000), 6)
    assert reply.responses[0].error_code == 0
    assert b.joined(waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert a.beat() == ErrorCode.NOT_COORDINATOR
    find_coordinator(wire, "g")
    assert fetch(wire, "g") == []
    assert commit(wire, "g", {("t", 0): 1}) == [NONE]
