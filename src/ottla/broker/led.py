"""The partition that a request means, if this broker leads it: the checks that all requests to leaders share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

NO_EPOCH = -1


def led_partition(broker: Broker, topic: str, index: int, client_epoch: int = NO_EPOCH) -> Partition | ErrorCode:
    """The partition, or why it cannot be used. `client_epoch` is the leader epoch that the client knows (KIP-320)."""
    partition = broker.partition(topic, index)
    if partition is None:
        known = broker.image.topics.get(topic)
        if known is not None and 0 <= index < len(known.partitions):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.offline is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if client_epoch != NO_EPOCH and client_epoch != partition.leader_epoch:
        older = client_epoch < partition.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
    return partition
