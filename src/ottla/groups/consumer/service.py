"""ConsumerGroupHeartbeat, from its checks to the group that it is for: which may have to be made first, or converted.

    no such group                 made, by a member that joins
    an empty classic group        gives way
    a classic group of consumers  becomes a consumer group, if that is allowed (migration.py)
    anything else                 GROUP_ID_NOT_FOUND

A request that is refused leaves everything as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.requests import Client
from ottla.groups.consumer import migration
from ottla.groups.consumer.faults import Fault
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.members import JOINING, LEAVING, LEAVING_FOR_A_WHILE, NO_TIMEOUT
from ottla.groups.effects import Become, Effect, Reply
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.groups.consumer.subscriptions import Matched
    from ottla.groups.shard import Shard

OWN_IDS = 1  # version from which on members make their own ids (KIP-1082)

Body = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse


def check(body: Body, version: int, assignors: Collection[str]) -> None:
    """Fault for a request that is wrong in itself."""
    epoch = body.member_epoch
    if (version >= OWN_IDS or epoch > JOINING or epoch == LEAVING) and not body.member_id:
        raise _invalid("MemberId can't be empty.")
    if not body.group_id:
        raise _invalid("GroupId can't be empty.")
    if body.instance_id == "":
        raise _invalid("InstanceId can't be empty.")
    if body.rack_id == "":
        raise _invalid("RackId can't be empty.")
    if epoch == JOINING:
        if body.rebalance_timeout_ms == NO_TIMEOUT:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if body.topic_partitions is None or body.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVING_FOR_A_WHILE:
        if body.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE:
        raise _invalid("MemberEpoch is invalid.")
    if body.server_assignor is not None and body.server_assignor not in assignors:
        raise Fault(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {body.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _invalid(message: str) -> Fault:
    return Fault(ErrorCode.INVALID_REQUEST, message)


def has_new_pattern(shard: Shard, body: Body) -> bool:
    """Whether the request brings a pattern that its group does not know."""
    if not body.subscribed_topic_regex:
        return False
    group = shard.groups.get(body.group_id)
    core = group.core if group is not None else None
    return not (isinstance(core, ConsumerGroup) and body.subscribed_topic_regex in core.subscriptions.topics_of_pattern)


def heartbeat(shard: Shard, body: Body, client: Client, to: Any, now: int, matched: Matched | None = None) -> None:
    """Serve a request that has passed `check`; a member without an id has been given one."""
    group = shard.groups.get(body.group_id)
    before = group.core if group is not None else None
    out: list[Effect] = []
    try:
        if isinstance(before, ConsumerGroup):
            core = before
        elif body.member_epoch != JOINING:
            if before is None:
                raise Fault(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {body.group_id} not found.")
            raise migration.not_a_consumer_group(body.group_id)
        else:
            core = ConsumerGroup(body.group_id, shard.world)
            if isinstance(before, ClassicGroup) and before.members:
                migration.check_upgrade(before, core)
                out += migration.upgrade(before, core, now)
            elif isinstance(before, ClassicGroup):
                out += [*before.dissolved(), *before.tombstones(), Become(core)]
            elif before is None:
                out.append(Become(core))
            else:
                raise migration.not_a_consumer_group(body.group_id)
    except Fault as fault:
        to(migration.error_response(fault))
        return
    effects = core.consumer_heartbeat(body, client, to, now, matched)
    answer = effects[-1]
    assert isinstance(answer, Reply)
    if answer.message.error_code:
        to(answer.message)
        return
    shard.carry_out(group if group is not None else shard.find_or_create(body.group_id), [*out, *effects])
