"""ListOffsets (2), versions 0-11.

The offset of a partition at a time, or at one of these instead of a time:

    -1 latest             high watermark; last stable offset for read_committed; end of the log for followers
    -2 earliest           start of the log
    -3 newest timestamp   the record with the largest timestamp       v7+, KIP-734
    -4 earliest local     = earliest: nothing is tiered away          v8+, KIP-405
    -5 latest tiered      none                                        v9+, KIP-1005
    -6 earliest pending   none                                        v11+, KIP-1023

By time: the first record (not batch, not segment) that is not older, with its own timestamp; -1 and -1 if there is none
that the client may read. These lookups read the disk and may decompress a batch, so they run in a thread.

- v0: up to `max_num_offsets` starts of segments and the end of the log, newest first. A time means segments that were
  last written at or before it. Only -1 and -2 exist.
- v1: one offset and its timestamp. v2: isolation level. v4: the client's leader epoch is checked (KIP-320), and the
  epoch of the offset returned. v10: a timeout for reads of tiered storage (KIP-1075); local ones need none.
- A partition that is named twice is INVALID_REQUEST; a special time that the version does not have is
  UNSUPPORTED_VERSION.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.dispatch import Request, handles
from ottla.broker.led import led_partition
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import Partition
from ottla.storage.log import Log

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

    Asked = messages.ListOffsetsRequest.Partition
    Answer = messages.ListOffsetsResponse.Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SPECIAL_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}

CONSUMER = -1  # as replica id
READ_COMMITTED = 1


@handles("ListOffsets", 0, 11)
def list_offsets(
    broker: Broker, request: Request, body: messages.ListOffsetsRequest
) -> messages.ListOffsetsResponse | Coroutine[Any, Any, messages.ListOffsetsResponse]:
    times = Counter((topic.name, partition.partition_index) for topic in body.topics for partition in topic.partitions)
    answers: dict[str, dict[int, Answer]] = {}
    lookups: list[tuple[Partition, Asked, Answer]] = []
    for topic in body.topics:
        answered = answers.setdefault(topic.name, {})
        for asked in topic.partitions:
            index = asked.partition_index
            if index in answered:
                continue
            if times[topic.name, index] > 1:
                answered[index] = _error(index, ErrorCode.INVALID_REQUEST)
            elif not _is_known(asked.timestamp, request.version):
                answered[index] = _error(index, ErrorCode.UNSUPPORTED_VERSION)
            else:
                partition = led_partition(broker, topic.name, index, asked.current_leader_epoch)
                if isinstance(partition, ErrorCode):
                    answered[index] = _error(index, partition)
                elif request.version == 0:
                    answered[index] = _old_style(partition, asked, body.replica_id, broker.now_ms())
                elif asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
                    answered[index] = _error(index, ErrorCode.NONE)
                    lookups.append((partition, asked, answered[index]))
                else:
                    answered[index] = _special(partition, asked.timestamp, index, body)
    response = messages.ListOffsetsResponse(
        topics=[
            messages.ListOffsetsResponse.Topic(name=name, partitions=list(answered.values()))
            for name, answered in answers.items()
        ]
    )
    return _look_up(broker, body, lookups, response) if lookups else response


def _is_known(timestamp: int, version: int) -> bool:
    if version == 0:
        return timestamp >= EARLIEST
    return timestamp >= 0 or version >= SPECIAL_SINCE.get(timestamp, 1 << 15)


def _error(index: int, code: ErrorCode) -> Answer:
    return messages.ListOffsetsResponse.Partition(partition_index=index, error_code=code)


def _readable_end(partition: Partition, body: messages.ListOffsetsRequest) -> int:
    if body.replica_id != CONSUMER:
        return partition.end_offset
    return partition.last_stable_offset if body.isolation_level == READ_COMMITTED else partition.high_watermark


def _special(partition: Partition, timestamp: int, index: int, body: messages.ListOffsetsRequest) -> Answer:
    if timestamp == LATEST:
        offset, epoch = _readable_end(partition, body), partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = partition.log_start_offset
        epoch = partition.log.epochs.epoch_at(offset)
    else:
        offset = epoch = -1
    return messages.ListOffsetsResponse.Partition(
        partition_index=index, error_code=ErrorCode.NONE, offset=offset, leader_epoch=epoch
    )


async def _look_up(
    broker: Broker,
    body: messages.ListOffsetsRequest,
    lookups: list[tuple[Partition, Asked, Answer]],
    response: messages.ListOffsetsResponse,
) -> messages.ListOffsetsResponse:
    for partition, asked, answer in lookups:
        log = partition.log
        if asked.timestamp == MAX_TIMESTAMP:
            found = await _in_thread(broker, log, log.max_timestamp_offset)
        else:
            found = await _in_thread(broker, log, partial(log.offset_for_timestamp, asked.timestamp))
        if found is not None and 0 <= found[1] < _readable_end(partition, body):
            answer.timestamp, answer.offset = found
            answer.leader_epoch = log.epochs.epoch_at(answer.offset)
    return response


async def _in_thread(broker: Broker, log: Log, lookup: Callable[[], tuple[int, int] | None]) -> tuple[int, int] | None:
    """Run the lookup with the log's files held open: the topic may be deleted meanwhile."""
    files = [segment.file for segment in log.segments]
    for file in files:
        file.acquire()
    try:
        return await broker.run_blocking(lookup)
    finally:
        for file in files:
            file.release()


def _old_style(partition: Partition, asked: Asked, replica_id: int, now_ms: int) -> Answer:
    log = partition.log
    points = [  # (offset, when it was last written to)
        (max(segment.base_offset, log.start_offset), int(os.fstat(segment.file.fd).st_mtime * 1000))
        for segment in log.segments
    ]
    if log.segments[-1].size:
        points.append((log.end_offset, now_ms))
    if asked.timestamp == EARLIEST:
        points = points[:1]
    elif asked.timestamp != LATEST:
        while points and points[-1][1] > asked.timestamp:
            points.pop()
    offsets = [offset for offset, _ in reversed(points)][: max(asked.max_num_offsets, 0)]
    if replica_id == CONSUMER and any(offset > partition.high_watermark for offset in offsets):
        offsets = [partition.high_watermark, *(offset for offset in offsets if offset <= partition.high_watermark)]
    return messages.ListOffsetsResponse.Partition(
        partition_index=asked.partition_index, error_code=ErrorCode.NONE, old_style_offsets=offsets
    )
