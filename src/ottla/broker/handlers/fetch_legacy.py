"""Fetch for old clients: message sets of format 0 (versions 0-1) and 1 (versions 2-3), and no zstd before version 10.

Converting opens every batch, so it is done in a thread when there is much of it. Before version 3 a client has no way
to get a message larger than its limit: it gets the beginning of it, and says so to its user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import wait_for
from ottla.broker.handlers.fetch import Fetched, write_response
from ottla.net.connection import Connection, Parked, Reply
from ottla.protocol.batch import iter_batches
from ottla.protocol.compression import ZSTD
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.legacy import CannotDownconvert, downconvert
from ottla.storage.segment import FileSlice

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

INLINE = 32 * 1024  # bytes that are converted on the spot
LIMIT = 128 * 1024 * 1024  # that one partition's batches may unpack to


def convert_for_old_client(
    broker: Broker, connection: Connection, found: list[Fetched], version: int, correlation_id: int
) -> Reply | Parked:
    magic = 0 if version < 2 else 1
    first_batches = [broker.first_batch_for(one.wanted) if version < 3 and _stuck(one) else None for one in found]

    def convert_all() -> Reply:
        converted = [_convert(one, magic, first) for one, first in zip(found, first_batches, strict=True)]
        return write_response(converted, version, correlation_id)

    if sum(one.size for one in found) <= INLINE:
        return convert_all()

    async def convert_aside() -> Reply:
        return await broker.run_blocking(convert_all)

    return wait_for(connection, convert_aside())


def _stuck(found: Fetched) -> bool:
    """There are records, but not one batch fits the client's limit."""
    return not found.code and not found.size and found.wanted.offset < found.high_watermark


def _convert(found: Fetched, magic: int, first: bytes | None) -> Fetched:
    data = first if first is not None else _bytes(found)
    if not data:
        return found
    try:
        message_set = downconvert(data, magic, start_offset=found.wanted.offset, limit=LIMIT)
    except CannotDownconvert:
        return found._replace(code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, records=None, size=0)
    except ProtocolError:
        return found._replace(code=ErrorCode.CORRUPT_MESSAGE, records=None, size=0)
    if first is not None:
        message_set = message_set[: max(found.wanted.max_bytes, 0)]
    return found._replace(records=message_set, size=len(message_set))


def without_zstd(found: Fetched) -> Fetched:
    """Versions 4-9 know the batch format but not that codec."""
    data = _bytes(found)
    if any(header.codec == ZSTD for _, header in iter_batches(data, partial=True)):
        return found._replace(code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, records=None, size=0)
    return found._replace(records=data, size=len(data))


def _bytes(found: Fetched) -> bytes:
    """All records, read from the file now."""
    if not isinstance(found.records, FileSlice):
        return found.records or b""
    try:
        return b"".join(iter(lambda: found.records.read(found.size), b""))  # type: ignore[union-attr]
    finally:
        found.release()
