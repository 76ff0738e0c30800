"""Members of the classic protocol in a consumer group: their requests, put into the group's own terms (KIP-848).

A member's epoch is its generation. JoinGroup is answered at once, with no members to assign to: it is a step of
reconciliation, like a heartbeat that says what the client has. SyncGroup brings the assignment. Heartbeat tells the
member to join again, REBALANCE_IN_PROGRESS, when there is something for it to do: it is behind the group, it must give
up partitions, or those that it waits for are free. It has its rebalance timeout for that.

So these members should be such as rebalance cooperatively; eager ones give up everything before they join, and work.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.groups.classic.requests import BATCHED_LEAVES, ID_REQUIRED, Client, join_error, rebalance_timeout
from ottla.groups.consumer import embedded, migration
from ottla.groups.consumer.assignors import NOTHING
from ottla.groups.consumer.faults import Fault
from ottla.groups.consumer.members import REVOKING, WAITING, Classic, Member, Profile
from ottla.groups.effects import Effect, Reply, Timer
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.groups.consumer.group import ConsumerGroup

log = logging.getLogger(__name__)


def join(
    group: ConsumerGroup, body: messages.JoinGroupRequest, client: Client, to: Any, now: int, new_id: str
) -> list[Effect]:
    out: list[Effect] = []
    try:
        answer = _join(group, out, body, client, now, new_id)
    except Fault as fault:
        log.info("group %s: %s cannot join: %s", group.id, body.member_id or client.id, fault.message)
        out, answer = [], join_error(fault.code, body.member_id, client.version)
    out.append(Reply(to, answer))
    return out


def _join(
    group: ConsumerGroup, out: list[Effect], body: messages.JoinGroupRequest, client: Client, now: int, new_id: str
) -> messages.JoinGroupResponse:
    settings = group.world.settings(group.id)
    if not (settings.may_upgrade or settings.may_downgrade):
        raise Fault(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "migration of groups is switched off")
    instance, is_unnamed = body.group_instance_id, not body.member_id
    member_id = body.member_id or f"{instance or client.id}-{new_id}"
    group.check_room(member_id, settings.max_size)
    protocols = tuple((one.name, bytes(one.metadata)) for one in body.protocols)
    if body.protocol_type != group.protocol_type or not _supports(group, [name for name, _ in protocols]):
        raise Fault(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {body.member_id}'s protocols are not supported.")
    subscription = embedded.read_subscription(protocols[0][1])
    if subscription is None:
        raise Fault(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the subscription cannot be read")
    if is_unnamed and instance is None and client.version >= ID_REQUIRED:
        return join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, client.version)
    if instance is None:
        known = group.members.get(member_id)
    elif is_unnamed:
        known = group.members.get(group.static.get(instance, ""))
    else:
        known = group.check_instance(member_id, instance)
    profile = Profile(
        instance,
        subscription.rack_id or (known.profile.rack_id if known is not None else None),
        client.id,
        client.host,
        frozenset(subscription.topics),
        rebalance_timeout_ms=rebalance_timeout(body, client.version),
        assignor=known.profile.assignor if known is not None else None,
        classic=Classic(body.session_timeout_ms, protocols),
    )
    member, has_changed = group.settle(out, known, member_id, profile, rejoins=is_unnamed)
    if has_changed:
        group.raise_epoch(out)
    # It would come again at once, and until there is a target: so that is not put off.
    group.assign_if_due(out, at_once=True)
    reported = embedded.by_id(subscription.owned_partitions, group.world.image)
    group.reconcile(out, member, reported, now, has_changed=has_changed)
    member.must_join, member.timed_epoch = False, None
    out += [
        Timer(("revoke", member.id), None),
        Timer(("join", member.id), None),
        Timer(("session", member.id), now + body.session_timeout_ms),
        Timer(("sync", member.id), now + profile.rebalance_timeout_ms),
    ]
    answer = messages.JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=group.protocol_type,
        protocol_name=protocols[0][0],
        member_id=member.id,
    )
    if migration.may_downgrade(group, ()):
        answer.generation_id = group.epoch
        out += migration.downgrade(group, (), now, rebalances=has_changed)
    return answer


def _supports(group: ConsumerGroup, names: Sequence[str]) -> bool:
    """Whether one of the protocols is known to all classic members."""
    return any(group.classic_protocols[name] == group.classic_count for name in names)


def sync(group: ConsumerGroup, body: messages.SyncGroupRequest, to: Any, now: int) -> list[Effect]:
    out: list[Effect] = []
    try:
        member, classic = _classic_member(group, body.member_id, body.group_instance_id, body.generation_id)
        name, metadata = classic.protocols[0]
        if body.protocol_type not in (None, group.protocol_type) or body.protocol_name not in (None, name):
            raise Fault(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "that is not the protocol that JoinGroup told")
        if group.epoch > member.epoch and member.state is not REVOKING:
            _have_it_join(out, member, now)
            answer = messages.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        else:
            out += [
                Timer(("sync", member.id), None),
                Timer(("session", member.id), now + classic.session_timeout_ms),
            ]
            assignment = embedded.write_assignment(member.assigned, metadata, group.world.image)
            answer = messages.SyncGroupResponse(
                protocol_type=body.protocol_type, protocol_name=body.protocol_name, assignment=assignment
            )
    except Fault as fault:
        out, answer = [], messages.SyncGroupResponse(error_code=fault.code)
    out.append(Reply(to, answer))
    return out


def heartbeat(group: ConsumerGroup, body: messages.HeartbeatRequest, to: Any, now: int) -> list[Effect]:
    out: list[Effect] = []
    try:
        member, classic = _classic_member(group, body.member_id, body.group_instance_id, body.generation_id)
    except Fault as fault:
        return [Reply(to, messages.HeartbeatResponse(error_code=fault.code))]
    out.append(Timer(("session", member.id), now + classic.session_timeout_ms))
    code = ErrorCode.NONE
    if (
        member.epoch < group.epoch
        or member.state is REVOKING
        or (member.state is WAITING and not _waits_for_others(group, member))
    ):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        _have_it_join(out, member, now)
    out.append(Reply(to, messages.HeartbeatResponse(error_code=code)))
    return out


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    return any(
        partition not in member.assigned.get(topic, ()) and group.owner(topic, partition) is not None
        for topic, partitions in group.targets.get(member.id, NOTHING).items()
        for partition in partitions
    )


def _have_it_join(out: list[Effect], member: Member, now: int) -> None:
    if not member.must_join:
        member.must_join = True
        out.append(Timer(("join", member.id), now + member.profile.rebalance_timeout_ms))


def leave(
    group: ConsumerGroup,
    leaving: Sequence[messages.LeaveGroupRequest.Member],
    to: Any,
    now: int,
    version: int,
) -> list[Effect]:
    out: list[Effect] = []
    gone: dict[str, Member] = {}
    answers = []
    for one in leaving:
        code = ErrorCode.NONE
        member_id = one.member_id
        try:
            if one.group_instance_id is None:
                member = group.members.get(member_id)
                if member is None:
                    raise group.unknown(member_id)
            else:
                # An administrator names the instance alone.
                member_id = one.member_id or group.static.get(one.group_instance_id, "")
                member = group.check_instance(member_id, one.group_instance_id)
            if member.profile.classic is None or member.id in gone:
                raise group.unknown(member_id)
            log.info("group %s: %s leaves: %s", group.id, member.id, one.reason or "no reason given")
            gone[member.id] = member
        except Fault as fault:
            code = fault.code
        answers.append(
            messages.LeaveGroupResponse.Member(
                member_id=member_id, group_instance_id=one.group_instance_id, error_code=code
            )
        )
    if gone:
        group.fence(out, list(gone.values()), now)
    answer = messages.LeaveGroupResponse(members=answers)
    if version < BATCHED_LEAVES:
        answer.error_code = answers[0].error_code
    out.append(Reply(to, answer))
    return out


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[Member, Classic]:
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise group.unknown(member_id)
    else:
        member = group.check_instance(member_id, instance_id)
    if member.profile.classic is None:
        raise Fault(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if member.epoch != generation:
        raise Fault(ErrorCode.ILLEGAL_GENERATION, f"the member's epoch is {member.epoch}")
    return member, member.profile.classic
