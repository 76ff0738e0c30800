"""The records of consumer groups in __consumer_offsets, in Kafka's formats (see ../records.py).

3    the group            its epoch; a hash of the topics that it reads (KIP-1101)
4    its topics           before Kafka 4.1; read over, and taken off the disk
5    a member             what it said of itself; a member of the classic protocol also what it joined with. Where that
                          is missing Kafka takes it for an empty one, not for none
6    the target           its epoch, and when it was worked out (KIP-1263)
7    a member's target
8    a member's state     epochs, and what it has and must give up, with the epochs of that (KIP-1251)
16   a pattern            the topics that fit it
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import Any

from ottla.groups.consumer.assignors import Assignment
from ottla.groups.consumer.members import Classic, Member, Owned, Profile, State
from ottla.groups.effects import Write
from ottla.protocol import codec, messages

GROUP, TOPICS, MEMBER, TARGET, MEMBER_TARGET, MEMBER_STATE, PATTERN = 3, 4, 5, 6, 7, 8, 16
VERSION = 0
NO_IMAGE = 0  # Kafka says here by which version of its metadata a pattern was matched

_INT16 = struct.Struct(">h")

MemberValue = messages.ConsumerGroupMemberMetadataValue
StateValue = messages.ConsumerGroupCurrentMemberAssignmentValue
TargetValue = messages.ConsumerGroupTargetAssignmentMemberValue

_KEYS = {
    GROUP: messages.ConsumerGroupMetadataKey,
    TOPICS: messages.ConsumerGroupPartitionMetadataKey,
    TARGET: messages.ConsumerGroupTargetAssignmentMetadataKey,
}
_MEMBER_KEYS = {
    MEMBER: messages.ConsumerGroupMemberMetadataKey,
    MEMBER_TARGET: messages.ConsumerGroupTargetAssignmentMemberKey,
    MEMBER_STATE: messages.ConsumerGroupCurrentMemberAssignmentKey,
}


def group_key(kind: int, group_id: str) -> bytes:
    return _INT16.pack(kind) + codec.encode(_KEYS[kind](group_id=group_id), kind)


def member_key(kind: int, group_id: str, member_id: str) -> bytes:
    return _INT16.pack(kind) + codec.encode(_MEMBER_KEYS[kind](group_id=group_id, member_id=member_id), kind)


def pattern_key(group_id: str, pattern: str) -> bytes:
    key = messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    return _INT16.pack(PATTERN) + codec.encode(key, PATTERN)


def read_key(key: bytes) -> tuple[str, str]:
    """The group, and its member or pattern, or "" where the key is of the whole group."""
    kind = int(_INT16.unpack_from(key)[0])
    body = memoryview(key)[2:]
    if kind == PATTERN:
        pattern = codec.decode(messages.ConsumerGroupRegularExpressionKey, kind, body)
        return pattern.group_id, pattern.regular_expression
    if kind in _MEMBER_KEYS:
        member: Any = codec.decode(_MEMBER_KEYS[kind], kind, body)
        return member.group_id, member.member_id
    whole: Any = codec.decode(_KEYS[kind], kind, body)
    return whole.group_id, ""


def _value(message: messages.Message) -> bytes:
    return _INT16.pack(VERSION) + codec.encode(message, VERSION)


def _body(value: bytes) -> tuple[int, memoryview]:
    return int(_INT16.unpack_from(value)[0]), memoryview(value)[2:]


# -- the group, its target, its patterns


def group_record(group_id: str, epoch: int, metadata_hash: int) -> Write:
    value = messages.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Write(group_key(GROUP, group_id), _value(value))


def read_group(value: bytes) -> tuple[int, int]:
    """Epoch and hash."""
    read = codec.decode(messages.ConsumerGroupMetadataValue, *_body(value))
    return read.epoch, read.metadata_hash


def target_record(group_id: str, epoch: int, time_ms: int) -> Write:
    value = messages.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=time_ms)
    return Write(group_key(TARGET, group_id), _value(value))


def read_target(value: bytes) -> tuple[int, int]:
    """Epoch, and the time in which it was worked out."""
    read = codec.decode(messages.ConsumerGroupTargetAssignmentMetadataValue, *_body(value))
    return read.assignment_epoch, read.assignment_timestamp


def pattern_record(group_id: str, pattern: str, topics: Collection[str], time_ms: int) -> Write:
    value = messages.ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=NO_IMAGE, timestamp=time_ms)
    return Write(pattern_key(group_id, pattern), _value(value))


def read_pattern(value: bytes) -> frozenset[str]:
    return frozenset(codec.decode(messages.ConsumerGroupRegularExpressionValue, *_body(value)).topics)


# -- a member


def member_record(group_id: str, member: Member) -> Write:
    profile, classic = member.profile, None
    if profile.classic is not None:
        classic = MemberValue.ClassicMemberMetadata(
            session_timeout_ms=profile.classic.session_timeout_ms,
            supported_protocols=[
                MemberValue.ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in profile.classic.protocols
            ],
        )
    value = MemberValue(
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topics),
        subscribed_topic_regex=profile.regex,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        server_assignor=profile.assignor,
        classic_member_metadata=classic,
    )
    return Write(member_key(MEMBER, group_id, member.id), _value(value))


def read_member(value: bytes) -> Profile:
    read = codec.decode(MemberValue, *_body(value))
    classic = read.classic_member_metadata
    return Profile(
        read.instance_id,
        read.rack_id,
        read.client_id,
        read.client_host,
        frozenset(read.subscribed_topic_names),
        read.subscribed_topic_regex or "",
        read.rebalance_timeout_ms,
        read.server_assignor,
        None
        if classic is None or not classic.supported_protocols
        else Classic(
            classic.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols)
        ),
    )


def member_target_record(group_id: str, member_id: str, target: Assignment) -> Write:
    value = TargetValue(
        topic_partitions=[
            TargetValue.TopicPartition(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in target.items()
        ]
    )
    return Write(member_key(MEMBER_TARGET, group_id, member_id), _value(value))


def read_member_target(value: bytes) -> Assignment:
    read = codec.decode(TargetValue, *_body(value))
    return {bytes(one.topic_id): frozenset(one.partitions) for one in read.topic_partitions}


def member_state_record(group_id: str, member: Member) -> Write:
    value = StateValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_listed(member.assigned),
        partitions_pending_revocation=_listed(member.revoking),
    )
    return Write(member_key(MEMBER_STATE, group_id, member.id), _value(value))


def _listed(owned: Owned) -> list[StateValue.TopicPartitions]:
    return [
        StateValue.TopicPartitions(
            topic_id=topic, partitions=list(partitions), assignment_epochs=list(partitions.values())
        )
        for topic, partitions in owned.items()
    ]


def read_member_state(value: bytes, member: Member) -> None:
    """Put what was stored into the member. Kafka before 4.3 stored no epochs: those of the member take their place."""
    read = codec.decode(StateValue, *_body(value))
    member.epoch, member.previous_epoch = read.member_epoch, read.previous_member_epoch
    member.state = State(read.state)
    member.assigned = _owned(read.assigned_partitions, read.member_epoch)
    member.revoking = _owned(read.partitions_pending_revocation, read.member_epoch)


def _owned(listed: Iterable[StateValue.TopicPartitions], epoch: int) -> Owned:
    return {
        bytes(one.topic_id): dict(
            zip(one.partitions, one.assignment_epochs or [epoch] * len(one.partitions), strict=True)
        )
        for one in listed
    }


def member_tombstones(group_id: str, member_id: str) -> list[Write]:
    return [Write(member_key(kind, group_id, member_id), None) for kind in (MEMBER_STATE, MEMBER_TARGET, MEMBER)]


def tombstones(group_id: str, members: Iterable[str], patterns: Iterable[str]) -> list[Write]:
    """What takes a group off the disk, with all its members, and what older Kafkas have left of it."""
    return [
        *(write for member_id in members for write in member_tombstones(group_id, member_id)),
        *(Write(pattern_key(group_id, pattern), None) for pattern in patterns),
        *(Write(group_key(kind, group_id), None) for kind in (TARGET, TOPICS, GROUP)),
    ]
