"""Message formats 0 and 1, spoken by clients older than 0.11: converted at the edge, never stored.

A message set is message after message:

    offset size field
     0     8    offset
     8     4    size        bytes after this field
    12     4    crc         CRC-32 (zlib's) of everything from 16 to the end of the message
    16     1    magic       0 or 1
    17     1    attributes  bits 0-2 codec, 3 timestamp type (magic 1)
    18     8    timestamp   magic 1 only
           4+n  key         int32 length, -1: null
           4+n  value       int32 length, -1: null

A message with a codec is a wrapper: its value is a packed message set of the same magic, and nothing in there is a
wrapper again. The wrapper's offset is that of its last inner message. Inner offsets are absolute in format 0 and
relative in format 1 (KIP-31). A LogAppendTime wrapper's timestamp holds for all inner messages (KIP-32). lz4 in format
0 has its own header checksum (compression.py). There is no zstd (KIP-110), and there are no headers, producer ids or
control messages.

Bytes that are no message set raise CorruptBatch, DecompressionTooLarge, UnsupportedCodec or InvalidRecord.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ottla.protocol.batch import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, TIMESTAMP_TYPE, Buffer, CorruptBatch
from ottla.protocol.compression import LZ4, NONE, ZSTD, UnsupportedCodec, compress, decompress
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records import InvalidRecord, Record, build_batch, iter_batches, iter_payload, payload

_CODEC_MASK = 0x07
_ENTRY = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes
_LOG_OVERHEAD = 12  # offset and size, which size does not count
_SMALLEST = (14, 22)  # size of a message with null key and value, per magic
_OFFSET_SIZE = struct.Struct(">qi")
_CRC = struct.Struct(">I")
_HEADS = (struct.Struct(">bb"), struct.Struct(">bbq"))
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class CannotDownconvert(ProtocolError):
    """Batches that old formats have no way to say."""


class EmptyMessageSet(CorruptBatch):
    """A message set without any message, where one is needed to make a batch."""


class Message(NamedTuple):
    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def iter_messages(message_set: Buffer, limit: int, *, partial: bool = False) -> Iterator[Record]:
    """The messages of a set as records, wrappers opened, offsets absolute, CRCs checked. Format 0 has timestamp -1.

    All wrappers together may unpack to `limit` bytes. A cut-off last message is corrupt, or with `partial` the end.
    """
    for offset, timestamp, message in open_messages(message_set, limit, partial=partial):
        yield Record(offset, timestamp, message.key, message.value)


def open_messages(message_set: Buffer, limit: int, *, partial: bool = False) -> Iterator[tuple[int, int, Message]]:
    """As `iter_messages`, with the messages as they stand there: (absolute offset, timestamp that holds, message)."""
    left = limit
    for message in _messages(message_set, partial=partial):
        codec = message.attributes & _CODEC_MASK
        if codec == NONE:
            yield message.offset, message.timestamp, message
            continue
        magic = message.magic
        if codec >= ZSTD:
            raise UnsupportedCodec(codec, f"message format {magic}")
        if message.value is None:
            raise CorruptBatch("wrapper message without a value")
        inner_set = decompress(codec, message.value, left, broken_lz4_header=magic == 0)
        left -= len(inner_set)
        # A walk to the last offset, rather than a list of all messages, keeps memory near the unpacked size.
        last = _last_offset(inner_set)
        shift = message.offset - last if magic == 1 else 0
        fixed_time = magic == 1 and message.attributes & TIMESTAMP_TYPE
        for inner in _messages(inner_set):
            if inner.magic != magic:
                raise CorruptBatch(f"message of format {inner.magic} in a wrapper of format {magic}")
            if inner.attributes & _CODEC_MASK:
                raise CorruptBatch("wrapper message in a wrapper message")
            yield inner.offset + shift, message.timestamp if fixed_time else inner.timestamp, inner


def upconvert(message_set: Buffer, *, timestamp_type: int, now_ms: int, limit: int) -> bytearray:
    """One batch of format 2 with all messages of a produced set, at base offset 0 and without producer.

    It has the codec of the first wrapper. With timestamp type LogAppendTime every record gets `now_ms`.
    """
    if len(message_set) == 0:
        raise EmptyMessageSet("message set is empty")
    return build_batch(
        _produced(message_set, now_ms if timestamp_type == LOG_APPEND_TIME else None, limit),
        codec=_first_codec(message_set),
        timestamp_type=timestamp_type,
    )


def downconvert(batches: Buffer, magic: int, *, start_offset: int = 0, limit: int) -> bytes:
    """The records of these batches from `start_offset` on, as a message set of format 0 or 1.

    Control batches are left out and headers lost; each packed batch becomes one wrapper with its codec. A batch that
    `batches` holds only the beginning of is left out. All batches together may unpack to `limit` bytes. A batch that
    cannot be converted ends the set, so that the client gets what lies before; when nothing does, its error is raised
    (CannotDownconvert for zstd). The result is empty when there are only control batches.
    """
    if magic not in (0, 1):
        raise CannotDownconvert(f"message format {magic} is not an old one")
    out: list[bytes] = []
    left = limit
    view = memoryview(batches)
    try:
        for pos, header in iter_batches(batches, partial=True):
            if header.is_control or header.last_offset < start_offset:
                continue
            codec = header.codec
            if codec == ZSTD:
                raise CannotDownconvert(f"batch at offset {header.base_offset} is packed with zstd")
            data = payload(view[pos : pos + header.size], header, left)
            if codec != NONE:
                left -= len(data)
            records = (record for record in iter_payload(header, data) if record.offset >= start_offset)
            out.append(_message_set(records, magic, header.timestamp_type, codec))
    except ProtocolError:
        if not any(out):
            raise
    return b"".join(out)


def _produced(message_set: Buffer, append_time: int | None, limit: int) -> Iterator[Record]:
    for index, (_, timestamp, key, value, _) in enumerate(iter_messages(message_set, limit)):
        if append_time is not None:
            timestamp = append_time
        elif timestamp < NO_TIMESTAMP:
            raise InvalidRecord(f"message {index} has timestamp {timestamp}")
        yield Record(index, timestamp, key, value)


def _messages(message_set: Buffer, *, partial: bool = False) -> Iterator[Message]:
    view = memoryview(message_set)
    crc32 = zlib.crc32
    for pos, end in _walk(view, partial=partial):
        offset, size, crc, magic, attributes = _ENTRY.unpack_from(view, pos)
        if magic not in (0, 1):
            raise CorruptBatch(f"message at {pos}: format {magic} in an old message set")
        if size < _SMALLEST[magic]:
            raise CorruptBatch(f"message at {pos}: {size} bytes, format {magic} takes {_SMALLEST[magic]}")
        computed = crc32(view[pos + 16 : end])
        if computed != crc:
            raise CorruptBatch(f"message at {pos}: CRC {crc:#010x} in it, {computed:#010x} over its bytes")
        p = pos + _ENTRY.size
        timestamp = NO_TIMESTAMP
        if magic == 1:
            (timestamp,) = _INT64.unpack_from(view, p)
            p += 8
        key, p = _nullable_bytes(view, p, end - 4)
        value, p = _nullable_bytes(view, p, end)
        if p != end:
            raise CorruptBatch(f"message at {pos}: {end - p} bytes after its value")
        yield Message(offset, crc, magic, attributes, timestamp, key, value)


def _walk(view: memoryview, *, partial: bool = False) -> Iterator[tuple[int, int]]:
    """Start and end of each message, long enough for its magic to be read."""
    pos, total = 0, len(view)
    while pos < total:
        if total - pos < _LOG_OVERHEAD:
            if partial:
                return
            raise CorruptBatch(f"message at {pos}: {total - pos} bytes left")
        (size,) = _INT32.unpack_from(view, pos + 8)
        if size < _SMALLEST[0]:
            raise CorruptBatch(f"message at {pos}: size {size}")
        end = pos + _LOG_OVERHEAD + size
        if end > total:
            if partial:
                return
            raise CorruptBatch(f"message at {pos}: size {size}, {total - pos - _LOG_OVERHEAD} bytes left")
        yield pos, end
        pos = end


def _nullable_bytes(view: memoryview, p: int, end: int) -> tuple[bytes | None, int]:
    (length,) = _INT32.unpack_from(view, p)
    p += 4
    if length == -1:
        return None, p
    if not 0 <= length <= end - p:
        raise CorruptBatch(f"key or value of {length} bytes, {end - p} left in the message")
    return bytes(view[p : p + length]), p + length


def _last_offset(message_set: bytes) -> int:
    last = deque(_walk(memoryview(message_set)), maxlen=1)
    if not last:
        raise CorruptBatch("wrapper message without inner messages")
    offset: int = _INT64.unpack_from(message_set, last[0][0])[0]
    return offset


def _first_codec(message_set: Buffer) -> int:
    view = memoryview(message_set)
    for pos, _ in _walk(view):
        codec = view[pos + 17] & _CODEC_MASK
        if codec != NONE:
            return codec if codec < ZSTD else NONE  # whoever reads the messages finds out what is wrong with this one
    return NONE


def _message_set(records: Iterator[Record], magic: int, timestamp_type: int, codec: int) -> bytes:
    out = bytearray()
    attributes = TIMESTAMP_TYPE if magic == 1 and timestamp_type != CREATE_TIME else 0
    base = None if magic == 1 and codec != NONE else 0  # offsets in a format 1 wrapper count from its first message
    last, newest = 0, NO_TIMESTAMP
    for offset, timestamp, key, value, _ in records:
        if base is None:
            base = offset
        _put_message(out, offset - base, magic, attributes, timestamp, key, value)
        last = offset
        newest = max(newest, timestamp)
    if codec == NONE or not out:
        return bytes(out)
    packed = compress(codec, out, broken_lz4_header=magic == 0 and codec == LZ4)
    wrapper = bytearray()
    _put_message(wrapper, last, magic, attributes | codec, newest, None, packed)
    return bytes(wrapper)


def _put_message(
    out: bytearray, offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> None:
    head = _HEADS[1].pack(1, attributes, timestamp) if magic == 1 else _HEADS[0].pack(0, attributes)
    body = b"".join(
        (
            head,
            _INT32.pack(-1 if key is None else len(key)),
            key or b"",
            _INT32.pack(-1 if value is None else len(value)),
            value or b"",
        )
    )
    out += _OFFSET_SIZE.pack(offset, len(body) + _CRC.size)
    out += _CRC.pack(zlib.crc32(body))
    out += body
