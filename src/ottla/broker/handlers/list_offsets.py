"""ListOffsets (2), versions 0-11.

The offset of a partition at a time, or at one of these instead of a time:

    -1 latest             high watermark; last stable offset for read_committed; end of the log for followers
    -2 earliest           start of the log
    -3 newest timestamp   the record with the largest timestamp       v7+, KIP-734
    -4 earliest local     = earliest: nothing is tiered away          v8+, KIP-405
    -5 latest tiered      none                                        v9+, KIP-1005
    -6 earliest pending   none                                        v11+, KIP-1023

By time: the first record (not batch, not segment) that is not older, with its own timestamp; -1 and -1 if there is none
that the client may read. A batch that is large or compressed is looked through in a thread.

- v0: up to `max_num_offsets` starts of segments and the end of the log, newest first. A time means segments that were
  last written at or before it. Only -1 and -2 exist.
- v1: one offset and its timestamp. v2: isolation level. v4: the client's leader epoch is checked (KIP-320), and the
  epoch of the offset returned. v10: a timeout for reads of tiered storage (KIP-1075); local ones need none.
- A partition that is named twice is INVALID_REQUEST; a special time that the version does not have is
  UNSUPPORTED_VERSION.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.dispatch import Request, handles
from ottla.broker.led import led_partition
from ottla.protocol import messages
from ottla.protocol.batch import read_header
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.records import first_at_or_after, max_timestamp_record
from ottla.replication.partition import Partition
from ottla.storage.errors import StorageError
from ottla.storage.log import DECOMPRESSED_LIMIT

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

    Asked = messages.ListOffsetsRequest.Partition
    Answer = messages.ListOffsetsResponse.Partition

log = logging.getLogger(__name__)

T = TypeVar("T")

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SPECIAL_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}

CONSUMER = -1  # as replica id
READ_COMMITTED = 1
SMALL_BATCH = 16_384  # bytes that may be looked through on the event loop


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
        await asyncio.sleep(0)  # others get their turn between two lookups
        try:
            found = await _find(broker, partition, asked.timestamp)
        except ProtocolError as error:  # a batch whose CRC is right and whose records are not
            log.warning("%s-%d: %s", partition.topic, partition.index, error)
            answer.error_code = ErrorCode.CORRUPT_MESSAGE
        except (StorageError, OSError) as error:
            partition.log.failed(error)
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            if isinstance(found, ErrorCode):
                answer.error_code = found
            elif found is not None and 0 <= found[1] < _readable_end(partition, body):
                answer.timestamp, answer.offset = found
                answer.leader_epoch = partition.log.epochs.epoch_at(answer.offset)
    return response


async def _find(broker: Broker, partition: Partition, timestamp: int) -> tuple[int, int] | ErrorCode | None:
    """(timestamp, offset) of the record. The batch is found here, as the log changes under no thread's feet."""

    async def look(through: Callable[..., T], batch: bytes, *arguments: int) -> T:
        if len(batch) <= SMALL_BATCH and not read_header(batch).codec:
            return through(batch, *arguments, DECOMPRESSED_LIMIT)
        return await broker.run_blocking(through, batch, *arguments, DECOMPRESSED_LIMIT)

    if broker.partition(partition.topic, partition.index) is not partition:  # deleted since the request began
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition_log = partition.log
    if timestamp == MAX_TIMESTAMP:
        newest = partition_log.newest_batch()
        return None if newest is None else await look(max_timestamp_record, newest)
    start = partition_log.start_offset
    for batch in partition_log.batches_not_older(timestamp):
        found = await look(partial(first_at_or_after, start_offset=start), batch, timestamp)
        if found is not None:
            return found
        if broker.partition(partition.topic, partition.index) is not partition:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _old_style(partition: Partition, asked: Asked, replica_id: int, now_ms: int) -> Answer:
    start, segments = partition.log_start_offset, partition.log.segments
    points = [  # (offset, when it was last written to)
        (max(segment.base_offset, start), int(os.stat(segment.file.path).st_mtime * 1000)) for segment in segments
    ]
    if segments[-1].size:
        points.append((partition.end_offset, now_ms))
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
