"""Consumer groups read back from __consumer_offsets. Records may come in any order; a group is there with its first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.groups.consumer import records
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.members import Member
from ottla.groups.records import kind_of

if TYPE_CHECKING:
    from ottla.groups.shard import Shard


def restore(shard: Shard, key: bytes, value: bytes) -> None:
    group_id, name = records.read_key(key)
    group = shard.find_or_create(group_id)
    if not isinstance(group.core, ConsumerGroup):
        group.core = ConsumerGroup(group_id, shard.world)
    take(group.core, kind_of(key), name, value)


def take(core: ConsumerGroup, kind: int, name: str, value: bytes) -> None:
    """Take a record in. `name`: the member or the pattern that it is about."""
    if kind == records.GROUP:
        core.epoch, core.metadata_hash = records.read_group(value)
    elif kind == records.TOPICS:
        core.has_topics_record = True
    elif kind == records.TARGET:
        core.target_epoch, core.assigned_at = records.read_target(value)
    elif kind == records.MEMBER_TARGET:
        core.targets[name] = records.read_member_target(value)
    elif kind == records.PATTERN:
        core.subscriptions.topics_of_pattern[name] = records.read_pattern(value)
    else:
        member = core.members.get(name)
        if member is None:
            member = core.members[name] = Member(name)
        if kind == records.MEMBER:
            core.introduce(member, records.read_member(value))
        else:
            read = Member(name)
            records.read_member_state(value, read)
            member.epoch, member.previous_epoch, member.state = read.epoch, read.previous_epoch, read.state
            core.own(member, read.assigned, read.revoking)
