"""Fetch for old clients: message sets of format 0 (versions 0-1) and 1 (versions 2-3), and no zstd before version 10.

Converting opens every batch, so it is done in a thread when there is much of it. Three things differ from newer
versions:

- Batches without records (control batches, and what compaction leaves of others) become nothing, so they are stepped
  over: a client that got nothing would ask for the same offset again, for ever.
- Before version 3 a client has no way to get a message larger than its limit: it gets the beginning of it, and says so
  to its user.
- A batch packed with zstd ends what is sent; where it comes first, the client is told that it cannot read on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import wait_for
from ottla.broker.fetch_sessions import FetchPartition
from ottla.broker.handlers.fetch import READ_COMMITTED, read_partition
from ottla.broker.handlers.fetch_wire import Fetched, FetchRequest, write_response
from ottla.net.connection import Connection, Parked, Reply
from ottla.protocol.batch import iter_batches
from ottla.protocol.compression import ZSTD, DecompressionTooLarge
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.legacy import CannotDownconvert, downconvert
from ottla.replication.partition import Partition
from ottla.storage.errors import StorageError
from ottla.storage.file import FileSlice

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

INLINE, INLINE_UNPACKED = 32 * 1024, 128 * 1024  # bytes of an answer, and of a partition in it, converted on the spot
LIMIT = 128 * 1024 * 1024  # that one partition's batches may unpack to


def read_for_old_client(
    partition: Partition, wanted: FetchPartition, request: FetchRequest, limit: int, at_least_one: bool
) -> Fetched:
    """As `read_partition`, from the first batch on that has something for an old client.

    Where that does not fit the client's limit, and version 3's rule does not hold, the answer is that batch alone,
    larger than the limit.
    """
    found = read_partition(partition, wanted, request, limit, at_least_one)
    visible = found.last_stable if request.isolation == READ_COMMITTED else found.high_watermark
    if found.code or found.diverging or wanted.offset >= visible:
        return found
    try:
        return _step_over(partition, found, visible, limit, at_least_one)
    except (OSError, StorageError) as error:
        found.release()
        partition.log.failed(error)
        return Fetched(wanted, ErrorCode.KAFKA_STORAGE_ERROR)


def _step_over(partition: Partition, found: Fetched, visible: int, limit: int, at_least_one: bool) -> Fetched:
    wanted = found.wanted
    for segment, position, header in partition.log.batches(wanted.offset):
        if header.base_offset >= visible:
            break
        if header.is_control or not header.record_count:
            continue
        if header.base_offset > wanted.offset:  # something was stepped over
            found.release()
            records, size = partition.log.read(header.base_offset, limit, visible, at_least_one)
            found = found._replace(records=records, size=size)
        if not found.size and limit >= wanted.max_bytes > 0:
            batch = segment.batch_at(position)
            return found._replace(records=batch, size=len(batch))
        return found
    found.release()
    return found._replace(records=None, size=0)


def convert_for_old_client(
    broker: Broker, connection: Connection, request: FetchRequest, found: list[Fetched], version: int, correlation: int
) -> Reply | Parked:
    if sum(one.size for one in found) <= INLINE and not any(isinstance(one.records, FileSlice) for one in found):
        try:
            converted = [_convert(one, version, INLINE_UNPACKED) for one in found]
        except DecompressionTooLarge:
            pass
        else:
            if all(next_offset is None for _, next_offset in converted):
                return write_response([one for one, _ in converted], version, correlation)

    async def convert_aside() -> Reply:
        return write_response(await _convert_aside(broker, request, found, version), version, correlation)

    return wait_for(connection, convert_aside())


async def _convert_aside(broker: Broker, request: FetchRequest, found: list[Fetched], version: int) -> list[Fetched]:
    results, left = list(found), list(range(len(found)))
    while left:
        todo = [results[at] for at in left]
        try:
            converted = await broker.run_blocking(_convert_all, todo, version)
        finally:
            for one in todo:
                one.release()
        again = []
        for at, (result, next_offset) in zip(left, converted, strict=True):
            if next_offset is not None:
                result = _read_on(broker, request, result.wanted, next_offset, at_least_one=version >= 3)
                again.append(at)
            results[at] = result
        left = again
    return results


def _convert_all(found: list[Fetched], version: int) -> list[tuple[Fetched, int | None]]:
    return [_convert(one, version, LIMIT) for one in found]


def _convert(found: Fetched, version: int, limit: int) -> tuple[Fetched, int | None]:
    """As message set; and where to read on, if nothing came of the batches.

    DecompressionTooLarge when they unpack to more than a `limit` that is below the one that holds for all.
    """
    if not found.size:
        return found, None
    wanted = found.wanted
    try:
        data = _bytes(found)
        message_set = downconvert(data, 0 if version < 2 else 1, start_offset=wanted.offset, limit=limit)
        if not message_set:
            *_, (_, last) = iter_batches(data, partial=True)
            return found._replace(records=None, size=0), last.next_offset
    except DecompressionTooLarge:
        if limit < LIMIT:
            raise
        return found._replace(code=ErrorCode.CORRUPT_MESSAGE, records=None, size=0), None
    except CannotDownconvert:
        return found._replace(code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, records=None, size=0), None
    except ProtocolError:
        return found._replace(code=ErrorCode.CORRUPT_MESSAGE, records=None, size=0), None
    except OSError:
        return found._replace(code=ErrorCode.KAFKA_STORAGE_ERROR, records=None, size=0), None
    if version < 3 and found.size > wanted.max_bytes:
        message_set = message_set[: wanted.max_bytes]
    return found._replace(records=message_set, size=len(message_set)), None


def _read_on(
    broker: Broker, request: FetchRequest, wanted: FetchPartition, offset: int, *, at_least_one: bool
) -> Fetched:
    partitions = broker.replicas.by_name.get(wanted.topic, [])[wanted.index : wanted.index + 1]
    if not partitions:  # deleted in the meantime
        return Fetched(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    wanted = FetchPartition(wanted.topic, wanted.index, offset, wanted.max_bytes, wanted.leader_epoch, -1)
    limit = min(wanted.max_bytes, broker.config.fetch_max_bytes)
    return read_for_old_client(partitions[0], wanted, request, limit, at_least_one)


def without_zstd(broker: Broker, found: Fetched) -> Fetched:
    """Versions 4-9 know the batch format but not that codec: what lies before the first such batch."""
    if not found.size:
        return found
    wanted, before = found.wanted, 0
    partition = broker.replicas.by_name[wanted.topic][wanted.index]
    try:
        for _, _, header in partition.log.batches(wanted.offset):
            if before >= found.size:
                return found
            if header.codec == ZSTD:
                break
            before += header.size
        else:
            return found
        found.release()
        if not before:
            return found._replace(code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, records=None, size=0)
        records, size = partition.log.read(wanted.offset, before, header.base_offset, True)
        return found._replace(records=records, size=size)
    except (OSError, StorageError) as error:
        partition.log.failed(error)
        return Fetched(wanted, ErrorCode.KAFKA_STORAGE_ERROR)


def _bytes(found: Fetched) -> bytes:
    """All records, read from the file now."""
    records = found.records
    if isinstance(records, FileSlice):
        return b"".join(iter(lambda: records.read(found.size), b""))
    return records or b""
