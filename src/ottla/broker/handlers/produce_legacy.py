"""Produce versions 0-2: message sets of format 0 and 1 become one batch of format 2 before they are written (A1 S-26).

Converting looks at every message, so a large set is converted in a thread while the connection waits. Old clients write
with acks as they like: any positive number means the leader alone, as it did when it could mean "that many replicas".
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from ottla.broker.dispatch import wait_for
from ottla.broker.handlers.produce import (
    Produced,
    Topics,
    answer_nothing,
    refuse_all,
    refused,
    unknown,
    write_response,
)
from ottla.net.connection import Connection, Parked, Reply
from ottla.protocol.batch import CREATE_TIME, LOG_APPEND_TIME, CorruptBatch
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.legacy import upconvert
from ottla.replication.partition import Partition, Refused

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

INLINE = 32 * 1024  # bytes that are converted on the spot
EXPANSION = 64  # a set may unpack to that many times max.message.bytes, and no further

Converted = bytearray | Produced


def produce_message_sets(
    broker: Broker, connection: Connection, topics: Topics, acks: int, version: int, correlation_id: int
) -> Reply | Parked | None:
    if acks < -1:
        results = refuse_all(topics, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}")
        return write_response(results, version, correlation_id)
    now_ms = int(time() * 1000)
    work = [(topic, index, _find(broker, topic, index), records) for topic, sets in topics for index, records in sets]
    if sum(len(records) for *_, records in work if records is not None) <= INLINE:
        converted = [_convert(partition, index, records, now_ms) for _, index, partition, records in work]
        return _answer(acks, converted, version, correlation_id, work, now_ms)
    copies = [(index, partition, None if records is None else bytes(records)) for _, index, partition, records in work]

    async def convert_aside() -> Reply | None:
        converted = await broker.run_blocking(
            lambda: [_convert(partition, index, records, now_ms) for index, partition, records in copies]
        )
        return _answer(acks, converted, version, correlation_id, work, now_ms)

    return wait_for(connection, convert_aside())


def _find(broker: Broker, topic: bytes, index: int) -> Partition | None:
    partitions = broker.replicas.by_name.get(topic, ())
    return partitions[index] if 0 <= index < len(partitions) and not partitions[index].is_internal else None


def _convert(
    partition: Partition | None, index: int, records: memoryview | bytes | None, now_ms: int
) -> Converted | None:
    if partition is None:
        return None
    append_time = partition.config.message_timestamp_type == "LogAppendTime"
    try:
        return upconvert(
            records or b"",
            timestamp_type=LOG_APPEND_TIME if append_time else CREATE_TIME,
            now_ms=now_ms,
            limit=partition.config.max_message_bytes * EXPANSION,
        )
    except CorruptBatch as error:
        return Produced(index, ErrorCode.CORRUPT_MESSAGE, message=str(error))
    except ProtocolError as error:
        return Produced(index, ErrorCode.INVALID_RECORD, message=str(error))


def _append(partition: Partition, batch: bytearray, now_ms: int, acks: int) -> Produced:
    try:
        offset, append_time = partition.append(memoryview(batch), now_ms, all_replicas=acks == -1, zstd=False)
    except Refused as refusal:
        return refused(partition.index, refusal)
    return Produced(partition.index, 0, offset, append_time, partition.log.start_offset)


def _answer(
    acks: int,
    converted: list[Converted | None],
    version: int,
    correlation_id: int,
    work: list[tuple[bytes, int, Partition | None, memoryview | None]],
    now_ms: int,
) -> Reply | None:
    results: dict[bytes, list[Produced]] = {}
    for (topic, index, partition, _), batch in zip(work, converted, strict=True):
        if partition is None or batch is None:
            answer = unknown(topic, index, version)
        elif isinstance(batch, Produced):
            answer = batch
        else:
            answer = _append(partition, batch, now_ms, acks)
        results.setdefault(topic, []).append(answer)
    if acks == 0:
        answer_nothing(list(results.items()))
        return None
    return write_response(list(results.items()), version, correlation_id)
