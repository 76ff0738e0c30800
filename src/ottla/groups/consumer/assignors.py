"""Who gets which partitions: the assignors that run on the broker. Pure functions.

    uniform   all members get the same number of partitions, give or take one; where their subscriptions differ, as near
              to that as moving single partitions comes. Sticky: only what must move does.
    range     each topic is cut into as many ranges as it has subscribers, the first of which are one longer where that
              does not come out even. Topics with the same subscribers and number of partitions are cut alike, so they
              can be joined. Static members come first, by their instance ids: a restart does not change their turn.

Both give every partition to exactly one subscriber of its topic. Racks play no part, as in Apache Kafka 4.3.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, cycle
from typing import NamedTuple

Assignment = dict[bytes, frozenset[int]]  # topic id -> partitions

NOTHING: Assignment = {}


class Subscriber(NamedTuple):
    """A member: topics that it reads (of those that exist), and partitions that it is to have so far."""

    id: str
    instance_id: str | None
    topics: frozenset[bytes]
    held: Mapping[bytes, Collection[int]]


def assign_range(members: Sequence[Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    """`partitions`: how many each topic has."""
    found: dict[str, Assignment] = {member.id: {} for member in members}
    readers: dict[bytes, list[str]] = {topic: [] for topic in partitions}
    for member in sorted(members, key=_static_first):
        for topic in member.topics:
            readers[topic].append(member.id)
    for topic, ids in readers.items():
        if not ids:
            continue
        each, longer = divmod(partitions[topic], len(ids))
        start = 0
        for at, member_id in enumerate(ids[: partitions[topic]]):
            end = start + each + (at < longer)
            found[member_id][topic] = frozenset(range(start, end))
            start = end
    return found


def _static_first(member: Subscriber) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member.id


def assign_uniform(members: Sequence[Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    if not members:
        return {}
    members = sorted(members, key=_static_first)
    first = members[0].topics
    if all(member.topics is first or member.topics == first for member in members):
        return _share_equally(members, {topic: count for topic, count in partitions.items() if topic in first})
    return _balance(members, partitions)


ASSIGNORS: dict[str, Callable[[Sequence[Subscriber], Mapping[bytes, int]], dict[str, Assignment]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}


# -- all read the same topics


def _share_equally(members: Sequence[Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    each, extra = divmod(sum(partitions.values()), len(members))
    held = {member.id: _kept(member, partitions) for member in members}
    # One more than the others may have is kept by those who have it already, so that nothing moves for that.
    room: dict[str, int] = {}
    for member in members:
        quota = each
        if extra and len(held[member.id]) > each:
            quota, extra = each + 1, extra - 1
        room[member.id] = quota
    free = _unheld(held.values(), partitions)
    for member in members:
        mine = held[member.id]
        free += mine[room[member.id] :]
        del mine[room[member.id] :]
    hungry = []
    for member in members:
        mine = held[member.id]
        if extra and room[member.id] == each:
            room[member.id], extra = each + 1, extra - 1
        if len(mine) < room[member.id]:
            hungry.append(member.id)
    # Dealt out in turn, so that the partitions of one topic are spread.
    turn = cycle(hungry)
    for partition in free:
        while len(held[member_id := next(turn)]) >= room[member_id]:
            pass
        held[member_id].append(partition)
    return {member.id: _by_topic(held[member.id]) for member in members}


def _kept(member: Subscriber, partitions: Mapping[bytes, int]) -> list[tuple[bytes, int]]:
    """What a member holds and may go on holding."""
    return [
        (topic, index)
        for topic, held in member.held.items()
        if topic in member.topics and topic in partitions
        for index in sorted(held)
        if index < partitions[topic]
    ]


def _unheld(held: Collection[list[tuple[bytes, int]]], partitions: Mapping[bytes, int]) -> list[tuple[bytes, int]]:
    taken = set(chain.from_iterable(held))
    return [
        (topic, index) for topic, count in partitions.items() for index in range(count) if (topic, index) not in taken
    ]


def _by_topic(partitions: Collection[tuple[bytes, int]]) -> Assignment:
    found: dict[bytes, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return {topic: frozenset(indexes) for topic, indexes in found.items()}


# -- their topics differ


def _balance(members: Sequence[Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Give out what nobody holds to those who have least, then move single partitions while that makes it more even."""
    readers: dict[bytes, list[str]] = {}
    for member in members:
        for topic in member.topics:
            readers.setdefault(topic, []).append(member.id)
    kept = {member.id: _kept(member, partitions) for member in members}
    load = {member_id: len(mine) for member_id, mine in kept.items()}
    holders: dict[bytes, dict[str, list[int]]] = {topic: {} for topic in readers}
    for member_id, mine in kept.items():
        for topic, index in mine:
            holders[topic].setdefault(member_id, []).append(index)
    free: dict[bytes, list[int]] = {}
    for topic, index in _unheld(kept.values(), {topic: partitions[topic] for topic in readers}):
        free.setdefault(topic, []).append(index)
    # Topics that few read come first: there is less choice for them.
    order = sorted(readers, key=lambda topic: (len(readers[topic]), topic))
    for topic in order:
        if topic in free:
            _hand_out(free[topic], readers[topic], holders[topic], load)
    while sum(_even_out(readers[topic], holders[topic], load) for topic in order):
        pass
    found: dict[str, Assignment] = {member.id: {} for member in members}
    for topic, by_member in holders.items():
        for member_id, indexes in by_member.items():
            if indexes:
                found[member_id][topic] = frozenset(indexes)
    return found


def _hand_out(free: list[int], readers: list[str], holders: dict[str, list[int]], load: dict[str, int]) -> None:
    if len(free) == 1:
        taker = min(readers, key=load.__getitem__)
        holders.setdefault(taker, []).append(free[0])
        load[taker] += 1
        return
    least = [(load[member_id], at) for at, member_id in enumerate(readers)]
    heapq.heapify(least)
    for index in free:
        count, at = least[0]
        holders.setdefault(readers[at], []).append(index)
        load[readers[at]] = count + 1
        heapq.heapreplace(least, (count + 1, at))


def _even_out(readers: list[str], holders: dict[str, list[int]], load: dict[str, int]) -> bool:
    """Move partitions of one topic from who has most to who has least, while these differ by more than one."""
    if max((load[member_id] for member_id, indexes in holders.items() if indexes), default=0) < 2 + min(
        map(load.__getitem__, readers)
    ):
        return False
    least = [(load[member_id], at) for at, member_id in enumerate(readers)]
    heapq.heapify(least)
    most = [(-load[member_id], member_id) for member_id, indexes in holders.items() if indexes]
    heapq.heapify(most)
    moved = False
    while most:
        count, giver = most[0]
        if -count != load[giver] or not holders[giver]:
            heapq.heappop(most)
            continue
        while least[0][0] != load[readers[least[0][1]]]:
            at = least[0][1]
            heapq.heapreplace(least, (load[readers[at]], at))
        fewest, at = least[0]
        if -count - fewest <= 1:
            break
        taker = readers[at]
        holders.setdefault(taker, []).append(holders[giver].pop())
        load[giver] -= 1
        load[taker] += 1
        heapq.heapreplace(most, (-load[giver], giver))
        heapq.heapreplace(least, (load[taker], at))
        moved = True
    return moved
