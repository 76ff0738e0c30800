"""OffsetForLeaderEpoch (23), versions 0-4.

Where a leader epoch ended in the log: the largest epoch not above the one asked for, and its end offset (the end of the
log for the current epoch). Followers and consumers compare it with their own position to find out whether the log was
cut behind them (KIP-101, KIP-320). -1 and -1 where the leader cannot tell.

- v1: the epoch in the reply. v2: the leader epoch that the client knows is checked. v3: replica id (only followers of
  this broker would need it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.led import led_partition
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("OffsetForLeaderEpoch", 0, 4)
def offset_for_leader_epoch(
    broker: Broker, request: Request, body: messages.OffsetForLeaderEpochRequest
) -> messages.OffsetForLeaderEpochResponse:
    return messages.OffsetForLeaderEpochResponse(
        topics=[
            messages.OffsetForLeaderEpochResponse.Topic(
                topic=topic.topic, partitions=[_partition(broker, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in body.topics
        ]
    )


def _partition(
    broker: Broker, topic: str, asked: messages.OffsetForLeaderEpochRequest.Partition
) -> messages.OffsetForLeaderEpochResponse.Partition:
    found = led_partition(broker, topic, asked.partition, asked.current_leader_epoch)
    if isinstance(found, ErrorCode):
        return messages.OffsetForLeaderEpochResponse.Partition(error_code=found, partition=asked.partition)
    epoch, end_offset = found.log.epochs.end_offset(asked.leader_epoch, found.end_offset)
    return messages.OffsetForLeaderEpochResponse.Partition(
        error_code=ErrorCode.NONE, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
    )
