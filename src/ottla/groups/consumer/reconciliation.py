"""One step of a member from what it has towards what it is to have (KIP-848). Pure.

    keeps     what it has and is to have
    gives up  what it has and is not to have; while its client says, or may, still have such, it stays at its epoch and
              nobody else gets them: REVOKING
    gets      what it is to have and nobody has; with these it is at the epoch of the target
    waits     for what it is to have and somebody else has: WAITING; otherwise STABLE

What a member does not read (any more) is not for it, whatever its target says: the target may be older than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ottla.groups.consumer.assignors import Assignment
from ottla.groups.consumer.members import REVOKING, STABLE, WAITING, Member, Owned, State

Reported = Mapping[bytes, Collection[int]]  # topic id -> partitions that a client says it has


class Step(NamedTuple):
    state: State
    epoch: int
    assigned: Owned
    revoking: Owned


def next_step(
    member: Member,
    target: Assignment,
    target_epoch: int,
    topics: Collection[bytes],
    reported: Reported | None,
    owner: Callable[[bytes, int], str | None],
    *,
    has_changed: bool,
) -> Step | None:
    """None where nothing is to be done.

    `topics`: those that it reads. `reported`: what its client has, None if it did not say. `has_changed`: it reads
    other topics than before, so it must give up some even if it is at the epoch of the target.
    """
    if member.state is STABLE and member.epoch == target_epoch:
        return _drop_unread(member, topics, reported) if has_changed else None
    if member.state is REVOKING and _has_any(reported, member.revoking):
        return _drop_unread(member, topics, reported) if has_changed else None
    return _towards(member, target, target_epoch, topics, reported, owner)


def _has_any(reported: Reported | None, owned: Owned) -> bool:
    """Whether the client has any of these, for all that is known."""
    if reported is None:
        return True
    return any(partition in owned.get(topic, ()) for topic, partitions in reported.items() for partition in partitions)


def _drop_unread(member: Member, topics: Collection[bytes], reported: Reported | None) -> Step | None:
    unread = [topic for topic in member.assigned if topic not in topics]
    if not unread:
        return None
    assigned = {topic: partitions for topic, partitions in member.assigned.items() if topic in topics}
    revoking = dict(member.revoking)
    for topic in unread:
        revoking[topic] = {**revoking.get(topic, {}), **member.assigned[topic]}
    if _has_any(reported, revoking):
        return Step(REVOKING, member.epoch, assigned, revoking)
    return Step(member.state, member.epoch, assigned, member.revoking)


def _towards(
    member: Member,
    target: Assignment,
    target_epoch: int,
    topics: Collection[bytes],
    reported: Reported | None,
    owner: Callable[[bytes, int], str | None],
) -> Step:
    assigned: Owned = {}
    revoking: Owned = {}
    gained: list[tuple[bytes, int]] = []
    waits = False
    for topic in [*target, *(topic for topic in member.assigned if topic not in target)]:
        wanted = target.get(topic, frozenset()) if topic in topics else frozenset()
        has = member.assigned.get(topic, {})
        keeps = {partition: epoch for partition, epoch in has.items() if partition in wanted}
        if keeps:
            assigned[topic] = keeps
        if len(keeps) < len(has):
            revoking[topic] = {partition: epoch for partition, epoch in has.items() if partition not in wanted}
        for partition in wanted:
            if partition not in keeps:
                if owner(topic, partition) in (None, member.id):
                    gained.append((topic, partition))
                else:
                    waits = True
    if revoking and _has_any(reported, revoking):
        return Step(REVOKING, member.epoch, assigned, revoking)
    for topic, partition in sorted(gained):
        assigned.setdefault(topic, {})[partition] = target_epoch
    return Step(WAITING if waits else STABLE, target_epoch, assigned, {})
