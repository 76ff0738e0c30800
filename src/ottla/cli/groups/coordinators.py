"""What coordinators say of groups, by requests of our own.

confluent-kafka has calls for most of it, but knows neither the states nor the epochs of groups of the new protocol
(KIP-848), and has none for OffsetDelete. A group that is no such group is asked for by DescribeGroups. While a
coordinator is loading or moving, the question is asked again, as long as the command's timeout allows.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ottla.cli.common.invocation import Failure
from ottla.cli.common.requests import Cluster, Connection, error_text
from ottla.protocol import codec
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
)

GROUP = 0  # the key type of FindCoordinator
CLASSIC_MEMBER = 0
PAUSE_SECONDS = 0.1
PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
# protocols of groups whose members are consumers; groups that only keep offsets have none
CONSUMERS = ("consumer", "")
NO_GROUP = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
_INT16 = struct.Struct(">h")

Assignment = dict[str, list[int]]  # partitions by topic


class Listed(NamedTuple):
    group: str
    type: str
    state: str


@dataclass(slots=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: Assignment
    epoch: int | None = None
    target: Assignment | None = None
    upgraded: bool | None = None  # whether it speaks the new protocol; None where its group is a classic one

    @property
    def partitions(self) -> int:
        return sum(map(len, self.assignment.values()))


@dataclass(slots=True)
class Described:
    group: str
    state: str
    coordinator: Connection
    coordinator_id: int
    assignor: str
    members: list[Member] = field(default_factory=list)
    epoch: int | None = None
    target_epoch: int | None = None


class Coordinators:
    """Asks the coordinators of a cluster."""

    def __init__(self, cluster: Cluster, timeout_seconds: float) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds

    def listed(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[Listed]:
        """All groups of consumers, of certain states and types where such are named (in lower case), by name."""
        wanted_states, wanted_types = set(states), set(types)
        found = []
        for connection in self._cluster.brokers().values():
            request = ListGroupsRequest(states_filter=sorted(wanted_states), types_filter=sorted(wanted_types))
            reply = self._settled(partial(connection.call, request), lambda reply: reply.error_code)
            if reply.error_code:
                raise Failure(f"{connection.address}: {error_text(reply.error_code)}")
            for one in reply.groups:
                # brokers that know no filters, or no types, have sent all
                listed = Listed(one.group_id, (one.group_type or "classic").capitalize(), one.group_state)
                if one.protocol_type not in CONSUMERS or listed.type not in ("Classic", "Consumer"):
                    continue
                if wanted_states and listed.state.lower() not in wanted_states:
                    continue
                if not wanted_types or listed.type.lower() in wanted_types:
                    found.append(listed)
        return sorted(found)

    def described(self, group: str) -> Described | None:
        """A group; None where there is none."""
        node_id = self._coordinator(group)
        connection = self._cluster.broker(node_id)
        if self._serves(connection, "ConsumerGroupDescribe"):
            modern = self._first(connection, ConsumerGroupDescribeRequest(group_ids=[group]))
            if modern.error_code == ErrorCode.NONE:
                return _of_new_protocol(modern, connection, node_id)
            if modern.error_code not in NO_GROUP:
                raise Failure(f"group {group}: {error_text(modern.error_code, modern.error_message)}")
        classic = self._first(connection, DescribeGroupsRequest(groups=[group]))
        if classic.error_code in NO_GROUP or (classic.error_code == 0 and classic.group_state == "Dead"):
            return None
        if classic.error_code:
            raise Failure(f"group {group}: {error_text(classic.error_code, classic.error_message)}")
        return _of_classic_protocol(classic, connection, node_id)

    def delete_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]]
    ) -> tuple[int, dict[tuple[str, int], int]]:
        """The error code of the whole, and that of each partition."""
        topics: dict[str, list[OffsetDeleteRequest.Partition]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(OffsetDeleteRequest.Partition(partition_index=partition))
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[OffsetDeleteRequest.Topic(name=name, partitions=asked) for name, asked in topics.items()],
        )
        connection = self._cluster.broker(self._coordinator(group))
        reply = self._settled(lambda: connection.call(request), lambda reply: reply.error_code)
        codes = {
            (topic.name, one.partition_index): one.error_code for topic in reply.topics for one in topic.partitions
        }
        return reply.error_code, codes

    def remove(self, group: Described) -> None:
        """Make all members leave the group, as if they had said so themselves."""
        leaving = LeaveGroupRequest.Member
        members = [leaving(member_id=one.id, group_instance_id=one.instance_id) for one in group.members]
        connection = self._cluster.broker(self._coordinator(group.group))
        request = LeaveGroupRequest(group_id=group.group, members=members)
        reply = self._settled(lambda: connection.call(request), lambda reply: reply.error_code)
        codes = [reply.error_code, *(one.error_code for one in reply.members)]
        for code in codes:
            if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):  # the latter has gone meanwhile
                raise Failure(f"group {group.group}: {error_text(code)}")

    def _coordinator(self, group: str) -> int:
        def ask() -> Any:
            version = self._cluster.seed.version_of("FindCoordinator")
            reply = self._cluster.seed.call(
                FindCoordinatorRequest(key=group, key_type=GROUP, coordinator_keys=[group]), version
            )
            return reply.coordinators[0] if version >= 4 else reply

        found = self._settled(ask, lambda reply: reply.error_code)
        if found.error_code:
            raise Failure(f"group {group}: {error_text(found.error_code, found.error_message)}")
        return int(found.node_id)

    def _first(self, connection: Connection, request: Any) -> Any:
        """What a request about one group says of it."""
        return self._settled(lambda: connection.call(request).groups[0], lambda group: group.error_code)

    def _settled(self, ask: Callable[[], Any], code: Callable[[Any], int]) -> Any:
        deadline = time.monotonic() + self._timeout
        while True:
            reply = ask()
            if code(reply) not in PASSING or time.monotonic() > deadline:
                return reply
            time.sleep(PAUSE_SECONDS)

    @staticmethod
    def _serves(connection: Connection, name: str) -> bool:
        try:
            connection.version_of(name)
        except Failure:
            return False
        return True


def _of_new_protocol(
    group: ConsumerGroupDescribeResponse.Group, connection: Connection, coordinator_id: int
) -> Described:
    def assignment(of: ConsumerGroupDescribeResponse.Assignment) -> Assignment:
        return {one.topic_name: sorted(one.partitions) for one in of.topic_partitions}

    return Described(
        group.group_id,
        group.group_state,
        connection,
        coordinator_id,
        group.assignor_name,
        [
            Member(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                assignment(one.assignment),
                one.member_epoch,
                assignment(one.target_assignment),
                one.member_type != CLASSIC_MEMBER,
            )
            for one in group.members
        ],
        group.group_epoch,
        group.assignment_epoch,
    )


def _of_classic_protocol(group: DescribeGroupsResponse.Group, connection: Connection, coordinator_id: int) -> Described:
    return Described(
        group.group_id,
        group.group_state,
        connection,
        coordinator_id,
        group.protocol_data,
        [
            Member(
                one.member_id,
                one.group_instance_id,
                one.client_id,
                one.client_host,
                _assigned(one.member_assignment) if group.protocol_type == "consumer" else {},
            )
            for one in group.members
        ],
    )


def _assigned(data: bytes | memoryview) -> Assignment:
    """What a leader's client has written; nothing where it cannot be read."""
    if len(data) < 2:
        return {}
    newest = ConsumerProtocolAssignment.SCHEMA.versions[1]
    version = max(0, min(int(_INT16.unpack_from(data)[0]), newest))
    try:
        read, _ = codec.decoder(ConsumerProtocolAssignment, version)(memoryview(data), 2)
    except ProtocolError:
        return {}
    return {one.topic: sorted(one.partitions) for one in read.assigned_partitions}
