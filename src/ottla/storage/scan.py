"""Walks through a segment batch by batch, header after header: what recovery, new indexes and replays are made of.

A batch is good when its header is possible (format 2, a length that fits the file, offsets that go on from the batch
before and stay below the next segment's) and, from `check_from` on, its CRC fits its bytes. The walk ends at the first
that is not. It costs about a microsecond per batch and what reading the bytes takes; reads leave Python's lock to
others, so logs on several disks are walked through at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from fastcrc import crc32

from ottla.protocol.batch import CRC_START, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, crc32c
from ottla.storage.index import OffsetIndex, TimeIndex

CHUNK = 1024 * 1024  # stays in the processor's cache between reading and checking
HEADERS_ONLY = 64 * 1024

NEVER = 1 << 63
UNTIMED = 1 << 62  # later than any batch: records of format 0 have no time, and never make a segment look old

Visit = Callable[[tuple[int, ...], int], None]  # called with a header as unpacked, and where it lies


@dataclass(slots=True)
class Scanned:
    """Where the good batches end, and what they said."""

    end: int = 0
    next_offset: int = 0
    max_timestamp: int = -1
    max_timestamp_offset: int = 0  # last offset of the batch that has it
    first_timestamp: int = UNTIMED  # the largest of the first batch that has one
    since_index: int = 0  # bytes since the last index entry


def scan(
    fd: int,
    size: int,
    base_offset: int,
    *,
    check_from: int = 0,
    highest: int = NEVER,
    gaps: bool = True,
    interval: int = 4096,
    indexes: tuple[OffsetIndex, TimeIndex] | None = None,
    visit: Visit | None = None,
) -> Scanned:
    """Walk through `size` bytes of a file.

    CRCs are checked of batches that reach `check_from`. Offsets stay at or below `highest`, and none is missing unless
    `gaps` may be there. `indexes` get an entry every `interval` bytes. `visit` is called for batches of producers, and
    where the leader epoch changes.
    """
    buffer = memoryview(bytearray(min(size, CHUNK if check_from < NEVER else HEADERS_ONLY)))
    have = start = position = since = 0
    next_offset, max_timestamp, max_timestamp_offset, first_timestamp = base_offset, -1, base_offset, UNTIMED
    latest_epoch = -2
    index, time_index = indexes if indexes is not None else (None, None)
    unpack, overhead = HEADER.unpack_from, LENGTH_OVERHEAD
    while position + HEADER_SIZE <= size:
        at = position - start
        if at + HEADER_SIZE > have:
            have, start, at = os.preadv(fd, [buffer], position), position, 0
            if have < HEADER_SIZE:
                break
        header = unpack(buffer, at)
        base, length, epoch, magic, crc, _, delta, _, timestamp, producer, _, _, count = header
        length += overhead
        last = base + delta
        if (
            magic != MAGIC
            or (base != next_offset and (base < next_offset or not gaps))
            or length < HEADER_SIZE
            or position + length > size
            or last > highest
            or delta < 0
            or count < 0
        ):
            break
        if last >= check_from:
            if at + length > have:
                have, start, at = os.preadv(fd, [buffer], position), position, 0
            found = crc32c(buffer[at + CRC_START : at + length]) if length <= have else _crc_of(fd, position, length)
            if found != crc:
                break
        if since > interval and index is not None and time_index is not None:
            index.append(last - base_offset, position)
            if timestamp > max_timestamp:
                time_index.append(timestamp, last - base_offset)
            elif max_timestamp > time_index.last_key:
                time_index.append(max_timestamp, max_timestamp_offset - base_offset)
            since = 0
        if visit is not None and (producer >= 0 or epoch != latest_epoch):
            latest_epoch = epoch
            visit(header, position)
        if timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = timestamp, last
            if first_timestamp == UNTIMED:
                first_timestamp = timestamp
        since += length
        position += length
        next_offset = last + 1
    return Scanned(position, next_offset, max_timestamp, max_timestamp_offset, first_timestamp, since)


def _crc_of(fd: int, position: int, length: int) -> int:
    """The CRC of a batch that is larger than the buffer; a file that ends early gives a wrong one."""
    crc: int | None = None
    position, end = position + CRC_START, position + length
    while position < end:
        part = os.pread(fd, min(CHUNK, end - position), position)
        if not part:
            return -1
        crc = crc32.iscsi(part, crc)
        position += len(part)
    return -1 if crc is None else crc
