"""The header of a record batch, message format 2 (KIP-98): all that a broker reads of most batches.

    offset size field
     0     8    base_offset             written by the broker, outside the CRC
     8     4    batch_length            bytes after this field: size of the batch - 12
    12     4    partition_leader_epoch  written by the broker, outside the CRC
    16     1    magic                   2
    17     4    crc                     CRC-32C of everything from 21 to the end
    21     2    attributes              bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete
                                        horizon (KIP-534)
    23     4    last_offset_delta       last offset - base offset; kept when compaction drops records
    27     8    base_timestamp          of the first record, or the delete horizon
    35     8    max_timestamp           with LogAppendTime the time of every record
    43     8    producer_id             -1: not idempotent
    51     2    producer_epoch
    53     4    base_sequence
    57     4    record_count
    61          records, compressed as one block unless the codec is 0

Since base offset and leader epoch lie outside the CRC, an append patches them in place and the batch stays valid.
Nothing here looks behind the header except the CRC. Whatever the bytes, the only errors are those of this module.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fastcrc import crc32 as _crc32

from ottla.protocol.errors import ProtocolError

Buffer = bytes | bytearray | memoryview

MAGIC = 2
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LENGTH_OVERHEAD = 12  # base_offset and batch_length, which batch_length does not count
CRC_START = 21
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
CREATE_TIME = 0
LOG_APPEND_TIME = 1

CODEC_MASK = 0x07
TIMESTAMP_TYPE = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

crc32c: Callable[[Buffer], int] = _crc32.iscsi
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")


class CorruptBatch(ProtocolError):
    """Bytes that are no record batch: too short, impossible lengths, wrong CRC, records that do not parse."""


class UnsupportedMagic(CorruptBatch):
    """A batch in a message format that is not expected here; `magic` is the one found."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"message format {magic}, expected {MAGIC}")
        self.magic = magic


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        return (self.attributes & TIMESTAMP_TYPE) >> 3

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON != 0

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers wrap from 2**31 - 1 to 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`, believed as it is; only its 61 bytes must be there."""
    try:
        return BatchHeader._make(HEADER.unpack_from(buf, pos))
    except struct.error:
        raise CorruptBatch(f"batch header at {pos}: needs {HEADER_SIZE} bytes, {max(len(buf) - pos, 0)} left") from None


def read_sound_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos` of a batch that lies wholly in `buf`, of format 2, with possible numbers. No CRC check."""
    if len(buf) - pos > 16 and buf[pos + 16] != MAGIC:
        raise UnsupportedMagic(_signed(buf[pos + 16]))
    header = read_header(buf, pos)
    length = header.batch_length
    if length < HEADER_SIZE - LENGTH_OVERHEAD or length > len(buf) - pos - LENGTH_OVERHEAD:
        raise CorruptBatch(f"batch at {pos}: length {length}, {len(buf) - pos - LENGTH_OVERHEAD} bytes left")
    if header.record_count < 0 or header.last_offset_delta < header.record_count - 1 or header.last_offset_delta < 0:
        raise CorruptBatch(
            f"batch at {pos}: {header.record_count} records, last offset delta {header.last_offset_delta}"
        )
    return header


def crc_of(buf: Buffer, pos: int, end: int) -> int:
    """CRC-32C that the batch in buf[pos:end] should carry."""
    return crc32c(memoryview(buf)[pos + CRC_START : end])


def check(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Header of the batch at `pos` after checking its length, format, counts and CRC. Bytes may follow the batch."""
    header = read_sound_header(buf, pos)
    crc = crc_of(buf, pos, pos + LENGTH_OVERHEAD + header.batch_length)
    if crc != header.crc:
        raise CorruptBatch(f"batch at {pos}: CRC {header.crc:#010x} in its header, {crc:#010x} over its bytes")
    return header


def iter_batches(buf: Buffer, *, partial: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch in `buf`, CRCs not checked.

    A cut-off last batch is corrupt, or with `partial` the end, as in a fetch response that a byte limit cut.
    """
    pos, end = 0, len(buf)
    while pos < end:
        if partial and end - pos < LENGTH_OVERHEAD:
            return
        if partial:
            (length,) = _INT32.unpack_from(buf, pos + 8)
            if length >= HEADER_SIZE - LENGTH_OVERHEAD and length > end - pos - LENGTH_OVERHEAD:
                return
        header = read_sound_header(buf, pos)
        yield pos, header
        pos += header.batch_length + LENGTH_OVERHEAD


def assign(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `pos` its place in the log. The CRC does not cover these fields."""
    _INT64.pack_into(buf, pos, base_offset)
    _INT32.pack_into(buf, pos + 12, leader_epoch)


def set_max_timestamp(buf: bytearray | memoryview, pos: int, timestamp: int) -> None:
    """Make the batch at `pos` LogAppendTime: type bit, max timestamp, new CRC. The records keep their bytes."""
    (length,) = _INT32.unpack_from(buf, pos + 8)
    (attributes,) = _INT16.unpack_from(buf, pos + CRC_START)
    _INT16.pack_into(buf, pos + CRC_START, attributes | TIMESTAMP_TYPE)
    _INT64.pack_into(buf, pos + 35, timestamp)
    _UINT32.pack_into(buf, pos + 17, crc_of(buf, pos, pos + LENGTH_OVERHEAD + length))


def seal(buf: bytearray | memoryview, pos: int, end: int) -> None:
    """Write the CRC of the batch in buf[pos:end]."""
    _UINT32.pack_into(buf, pos + 17, crc_of(buf, pos, end))


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte
