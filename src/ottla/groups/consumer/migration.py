"""A group moves between the classic and the consumer protocol while its members work (KIP-848).

Upgrade: the first member of the new protocol joins a classic group of consumers. Its members go on in the consumer
group, with what they have; who waits for a rebalance is told to join again.

Downgrade: the last member of the new protocol is gone, and there are classic ones. They go on in a classic group, and
rebalance.

group.consumer.migration.policy says which of these may happen. The offsets stay where they are.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.groups.classic import members as classic_form
from ottla.groups.consumer import embedded, records
from ottla.groups.consumer.assignors import NOTHING
from ottla.groups.consumer.faults import Fault
from ottla.groups.consumer.members import Classic, Member, Owned, Profile
from ottla.groups.effects import Become, Effect
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.groups.classic.group import ClassicGroup
    from ottla.groups.consumer.group import ConsumerGroup

log = logging.getLogger(__name__)


def check_upgrade(classic: ClassicGroup, group: ConsumerGroup) -> None:
    """Fault where a classic group with members cannot become a consumer group."""
    settings = group.world.settings(group.id)
    if not settings.may_upgrade:
        why = "online upgrade is disabled"
    elif classic.protocol_type != group.protocol_type:
        why = "the group does not use the consumer embedded protocol"
    elif len(classic.members) > settings.max_size:
        why = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise _refused(group.id, why)


def _refused(group_id: str, why: str) -> Fault:
    return Fault(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group_id} to consumer group because {why}."
    )


def upgrade(classic: ClassicGroup, group: ConsumerGroup, now: int) -> list[Effect]:
    """Fill a new consumer group with the members of a classic one; returns what makes it take that one's place."""
    group.epoch = group.target_epoch = classic.generation
    for one in classic.members:
        group.members[one.id] = member = Member(one.id, epoch=classic.generation, previous_epoch=classic.generation)
        subscription = embedded.read_subscription(one.metadata(classic.protocol) or one.protocols[0][1])
        assigned = embedded.read_assignment(one.assignment) if one.assignment else None
        if subscription is None or (assigned is None and one.assignment):
            raise _refused(group.id, "the embedded consumer protocol is malformed")
        if assigned is not None and assigned.user_data:
            raise _refused(
                group.id,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        profile = Profile(
            one.instance_id,
            subscription.rack_id,
            one.client_id,
            one.client_host,
            frozenset(subscription.topics),
            rebalance_timeout_ms=one.rebalance_timeout_ms,
            classic=Classic(one.session_timeout_ms, tuple(one.protocols)),
        )
        group.introduce(member, profile)
        has = embedded.by_id(assigned.assigned_partitions, group.world.image) if assigned is not None else {}
        # A classic leader may have given a partition to two; the first one keeps it.
        mine: Owned = {}
        for topic, indexes in has.items():
            free = {index: member.epoch for index in sorted(indexes) if group.owner(topic, index) is None}
            if free:
                mine[topic] = free
        group.own(member, mine, {})
        group.targets[member.id] = {topic: frozenset(indexes) for topic, indexes in mine.items()}
    log.info("group %s becomes a consumer group with %d members", group.id, len(group.members))
    out: list[Effect] = [*classic.dissolved(), *classic.tombstones(), Become(group)]
    out += [records.member_record(group.id, member) for member in group.members.values()]
    group.rehash()
    out.append(records.group_record(group.id, group.epoch, group.metadata_hash))
    out += [records.member_target_record(group.id, *target) for target in group.targets.items()]
    out.append(records.target_record(group.id, group.target_epoch, group.assigned_at))
    out += [records.member_state_record(group.id, member) for member in group.members.values()]
    return [*out, *group.sessions(now)]


def may_downgrade(group: ConsumerGroup, leaving: Collection[Member]) -> bool:
    """Whether the group is to be a classic one when these are gone."""
    count = len(group.members) - len(leaving)
    is_all_classic = group.classic_count - sum(member.profile.classic is not None for member in leaving) == count
    settings = group.world.settings(group.id)
    return bool(is_all_classic and count and settings.may_downgrade and count <= settings.classic_max_size)


def downgrade(group: ConsumerGroup, leaving: Collection[Member], now: int, *, rebalances: bool) -> list[Effect]:
    out: list[Effect] = [timer for member in group.members.values() for timer in group.timers_off(member)]
    out += group.tombstones()
    classic = group.world.classic_group(group.id)
    gone = {member.id for member in leaving}
    members = []
    for member in group.members.values():
        profile = member.profile
        if member.id in gone or profile.classic is None:
            continue
        target = group.targets.get(member.id, NOTHING)
        members.append(
            classic_form.Member(
                id=member.id,
                instance_id=profile.instance_id,
                client_id=profile.client_id,
                client_host=profile.client_host,
                session_timeout_ms=profile.classic.session_timeout_ms,
                rebalance_timeout_ms=profile.rebalance_timeout_ms,
                protocols=list(profile.classic.protocols),
                assignment=embedded.write_assignment(target, profile.classic.protocols[0][1], group.world.image),
            )
        )
    log.info("group %s becomes a classic group with %d members", group.id, len(members))
    return [*out, Become(classic), *classic.adopt(group.epoch, members, now, rebalances=rebalances)]


def not_a_consumer_group(group_id: str) -> Fault:
    return Fault(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def error_response(fault: Fault) -> messages.ConsumerGroupHeartbeatResponse:
    return messages.ConsumerGroupHeartbeatResponse(error_code=fault.code, error_message=fault.message)
