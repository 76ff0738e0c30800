"""What becomes of requests for more partitions (CreatePartitions): decisions only, no I/O.

Each topic gets its own result; one bad entry does not spoil the others. New partitions have as many replicas as the
topic's first one, placed by hand or by the walk of placement.py. In Kafka's order:

    a topic named twice                                            INVALID_REQUEST, once
    an unknown topic                                               UNKNOWN_TOPIC_OR_PARTITION
    one of the coordinators' own, whose number of partitions
    decides where groups and transactions are kept                 INVALID_TOPIC_EXCEPTION
    one with replicas on the move, or too many of them left by one REASSIGNMENT_IN_PROGRESS (A3 U6)
    a count that is not larger than the present one (A3 T16)       INVALID_PARTITIONS
    not as many assignments as new partitions, an unknown broker,
    one named twice, another number of replicas                    INVALID_REPLICA_ASSIGNMENT
    fewer brokers than replicas                                    INVALID_REPLICATION_FACTOR
    more than 10,000 new partitions in one request                 POLICY_VIOLATION
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.controller.image import ClusterImage, PartitionImage, TopicImage
from ottla.controller.placement import BadAssignment, ImpossibleReplication, check_replicas, place
from ottla.controller.topics import MAX_PARTITIONS_PER_REQUEST, Refused, TopicResult
from ottla.protocol.errors import ErrorCode


class NewPartitions(NamedTuple):
    """`total` is how many the topic is to have in all; `assignments` the brokers of each new one, None: any."""

    name: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


def plan_growth(
    asked: Sequence[NewPartitions], image: ClusterImage, *, pick_start: Callable[[int], int]
) -> list[TopicResult]:
    """One result per name; the image in it is the topic with its new partitions."""
    by_name = {new.name: new for new in asked}
    times = Counter(new.name for new in asked)
    total = sum(_additional(new, image) for new in by_name.values())
    if total > MAX_PARTITIONS_PER_REQUEST:
        message = f"{total} new partitions in one request; at most {MAX_PARTITIONS_PER_REQUEST} are allowed"
        return [TopicResult(name, ErrorCode.POLICY_VIOLATION, message) for name in by_name]
    results = []
    for new in by_name.values():
        try:
            if times[new.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"topic {new.name!r} is named {times[new.name]} times")
            grown = _grow(new, image, pick_start)
        except Refused as refused:
            results.append(TopicResult(new.name, refused.error_code, refused.message))
        else:
            results.append(TopicResult(new.name, ErrorCode.NONE, None, grown))
    return results


def _additional(new: NewPartitions, image: ClusterImage) -> int:
    topic = image.topics.get(new.name)
    return max(new.total - len(topic.partitions), 0) if topic is not None else 0


def _grow(new: NewPartitions, image: ClusterImage, pick_start: Callable[[int], int]) -> TopicImage:
    topic = image.topics.get(new.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {new.name!r}")
    if topic.internal:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the number of partitions of {new.name} decides where things are kept in it; it cannot change",
        )
    moving = [index for index, partition in enumerate(topic.partitions) if partition.moving]
    if moving:
        raise Refused(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"partition {moving[0]} of topic {new.name!r} is being reassigned"
        )
    present = len(topic.partitions)
    if new.total == present:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if new.total < present:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {new.name} currently has {present} partition(s); {new.total} would not be an increase.",
        )
    replicas = _replicas(new, new.total - present, len(topic.partitions[0].replicas), image, pick_start)
    added = [PartitionImage(brokers[0], 0, brokers, list(brokers)) for brokers in replicas]
    return topic._replace(partitions=[*topic.partitions, *added])


def _replicas(
    new: NewPartitions, additional: int, factor: int, image: ClusterImage, pick_start: Callable[[int], int]
) -> list[list[int]]:
    racks = {broker.id: broker.rack for broker in image.brokers.values()}
    if new.assignments is None:
        try:
            return place(additional, factor, racks, pick_start(len(racks)) if racks else 0)
        except ImpossibleReplication as error:
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, str(error)) from None
    if len(new.assignments) != additional:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{additional} partitions are to be added, but {len(new.assignments)} are assigned",
        )
    first = new.total - additional
    try:
        for index, brokers in enumerate(new.assignments, first):
            check_replicas(index, brokers, racks)
            if len(brokers) != factor:
                raise BadAssignment(f"partition {index} has {len(brokers)} replicas, the others have {factor}")
    except BadAssignment as error:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(error)) from None
    return [list(brokers) for brokers in new.assignments]
