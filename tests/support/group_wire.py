"""A member of a group that speaks raw frames: one connection, the requests of groups in few words, in any version."""

from __future__ import annotations

from typing import Any

from ottla.protocol import codec, messages
from ottla.protocol.errors import ErrorCode
from support.wire import Wire

NEWEST = {"join": 9, "sync": 5, "beat": 4, "leave": 5, "commit": 9, "fetch": 9}
SESSION, REBALANCE = 10_000, 20_000


def subscription(*topics: str) -> bytes:
    """What consumers say in a join."""
    return b"\0\1" + bytes(codec.encode(messages.ConsumerProtocolSubscription(topics=list(topics)), 1))


class GroupMember:
    """Keeps member id and generation as it is told them."""

    def __init__(self, wire: Wire, group: str, *topics: str, instance: str | None = None) -> None:
        self.wire = wire
        self.group = group
        self.metadata = subscription(*topics)
        self.instance = instance
        self.id = ""
        self.generation = -1

    # -- join

    def join_request(self, **more: Any) -> messages.JoinGroupRequest:
        protocols = more.pop("protocols", {"range": self.metadata})
        return messages.JoinGroupRequest(
            group_id=self.group,
            member_id=self.id,
            **{
                "group_instance_id": self.instance,
                "protocol_type": "consumer",
                "session_timeout_ms": SESSION,
                "rebalance_timeout_ms": REBALANCE,
                **more,
            },
            protocols=[
                messages.JoinGroupRequest.Protocol(name=name, metadata=data) for name, data in protocols.items()
            ],
        )

    def send_join(self, version: int = NEWEST["join"], **more: Any) -> tuple[int, int]:
        return self.wire.send(self.join_request(**more), version), version

    def joined(self, sent: tuple[int, int]) -> Any:
        correlation_id, version = sent
        reply = self.wire.receive("JoinGroup", version, correlation_id)
        if reply.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.id, self.generation = reply.member_id, reply.generation_id
        return reply

    def join(self, version: int = NEWEST["join"], **more: Any) -> Any:
        """Join, with a second request where the first only gives an id."""
        reply = self.joined(self.send_join(version, **more))
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            reply = self.joined(self.send_join(version, **more))
        return reply

    # -- the others

    def send_sync(self, given: dict[str, bytes] | None = None, version: int = NEWEST["sync"], **more: Any) -> int:
        return self.wire.send(self.sync_request(given, **more), version)

    def sync_request(self, given: dict[str, bytes] | None = None, **more: Any) -> messages.SyncGroupRequest:
        return messages.SyncGroupRequest(
            group_id=self.group,
            **{
                "generation_id": self.generation,
                "member_id": self.id,
                "group_instance_id": self.instance,
                **more,
            },
            assignments=[
                messages.SyncGroupRequest.Assignment(member_id=id, assignment=data)
                for id, data in (given or {}).items()
            ],
        )

    def synced(self, correlation_id: int, version: int = NEWEST["sync"]) -> Any:
        return self.wire.receive("SyncGroup", version, correlation_id)

    def sync(self, given: dict[str, bytes] | None = None, version: int = NEWEST["sync"], **more: Any) -> Any:
        return self.synced(self.send_sync(given, version, **more), version)

    def beat(self, version: int = NEWEST["beat"], **more: Any) -> ErrorCode:
        request = messages.HeartbeatRequest(
            group_id=self.group,
            **{
                "generation_id": self.generation,
                "member_id": self.id,
                "group_instance_id": self.instance,
                **more,
            },
        )
        return ErrorCode(self.wire.call(request, version).error_code)

    def notice(self) -> None:
        """Return when a rebalance has begun."""
        while self.beat() != ErrorCode.REBALANCE_IN_PROGRESS:
            pass

    def leave(self, version: int = NEWEST["leave"], **more: Any) -> ErrorCode:
        who = {"member_id": self.id, "group_instance_id": self.instance, **more}
        if version < 3:
            request = messages.LeaveGroupRequest(group_id=self.group, member_id=who["member_id"])
            return ErrorCode(self.wire.call(request, version).error_code)
        request = messages.LeaveGroupRequest(group_id=self.group, members=[messages.LeaveGroupRequest.Member(**who)])
        reply = self.wire.call(request, version)
        return ErrorCode(reply.error_code or reply.members[0].error_code)

    def commit(self, offsets: dict[tuple[str, int], Any], version: int = NEWEST["commit"], **more: Any) -> list[Any]:
        """Codes in the order of `offsets`, which are numbers or (number, leader epoch, metadata)."""
        return commit(
            self.wire,
            self.group,
            offsets,
            version,
            **{
                "generation_id_or_member_epoch": self.generation,
                "member_id": self.id,
                "group_instance_id": self.instance,
                **more,
            },
        )

    def fetch(self, *partitions: tuple[str, int], version: int = NEWEST["fetch"]) -> list[Any]:
        return fetch(self.wire, self.group, *partitions, version=version)


def commit(
    wire: Wire, group: str, offsets: dict[tuple[Any, int], Any], version: int = NEWEST["commit"], **more: Any
) -> list[ErrorCode]:
    """Commit as no member, unless `more` says otherwise. Topics are names, or ids for version 10."""
    request = messages.OffsetCommitRequest(group_id=group, **more)
    for (topic, index), wanted in offsets.items():
        offset, epoch, metadata = wanted if isinstance(wanted, tuple) else (wanted, -1, "")
        named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
        partition = messages.OffsetCommitRequest.Partition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            committed_metadata=metadata,
        )
        request.topics.append(messages.OffsetCommitRequest.Topic(**named, partitions=[partition]))
    reply = wire.call(request, version)
    return [ErrorCode(one.error_code) for topic in reply.topics for one in topic.partitions]


def fetch(
    wire: Wire, group: str, *partitions: tuple[Any, int], version: int = NEWEST["fetch"], **more: Any
) -> list[Any]:
    """(topic, partition, offset, leader epoch, metadata, code) for those asked for, or for all that there are."""
    request, by_id = messages.OffsetFetchRequest(**more), version >= 10
    if version >= 8:
        topics = [
            messages.OffsetFetchRequest.GroupTopic(
                **({"topic_id": topic} if by_id else {"name": topic}), partition_indexes=[index]
            )
            for topic, index in partitions
        ]
        request.groups = [messages.OffsetFetchRequest.Group(group_id=group, topics=topics or None)]
        (answer,) = wire.call(request, version).groups
    else:
        asked = [
            messages.OffsetFetchRequest.Topic(name=topic, partition_indexes=[index]) for topic, index in partitions
        ]
        request.group_id, request.topics = group, asked or (None if version >= 2 else [])
        answer = wire.call(request, version)
    if answer.error_code:
        return [ErrorCode(answer.error_code)]
    return [
        (
            topic.topic_id if by_id else topic.name,
            one.partition_index,
            one.committed_offset,
            one.committed_leader_epoch,
            one.metadata,
            ErrorCode(one.error_code),
        )
        for topic in answer.topics
        for one in topic.partitions
    ]


def members_of(wire: Wire, group: str) -> int:
    """How many members a group has, of whatever kind it is."""
    (described,) = wire.call(messages.ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    if not described.error_code:
        return len(described.members)
    return len(wire.call(messages.DescribeGroupsRequest(groups=[group]), 5).groups[0].members)


def find_coordinator(wire: Wire, group: str) -> None:
    """Ask for the coordinator, so that it is there."""
    (found,) = wire.call(messages.FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators
    assert found.error_code == 0, found
