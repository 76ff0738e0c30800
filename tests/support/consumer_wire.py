"""A member of a consumer group (KIP-848) that speaks raw frames."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from ottla.protocol import messages
from support.wire import Wire

Body = messages.ConsumerGroupHeartbeatRequest


class ConsumerMember:
    """A member of the consumer protocol: keeps its epoch, and what it was given."""

    def __init__(self, wire: Wire, group: str, *topics: str, id: str = "", **fields: Any) -> None:
        self.wire, self.group, self.topics, self.fields = wire, group, list(topics), fields
        self.id = id or str(uuid4())
        self.epoch = 0
        self.given: dict[bytes, list[int]] = {}

    def send(self, version: int = 1, **fields: Any) -> Any:
        body = Body(**{"group_id": self.group, "member_id": self.id, "member_epoch": self.epoch, **fields})
        reply = self.wire.call(body, version)
        if not reply.error_code:
            self.id, self.epoch = reply.member_id, reply.member_epoch
            if reply.assignment is not None:
                self.given = {one.topic_id: one.partitions for one in reply.assignment.topic_partitions}
        return reply

    def join(self, version: int = 1, **fields: Any) -> Any:
        full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": self.topics, "topic_partitions": []}
        return self.send(version, **{**full, "member_epoch": 0, **self.fields, **fields})

    def beat(self, version: int = 1, **fields: Any) -> Any:
        return self.send(version, **fields)

    def owning(self) -> list[Body.TopicPartitions]:
        return [Body.TopicPartitions(topic_id=topic, partitions=some) for topic, some in self.given.items()]

    @property
    def partitions(self) -> list[int]:
        return sorted(index for some in self.given.values() for index in some)

    def settle(self, *others: ConsumerMember) -> None:
        """Beat with all members until each has what it is to have."""
        members = (self, *others)
        while True:
            for member in members:
                assert member.beat(topic_partitions=member.owning()).error_code == 0
            (group,) = describe(self.wire, self.group)
            if group.group_state == "Stable":
                return


def describe(wire: Wire, *groups: str, version: int = 1, operations: bool = False) -> list[Any]:
    request = messages.ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)
    return list(wire.call(request, version).groups)
