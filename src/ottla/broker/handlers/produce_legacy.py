"""Produce versions 0-2: message sets of format 0 and 1 become one batch of format 2 before they are written (A1 S-26).

Converting looks at every message, so sets that are large, or become large when unpacked, are converted in a thread
while the connection waits. Old clients write with acks as they like: any positive number means the leader alone, as it
did when it could mean "that many replicas".
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from ottla.broker.dispatch import wait_for
from ottla.broker.handlers.produce import answer_nothing, refuse_all, refused, unknown
from ottla.broker.handlers.produce_committed import answer_when_committed, committed
from ottla.broker.handlers.produce_wire import Produced, Topics, write_response
from ottla.net.connection import Connection, Parked, Reply
from ottla.protocol.batch import CREATE_TIME, LOG_APPEND_TIME, CorruptBatch
from ottla.protocol.compression import DecompressionTooLarge, UnsupportedCodec
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.legacy import upconvert
from ottla.replication.partition import PAYLOAD_LIMIT, SMALL_PACKED, NotLookedThrough, Partition
from ottla.replication.refused import Refused

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

INLINE, INLINE_UNPACKED = 32 * 1024, 128 * 1024  # bytes of a request, and of a set in it, converted on the spot
EXPANSION = 64  # a set may unpack to that many times max.message.bytes, and no further

# topic, index, its partition, its message set
Work = tuple[bytes, int, "Partition | None", "memoryview | bytes | None"]
Converted = memoryview | Produced | None


def produce_message_sets(
    broker: Broker, connection: Connection, topics: Topics, acks: int, version: int, correlation_id: int
) -> Reply | Parked | None:
    if acks < -1:
        results = refuse_all(topics, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}")
        return write_response(results, version, correlation_id)
    now_ms = int(time() * 1000)
    work: list[Work] = [
        (topic, index, _find(broker, topic, index), records) for topic, sets in topics for index, records in sets
    ]
    if sum(len(records) for *_, records in work if records is not None) <= INLINE:
        try:
            converted = [_convert(one, now_ms, INLINE_UNPACKED) for one in work]
        except NotLookedThrough:
            pass
        else:
            results = _append_all(work, converted, acks, now_ms, version)
            return None if acks == 0 else answer_when_committed(broker, connection, results, version, correlation_id)
    copies: list[Work] = [
        (topic, index, partition, None if records is None else bytes(records))
        for topic, index, partition, records in work
    ]

    async def convert_aside() -> Reply | None:
        converted = await broker.run_blocking(lambda: [_convert(one, now_ms) for one in copies])
        # Looked up again after the wait: a topic may be gone, and its files with it.
        found: list[Work] = [(topic, index, _find(broker, topic, index), None) for topic, index, _, _ in copies]
        results = _append_all(found, converted, acks, now_ms, version)
        if acks == 0:
            return None
        await committed(broker, results, version)
        return write_response(results, version, correlation_id)

    return wait_for(connection, convert_aside())


def _find(broker: Broker, topic: bytes, index: int) -> Partition | None:
    partitions = broker.replicas.by_name.get(topic, ())
    return partitions[index] if 0 <= index < len(partitions) and not partitions[index].is_internal else None


def _convert(work: Work, now_ms: int, most: int | None = None) -> Converted:
    """The batch to write, or why there is none. NotLookedThrough when the set unpacks to more than `most`."""
    _, index, partition, message_set = work
    if partition is None:
        return None
    config = partition.config
    limit = config.max_message_bytes * EXPANSION
    try:
        batch = upconvert(
            message_set or b"",
            timestamp_type=LOG_APPEND_TIME if config.message_timestamp_type == "LogAppendTime" else CREATE_TIME,
            now_ms=now_ms,
            limit=limit if most is None else min(limit, most),
        )
    except DecompressionTooLarge as error:
        if most is not None and most < limit:
            raise NotLookedThrough from None
        return Produced(index, ErrorCode.MESSAGE_TOO_LARGE, message=str(error))
    except UnsupportedCodec as error:
        return Produced(index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message=str(error))
    except CorruptBatch as error:
        return Produced(index, ErrorCode.CORRUPT_MESSAGE, message=str(error))
    except ProtocolError as error:
        return Produced(index, ErrorCode.INVALID_RECORD, message=str(error))
    try:
        return partition.prepare(memoryview(batch), packs_up_to=PAYLOAD_LIMIT if most is None else SMALL_PACKED)
    except DecompressionTooLarge:
        raise NotLookedThrough from None
    except Refused as refusal:
        return refused(index, refusal)


def _append(partition: Partition, batch: memoryview, now_ms: int, acks: int) -> Produced:
    try:
        offset, append_time = partition.append(batch, now_ms, all_replicas=acks == -1, zstd=False, prepared=True)
    except Refused as refusal:
        return refused(partition.index, refusal)
    return Produced(partition.index, 0, offset, append_time, partition.log.start_offset)


def _append_all(
    work: list[Work], converted: list[Converted], acks: int, now_ms: int, version: int
) -> list[tuple[bytes, list[Produced]]]:
    results: dict[bytes, list[Produced]] = {}
    for (topic, index, partition, _), batch in zip(work, converted, strict=True):
        if partition is None or batch is None:
            answer = unknown(topic, index, version, None)
        elif isinstance(batch, Produced):
            answer = batch
        else:
            answer = _append(partition, batch, now_ms, acks)
        results.setdefault(topic, []).append(answer)
    if acks == 0:
        answer_nothing(list(results.items()))
    return list(results.items())
