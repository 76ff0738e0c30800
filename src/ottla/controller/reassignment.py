"""What becomes of requests to move partitions to other brokers: decisions only, no I/O (KIP-455).

    the replicas that it has, in that order    nothing to do
    some of them, or another order             holds at once; a leader that is no more among them gives way
    others                                     replicas = new ones, then those to go; `adding` and `removing` say which,
                                               until the new ones have caught up
    none (null): cancel                        those that were being added go, the others stay

Each partition gets its own result. Refused are: unknown partitions (UNKNOWN_TOPIC_OR_PARTITION), no replicas, unknown
brokers, one named twice, a move after which nobody in sync is left (INVALID_REPLICA_ASSIGNMENT), a cancellation of
nothing (NO_REASSIGNMENT_IN_PROGRESS), and another number of replicas where the request forbids that
(INVALID_REPLICATION_FACTOR, KIP-860).

On one node every legal request is of the first kind, and nothing is ever on the move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.controller.image import ClusterImage, PartitionImage
from ottla.controller.placement import BadAssignment, check_replicas
from ottla.controller.topics import Refused
from ottla.protocol.errors import ErrorCode


class Reassignment(NamedTuple):
    """`replicas` is None to cancel."""

    topic: str
    partition: int
    replicas: Sequence[int] | None


class ReassignmentResult(NamedTuple):
    """`image` is the partition as it is to be; None if nothing changes."""

    topic: str
    partition: int
    error_code: ErrorCode
    message: str | None = None
    image: PartitionImage | None = None


def plan_reassignment(
    asked: Sequence[Reassignment], image: ClusterImage, *, keep_factor: bool = False
) -> list[ReassignmentResult]:
    """One result per partition. `keep_factor`: the number of replicas must stay as it is."""
    results = []
    for one in asked:
        try:
            changed = _plan(one, image, keep_factor)
        except Refused as refused:
            results.append(ReassignmentResult(one.topic, one.partition, refused.error_code, refused.message))
        else:
            results.append(ReassignmentResult(one.topic, one.partition, ErrorCode.NONE, None, changed))
    return results


def _plan(asked: Reassignment, image: ClusterImage, keep_factor: bool) -> PartitionImage | None:
    topic = image.topics.get(asked.topic)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.topic!r}")
    if not 0 <= asked.partition < len(topic.partitions):
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {asked.topic!r} has no partition {asked.partition}")
    partition = topic.partitions[asked.partition]
    settled = [broker for broker in partition.replicas if broker not in partition.adding]
    if asked.replicas is None:
        if not partition.moving:
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.message)
        return _on(settled, partition)
    target = list(asked.replicas)
    try:
        check_replicas(asked.partition, target, image.brokers)
    except BadAssignment as error:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(error)) from None
    if keep_factor and len(target) != len(settled):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {len(settled)} to {len(target)}",
        )
    adding = tuple(broker for broker in target if broker not in settled)
    if not adding:
        return None if target == partition.replicas and not partition.moving else _on(target, partition)
    removing = tuple(broker for broker in settled if broker not in target)
    isr = [broker for broker in partition.isr if broker in target or broker in removing]
    return partition._replace(replicas=[*target, *removing], isr=isr, adding=adding, removing=removing)


def _on(replicas: list[int], partition: PartitionImage) -> PartitionImage:
    """The partition on these replicas alone, all of which have it already."""
    isr = [broker for broker in partition.isr if broker in replicas]
    if not isr:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"none of the replicas {replicas} is in sync: {partition.isr} are"
        )
    settled = partition._replace(replicas=replicas, isr=isr, adding=(), removing=())
    if partition.leader in isr:
        return settled
    leader = next(broker for broker in replicas if broker in isr)
    return settled._replace(leader=leader, leader_epoch=partition.leader_epoch + 1)


def moving(image: ClusterImage, asked: Sequence[tuple[str, Sequence[int]]] | None) -> dict[str, list[int]]:
    """Which of the partitions are being reassigned, by topic; None asks for all."""
    wanted = asked if asked is not None else [(name, range(len(one.partitions))) for name, one in image.topics.items()]
    found: dict[str, list[int]] = {}
    for name, indexes in wanted:
        topic = image.topics.get(name)
        partitions = topic.partitions if topic is not None else []
        on_the_move = [index for index in indexes if 0 <= index < len(partitions) and partitions[index].moving]
        if on_the_move:
            found[name] = on_the_move
    return found
