"""Which brokers hold the replicas of a new topic's partitions.

Goals (A1 T-17): replicas spread evenly over brokers, replicas of one partition on different brokers, and on different
racks as long as there are racks left. The first replica is the preferred leader.

The walk (A1 T-18, T-19, EX-22): brokers stand in a ring. Leaders go round the ring from a random start; followers are
the next brokers after the leader that are not yet used and, while an unused rack exists, not on a used rack. Where
every broker has a rack, the ring takes one broker of each rack in turn:

    racks {0,1,2} and {3,4,5}   ring 0 3 1 4 2 5   a partition led by 4 has its first follower on 2

The first round of leaders goes by distance alone (6 brokers, 3 replicas, start 4: 4,5,0 then 5,0,1). Later rounds look
one broker further each time, so that a leader does not always have the same followers. A last round that is not full is
evened out by moving followers (10 partitions of 3 replicas on 6 brokers are 5 on each); with racks, which bind the
choice, later rounds prefer the followers with the fewest replicas instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


class ImpossibleReplication(Exception):
    """More replicas were asked for than there are brokers."""


class BadAssignment(Exception):
    """A hand-made assignment breaks a rule."""


def place(partitions: int, replicas: int, brokers: Mapping[int, str | None], start: int) -> list[list[int]]:
    """Replicas of each partition. `brokers` maps ids to racks; `start` is the first leader's position on the ring."""
    if replicas > len(brokers):
        raise ImpossibleReplication(f"{replicas} replicas need {replicas} brokers, and there are {len(brokers)}")
    ring, racks = _ring(brokers)
    if replicas == 1:
        return [[ring[(start + index) % len(ring)]] for index in range(partitions)]
    size = len(ring)
    load = dict.fromkeys(ring, 0)
    placed = []
    for index in range(partitions):
        here = (start + index) % size
        others = ring[here + 1 :] + ring[:here]
        if index >= size:
            shift = index // size % len(others)
            others = others[shift:] + others[:shift]
            if racks:
                others.sort(key=load.__getitem__)  # stable: ties go by distance
        placed.append([ring[here], *_followers(ring[here], others, replicas - 1, racks)])
        for broker in placed[-1]:
            load[broker] += 1
    if not racks and partitions > size and partitions % size:
        _even_out(placed[-(partitions % size) :], ring)
    return placed


def _even_out(placed: list[list[int]], brokers: list[int]) -> None:
    """Move followers from the fullest broker to the emptiest until no two differ by more than one.

    There is always one to move: of two brokers, the fuller one by two or more also follows in a partition of which the
    other has no replica, since leaders are spread evenly.
    """
    load = dict.fromkeys(brokers, 0)
    for replicas in placed:
        for broker in replicas:
            load[broker] += 1
    while True:
        emptiest, fullest = min(brokers, key=load.__getitem__), max(brokers, key=load.__getitem__)
        if load[fullest] - load[emptiest] <= 1:
            return
        movable = next(replicas for replicas in placed if fullest in replicas[1:] and emptiest not in replicas)
        movable[movable.index(fullest)] = emptiest
        load[fullest] -= 1
        load[emptiest] += 1


def _ring(brokers: Mapping[int, str | None]) -> tuple[list[int], dict[int, str]]:
    """The order of the walk, and the rack of each broker if all have one (else none counts)."""
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    if len(racks) < len(brokers):
        return sorted(brokers), {}
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    ring = []
    for turn in range(max(map(len, by_rack.values()), default=0)):
        ring += [members[turn] for _, members in sorted(by_rack.items()) if turn < len(members)]
    return ring, racks


def _followers(leader: int, others: list[int], count: int, racks: Mapping[int, str]) -> list[int]:
    """The first of the others, those on racks of their own before the rest."""
    if not racks:
        return others[:count]
    used = {racks[leader]}
    apart, rest = [], []
    for broker in others:
        if racks[broker] in used:
            rest.append(broker)
        else:
            used.add(racks[broker])
            apart.append(broker)
    return (apart + rest)[:count]


def check_assignment(
    assignment: Sequence[tuple[int, Sequence[int]]], brokers: Mapping[int, str | None]
) -> list[list[int]]:
    """Replicas by partition number from a hand-made assignment (partition, brokers), or BadAssignment."""
    by_partition: dict[int, list[int]] = {}
    for partition, replicas in assignment:
        if partition in by_partition:
            raise BadAssignment(f"partition {partition} is assigned twice")
        check_replicas(partition, replicas, brokers)
        by_partition[partition] = list(replicas)
    sizes = {len(replicas) for replicas in by_partition.values()}
    if len(sizes) > 1:
        raise BadAssignment(f"partitions have different numbers of replicas: {sorted(sizes)}")
    if sorted(by_partition) != list(range(len(by_partition))):
        raise BadAssignment(f"partitions must be numbered from 0 without gaps: {sorted(by_partition)}")
    return [by_partition[index] for index in range(len(by_partition))]


def check_replicas(partition: int, replicas: Sequence[int], brokers: Collection[int]) -> None:
    """Whether these brokers can hold one partition; BadAssignment if not."""
    if not replicas:
        raise BadAssignment(f"partition {partition} is assigned to no broker")
    if len(set(replicas)) < len(replicas):
        raise BadAssignment(f"partition {partition} names a broker twice: {list(replicas)}")
    for broker in replicas:
        if broker not in brokers:
            raise BadAssignment(f"partition {partition} is assigned to broker {broker}, which is not there")
