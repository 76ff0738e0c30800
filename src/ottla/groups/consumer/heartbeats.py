"""ConsumerGroupHeartbeat in a consumer group: a member joins, lives, reads other topics, says what it has, leaves."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.config.patterns import IllegalPattern
from ottla.groups.classic.requests import Client
from ottla.groups.consumer import records
from ottla.groups.consumer.faults import Fault
from ottla.groups.consumer.members import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    NO_TIMEOUT,
    WAITING,
    Member,
    Owned,
    Profile,
)
from ottla.groups.consumer.reconciliation import Reported
from ottla.groups.consumer.subscriptions import Matched
from ottla.groups.effects import Effect, Reply, Timer
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.groups.consumer.group import ConsumerGroup
    from ottla.groups.consumer.world import Settings

log = logging.getLogger(__name__)

SOON_MS = 1000  # when a member that waits for partitions is to ask again

Body = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse


def serve(group: ConsumerGroup, body: Body, client: Client, to: Any, now: int, matched: Matched | None) -> list[Effect]:
    out: list[Effect] = []
    try:
        if body.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            answer = _leave(group, out, body, now)
        else:
            answer = _heartbeat(group, out, body, client, now, matched)
    except Fault as fault:
        out = []
        answer = Response(error_code=fault.code, error_message=fault.message)
    out.append(Reply(to, answer))
    return out


def _heartbeat(
    group: ConsumerGroup, out: list[Effect], body: Body, client: Client, now: int, matched: Matched | None
) -> Response:
    settings = group.world.settings(group.id)
    group.check_room(body.member_id, settings.max_size)
    reported = None if body.topic_partitions is None else _reported(body.topic_partitions)
    known = _known(group, body, reported)
    had = _partitions(known.assigned) if known is not None else None
    profile = _updated(known.profile if known is not None else Profile(), body, client)
    is_new_pattern = _match(group, profile.regex, matched)
    member, has_changed = group.settle(out, known, body.member_id, profile, rejoins=body.member_epoch == JOINING)
    if is_new_pattern:
        out.append(group.pattern_record(profile.regex))
    if has_changed or not group.epoch:
        group.raise_epoch(out)
    group.assign_if_due(out)
    group.reconcile(out, member, reported, now, has_changed=has_changed)
    out.append(Timer(("session", member.id), now + settings.session_timeout_ms))
    answer = Response(
        member_id=member.id, member_epoch=member.epoch, heartbeat_interval_ms=_next_heartbeat(group, member, settings)
    )
    is_full = (
        body.rebalance_timeout_ms != NO_TIMEOUT
        and (body.subscribed_topic_names is not None or body.subscribed_topic_regex is not None)
        and reported is not None
    )
    if body.member_epoch == JOINING or is_full or had != _partitions(member.assigned):
        answer.assignment = Response.Assignment(
            topic_partitions=[
                Response.TopicPartitions(topic_id=topic, partitions=list(partitions))
                for topic, partitions in member.assigned.items()
            ]
        )
    return answer


def _next_heartbeat(group: ConsumerGroup, member: Member, settings: Settings) -> int:
    """When the member is to come again: sooner, if it is kept waiting."""
    interval = settings.heartbeat_interval_ms
    if group.target_epoch < group.epoch:
        due = group.assigned_at + settings.assignment_interval_ms - group.world.now_ms()
        return min(interval, max(due, 1))
    return min(interval, SOON_MS) if member.state is WAITING else interval


def _known(group: ConsumerGroup, body: Body, reported: Reported | None) -> Member | None:
    """The member that speaks, or whose place it takes; None for a new one."""
    joins = body.member_epoch == JOINING
    if body.instance_id is not None and not joins:
        known: Member | None = group.check_instance(body.member_id, body.instance_id)
    elif body.instance_id is not None and body.instance_id in group.static:
        known = group.members[group.static[body.instance_id]]
        # The same member may join again: the answer to its first try was lost, or it has been fenced.
        if known.id != body.member_id and known.profile.classic is None and known.epoch != LEAVING_FOR_A_WHILE:
            raise Fault(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {body.member_id} with instance id {body.instance_id} cannot join the group because "
                f"the instance id is owned by {known.id} member.",
            )
    else:
        known = group.members.get(body.member_id)
        if known is None and not joins:
            raise group.unknown(body.member_id)
    if known is not None and not joins:
        _check_epoch(known, body.member_epoch, reported)
    return known


def _match(group: ConsumerGroup, pattern: str, matched: Matched | None) -> bool:
    """Match a pattern that is new to the group; returns whether it is."""
    if not pattern or pattern in group.subscriptions.topics_of_pattern:
        return False
    try:
        group.subscriptions.match(pattern, group.world.image.topics, matched)
    except IllegalPattern as error:
        raise Fault(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from None
    return True


def _leave(group: ConsumerGroup, out: list[Effect], body: Body, now: int) -> Response:
    if body.instance_id is None:
        member = group.members.get(body.member_id)
        if member is None:
            raise group.unknown(body.member_id)
    else:
        member = group.check_instance(body.member_id, body.instance_id)
    if body.instance_id is not None and body.member_epoch == LEAVING_FOR_A_WHILE:
        log.info("group %s: static member %s leaves for a while", group.id, member.id)
        group.own(member, member.assigned, {})
        member.epoch = LEAVING_FOR_A_WHILE
        group.revokes_no_more(out, member)
        out.append(records.member_state_record(group.id, member))
    else:
        log.info("group %s: %s leaves", group.id, member.id)
        group.fence(out, [member], now)
    return Response(member_id=member.id, member_epoch=body.member_epoch)


def _updated(profile: Profile, body: Body, client: Client) -> Profile:
    """Only what a heartbeat names changes."""
    return Profile(
        profile.instance_id if body.instance_id is None else body.instance_id,
        profile.rack_id if body.rack_id is None else body.rack_id,
        client.id,
        client.host,
        profile.topics if body.subscribed_topic_names is None else frozenset(body.subscribed_topic_names),
        profile.regex if body.subscribed_topic_regex is None else body.subscribed_topic_regex,
        profile.rebalance_timeout_ms if body.rebalance_timeout_ms == NO_TIMEOUT else body.rebalance_timeout_ms,
        profile.assignor if body.server_assignor is None else body.server_assignor,
    )


def _check_epoch(member: Member, epoch: int, reported: Reported | None) -> None:
    if epoch == member.epoch:
        return
    is_retry = (
        epoch == member.previous_epoch
        and reported is not None
        and all(
            partition in member.assigned.get(topic, ())
            for topic, partitions in reported.items()
            for partition in partitions
        )
    )
    if epoch > member.epoch or not is_retry:
        raise Fault(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch "
            f"({epoch}) than the one known by the group coordinator ({member.epoch}). The member must abandon all its "
            "partitions and rejoin.",
        )


def _reported(listed: Iterable[Body.TopicPartitions]) -> Reported:
    found: dict[bytes, set[int]] = {}
    for one in listed:
        found.setdefault(bytes(one.topic_id), set()).update(one.partitions)
    return found


def _partitions(owned: Owned) -> dict[bytes, set[int]]:
    return {topic: set(partitions) for topic, partitions in owned.items() if partitions}
