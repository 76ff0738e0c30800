"""What becomes of requests to elect leaders (ElectLeaders): decisions only, no I/O.

    preferred   the first replica is to lead (A3 P1), if it is in sync and can be used
    unclean     a partition without a leader gets one: the first replica in sync that can be used, else any that can,
                which loses what only the others had (KIP-460)

A leader whose broker or disk is gone counts as none. Refused are: unknown partitions (UNKNOWN_TOPIC_OR_PARTITION), and
those that need no election (ELECTION_NOT_NEEDED), or for which nobody stands (PREFERRED_LEADER_NOT_AVAILABLE,
ELIGIBLE_LEADERS_NOT_AVAILABLE).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from ottla.controller.image import ClusterImage, PartitionImage
from ottla.protocol.errors import ErrorCode

Usable = Callable[[str, int, int], bool]  # topic, partition, broker: whether its replica there can be used


class ElectionKind(IntEnum):
    """With the numbers of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionResult(NamedTuple):
    """`image` is the partition with its new leader; None if there is no change."""

    topic: str
    partition: int
    error_code: ErrorCode
    message: str | None = None
    image: PartitionImage | None = None


def plan_election(topic: str, index: int, kind: ElectionKind, image: ClusterImage, usable: Usable) -> ElectionResult:
    known = image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        what = f"there is no topic {topic!r}" if known is None else f"topic {topic!r} has no partition {index}"
        return ElectionResult(topic, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
    partition = known.partitions[index]
    has_leader = usable(topic, index, partition.leader)
    if kind is ElectionKind.PREFERRED:
        return _elect_preferred(topic, index, partition, has_leader, usable)
    if has_leader:
        return _refused(topic, index, ErrorCode.ELECTION_NOT_NEEDED)
    for broker in (*(one for one in partition.replicas if one in partition.isr), *partition.replicas):
        if usable(topic, index, broker):
            return ElectionResult(topic, index, ErrorCode.NONE, None, _led_by(broker, partition))
    return _refused(topic, index, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def _elect_preferred(
    topic: str, index: int, partition: PartitionImage, has_leader: bool, usable: Usable
) -> ElectionResult:
    preferred = partition.replicas[0]
    if has_leader and partition.leader == preferred:
        return _refused(topic, index, ErrorCode.ELECTION_NOT_NEEDED)
    if preferred in partition.isr and usable(topic, index, preferred):
        return ElectionResult(topic, index, ErrorCode.NONE, None, _led_by(preferred, partition))
    return _refused(topic, index, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


def _led_by(broker: int, partition: PartitionImage) -> PartitionImage:
    isr = partition.isr if broker in partition.isr else [broker]
    return partition._replace(leader=broker, leader_epoch=partition.leader_epoch + 1, isr=isr)


def _refused(topic: str, index: int, code: ErrorCode) -> ElectionResult:
    return ElectionResult(topic, index, code, code.message)
