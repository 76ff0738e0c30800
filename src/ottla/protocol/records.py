"""The records inside a batch of format 2 (KIP-98): for tools, compaction, old clients and the odd check on produce.

A batch's payload, after unpacking, is record after record:

    length varint | attributes int8, unused | timestamp delta varlong | offset delta varint
    key length varint, key | value length varint, value             length -1: null
    header count varint, then per header: key length varint, key as UTF-8 | value length varint, value

Varints are zigzag, at most 5 bytes (varlong 10). Deltas are against the header's base offset and base timestamp; in a
LogAppendTime batch every record has the header's max timestamp instead. Offset deltas rise and end at or before the
header's last offset delta; compaction leaves gaps.

Functions here take a buffer that begins with a batch (more may follow) whose CRC the caller has checked or trusts, and
`limit`, the most bytes that its payload may unpack to. Whatever the bytes, they raise nothing but CorruptBatch,
DecompressionTooLarge and UnsupportedCodec. Work and memory are bounded by the bytes given and `limit`: counts and
lengths are only believed as far as the bytes go. The two loops over records are written out by hand, varints of one and
two bytes inline, since a function call for each would double their cost.

Control records (KIP-98) have a key of int16 version, int16 type; a transaction marker's value is int16 version, int32
coordinator epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.protocol import compression
from ottla.protocol.batch import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    CorruptBatch,
    read_sound_header,
    seal,
)
from ottla.protocol.batch import iter_batches as iter_batches
from ottla.protocol.errors import ProtocolError

ABORT = 0
COMMIT = 1
LEADER_CHANGE = 2

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
_INT32_MAX = 2**31 - 1
_INT16_PAIR = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")

Header = tuple[str, bytes | None]


class InvalidRecord(ProtocolError):
    """Records that cannot stand in one batch: offsets that do not rise, times too far apart, lengths over 2 GiB."""


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def iter_records(batch: Buffer, limit: int) -> Iterator[Record]:
    """The records of the batch at the start of `batch`.

    Header keys that are no UTF-8 come with surrogate escapes, so that they can be written back as they were.
    """
    header = read_sound_header(batch)
    return iter_payload(header, payload(batch, header, limit))


def payload(batch: Buffer, header: BatchHeader, limit: int) -> bytes:
    """The records' bytes, unpacked, of the batch with this sound header at the start of `batch`."""
    packed = memoryview(batch)[HEADER_SIZE : LENGTH_OVERHEAD + header.batch_length]
    codec = header.codec
    return bytes(packed) if codec == compression.NONE else compression.decompress(codec, packed, limit)


def iter_payload(header: BatchHeader, data: bytes) -> Iterator[Record]:
    """The records in `data`, the unpacked payload of the batch with this sound header."""
    append_time = header.attributes & TIMESTAMP_TYPE
    base_timestamp = header.max_timestamp if append_time else header.base_timestamp
    base_offset = header.base_offset
    last_delta = header.last_offset_delta
    if base_offset + last_delta > INT64_MAX:
        raise CorruptBatch(f"offsets beyond 2**63: {base_offset} + {last_delta}")
    end_of_data = len(data)
    new = tuple.__new__
    cls = Record
    none: tuple[Header, ...] = ()
    offset_delta = -1
    p = 0
    try:
        for _ in range(header.record_count):
            n = data[p]
            p += 1
            if n > 127:
                if (m := data[p]) < 128:
                    n += (m << 7) - 128
                    p += 1
                else:
                    n, p = long_varint(data, p - 1)
            end = p + (n >> 1)
            if n & 1 or end > end_of_data:
                raise CorruptBatch(f"record of {unzigzag(n)} bytes, {end_of_data - p} left")
            n = data[p + 1]
            p += 2
            if n > 127:
                if (m := data[p]) < 128:
                    n += (m << 7) - 128
                    p += 1
                else:
                    n, p = long_varint(data, p - 1, 10)
            timestamp = base_timestamp if append_time else base_timestamp + (n >> 1 ^ -(n & 1))
            if not INT64_MIN <= timestamp <= INT64_MAX:
                raise CorruptBatch(f"timestamp {timestamp}")
            n = data[p]
            p += 1
            if n > 127:
                if (m := data[p]) < 128:
                    n += (m << 7) - 128
                    p += 1
                else:
                    n, p = long_varint(data, p - 1)
            if n & 1 or not offset_delta < n >> 1 <= last_delta:
                raise CorruptBatch(f"offset delta {unzigzag(n)} after {offset_delta}, last is {last_delta}")
            offset_delta = n >> 1
            n = data[p]
            p += 1
            if n == 1:
                key = None
            else:
                if n > 127:
                    if (m := data[p]) < 128:
                        n += (m << 7) - 128
                        p += 1
                    else:
                        n, p = long_varint(data, p - 1)
                q = p + (n >> 1)
                if n & 1 or q > end:
                    raise CorruptBatch(f"key of {unzigzag(n)} bytes, {end - p} left in the record")
                key = data[p:q]
                p = q
            n = data[p]
            p += 1
            if n == 1:
                value = None
            else:
                if n > 127:
                    if (m := data[p]) < 128:
                        n += (m << 7) - 128
                        p += 1
                    else:
                        n, p = long_varint(data, p - 1)
                q = p + (n >> 1)
                if n & 1 or q > end:
                    raise CorruptBatch(f"value of {unzigzag(n)} bytes, {end - p} left in the record")
                value = data[p:q]
                p = q
            if data[p]:
                headers, p = _read_headers(data, p, end)
            else:
                headers = none
                p += 1
            if p != end:
                raise CorruptBatch(f"record ends {abs(end - p)} bytes {'early' if p < end else 'late'}")
            yield new(cls, (base_offset + offset_delta, timestamp, key, value, headers))
    except IndexError:
        raise CorruptBatch(f"payload of {end_of_data} bytes ends inside a record") from None
    if p != end_of_data:
        raise CorruptBatch(f"{end_of_data - p} bytes after the last of {header.record_count} records")


def keys_missing(batch: Buffer, limit: int) -> int | None:
    """Index in the batch of the first record without key, None when all have one."""
    for index, (_, _, has_key) in enumerate(_skim(batch, limit)):
        if not has_key:
            return index
    return None


def first_at_or_after(batch: Buffer, timestamp: int, limit: int, *, start_offset: int = 0) -> tuple[int, int] | None:
    """Timestamp and offset of the first record, in offset order, that is not older than `timestamp`.

    Records before `start_offset` do not count: a log may start inside a batch.
    """
    for found, offset, _ in _skim(batch, limit):
        if found >= timestamp and offset >= start_offset:
            return found, offset
    return None


def max_timestamp_record(batch: Buffer, limit: int) -> tuple[int, int]:
    """Timestamp and offset of the newest record, the first of several; (-1, -1) when the batch is empty."""
    best, best_offset = INT64_MIN - 1, -1
    for timestamp, offset, _ in _skim(batch, limit):
        if timestamp > best:
            best, best_offset = timestamp, offset
    return (best, best_offset) if best_offset >= 0 else (NO_TIMESTAMP, -1)


def build_batch(
    records: Iterable[Record],
    *,
    codec: int = compression.NONE,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: int = 0,
    level: int | None = None,
) -> bytearray:
    """One batch with these records, whose offsets rise from `base_offset` on, with or without gaps.

    `last_offset_delta` keeps the last offset of a batch that lost its last records to compaction; with it a batch may
    be empty. A LogAppendTime batch takes the newest of the records' timestamps.
    """
    body = bytearray()
    count = 0
    delta = -1
    base_timestamp = max_timestamp = NO_TIMESTAMP
    for offset, timestamp, key, value, headers in records:
        if count == 0:
            base_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        if offset - base_offset <= delta:
            raise InvalidRecord(f"offset {offset} after {base_offset + delta}")
        delta = offset - base_offset
        if not INT64_MIN <= timestamp - base_timestamp <= INT64_MAX:
            raise InvalidRecord(f"timestamp {timestamp} in a batch that begins at {base_timestamp}")
        record = bytearray(1)
        put_varint(record, timestamp - base_timestamp)
        put_varint(record, delta)
        if key is None:
            record.append(1)
        else:
            put_varint(record, len(key))
            record += key
        if value is None:
            record.append(1)
        else:
            put_varint(record, len(value))
            record += value
        put_varint(record, len(headers))
        for name, content in headers:
            encoded = name.encode("utf-8", "surrogateescape")
            put_varint(record, len(encoded))
            record += encoded
            if content is None:
                record.append(1)
            else:
                put_varint(record, len(content))
                record += content
        put_varint(body, len(record))
        body += record
        count += 1
    if last_offset_delta is not None:
        if last_offset_delta < max(delta, 0):
            raise InvalidRecord(f"last offset delta {last_offset_delta} before the last record's {delta}")
        delta = last_offset_delta
    if delta < 0:
        raise InvalidRecord("a batch needs a record, or a last offset to keep")
    packed: Buffer = body if codec == compression.NONE else compression.compress(codec, body, level)
    if delta > _INT32_MAX or len(packed) > _INT32_MAX - HEADER_SIZE:
        raise InvalidRecord(f"batch spans {delta + 1} offsets and {len(packed)} bytes")
    attributes = codec
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    try:
        batch = bytearray(
            HEADER.pack(
                base_offset,
                HEADER_SIZE - LENGTH_OVERHEAD + len(packed),
                leader_epoch,
                MAGIC,
                0,
                attributes,
                delta,
                base_timestamp,
                max_timestamp,
                producer_id,
                producer_epoch,
                base_sequence,
                count,
            )
        )
    except struct.error as error:
        raise InvalidRecord(f"a batch header field is out of range: {error}") from None
    batch += packed
    seal(batch, 0, len(batch))
    return batch


def control_batch(
    control_type: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The marker that ends a transaction of this producer in one partition: COMMIT or ABORT."""
    record = Record(base_offset, timestamp, _INT16_PAIR.pack(0, control_type), _MARKER_VALUE.pack(0, coordinator_epoch))
    return build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )


def control_type(key: Buffer | None) -> int:
    """What a control record is, from its key: ABORT, COMMIT, LEADER_CHANGE or a number that newer brokers may know."""
    if key is None or len(key) < _INT16_PAIR.size:
        raise CorruptBatch(f"control record key of {0 if key is None else len(key)} bytes")
    version, kind = _INT16_PAIR.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"control record key version {version}")
    return int(kind)


def marker_coordinator_epoch(value: Buffer | None) -> int:
    """Epoch of the transaction coordinator that wrote a marker, from the record's value."""
    if value is None or len(value) < _MARKER_VALUE.size:
        raise CorruptBatch(f"transaction marker value of {0 if value is None else len(value)} bytes")
    version, epoch = _MARKER_VALUE.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"transaction marker value version {version}")
    return int(epoch)


def _skim(batch: Buffer, limit: int) -> Iterator[tuple[int, int, bool]]:
    """Timestamp, offset and whether there is a key, for each record; the rest of a record is passed over."""
    header = read_sound_header(batch)
    data = payload(batch, header, limit)
    append_time = header.attributes & TIMESTAMP_TYPE
    base_timestamp = header.max_timestamp if append_time else header.base_timestamp
    base_offset = header.base_offset
    last_delta = header.last_offset_delta
    if base_offset + last_delta > INT64_MAX:
        raise CorruptBatch(f"offsets beyond 2**63: {base_offset} + {last_delta}")
    end_of_data = len(data)
    offset_delta = -1
    p = 0
    try:
        for _ in range(header.record_count):
            n = data[p]
            p += 1
            if n > 127:
                if (m := data[p]) < 128:
                    n += (m << 7) - 128
                    p += 1
                else:
                    n, p = long_varint(data, p - 1)
            end = p + (n >> 1)
            if n & 1 or end > end_of_data:
                raise CorruptBatch(f"record of {unzigzag(n)} bytes, {end_of_data - p} left")
            n = data[p + 1]
            p += 2
            if n > 127:
                if (m := data[p]) < 128:
                    n += (m << 7) - 128
                    p += 1
                else:
                    n, p = long_varint(data, p - 1, 10)
            timestamp = base_timestamp if append_time else base_timestamp + (n >> 1 ^ -(n & 1))
            if not INT64_MIN <= timestamp <= INT64_MAX:
                raise CorruptBatch(f"timestamp {timestamp}")
            n = data[p]
            p += 1
            if n > 127:
                if (m := data[p]) < 128:
                    n += (m << 7) - 128
                    p += 1
                else:
                    n, p = long_varint(data, p - 1)
            if n & 1 or not offset_delta < n >> 1 <= last_delta:
                raise CorruptBatch(f"offset delta {unzigzag(n)} after {offset_delta}, last is {last_delta}")
            offset_delta = n >> 1
            if p >= end:
                raise CorruptBatch("record ends before its key")
            yield timestamp, base_offset + offset_delta, data[p] != 1
            p = end
    except IndexError:
        raise CorruptBatch(f"payload of {end_of_data} bytes ends inside a record") from None
    if p != end_of_data:
        raise CorruptBatch(f"{end_of_data - p} bytes after the last of {header.record_count} records")


def _read_headers(data: bytes, p: int, end: int) -> tuple[tuple[Header, ...], int]:
    """The headers whose count stands at `p`, and the position after them. The record must end by `end`."""
    count, p = long_varint(data, p)
    if count & 1 or count >> 1 > end - p:
        raise CorruptBatch(f"{unzigzag(count)} headers, {end - p} bytes left in the record")
    headers: list[Header] = []
    for _ in range(count >> 1):
        n, p = long_varint(data, p)
        q = p + (n >> 1)
        if n & 1 or q > end:
            raise CorruptBatch(f"header key of {unzigzag(n)} bytes, {end - p} left in the record")
        name = data[p:q].decode("utf-8", "surrogateescape")
        n, p = long_varint(data, q)
        if n == 1:
            headers.append((name, None))
            continue
        q = p + (n >> 1)
        if n & 1 or q > end:
            raise CorruptBatch(f"header value of {unzigzag(n)} bytes, {end - p} left in the record")
        headers.append((name, data[p:q]))
        p = q
    return tuple(headers), p


def long_varint(data: bytes, p: int, most: int = 5) -> tuple[int, int]:
    """The varint at `p` before zigzag, and the position after it. IndexError at the end of the data."""
    value = 0
    for i in range(most):
        byte = data[p + i]
        value |= (byte & 127) << 7 * i
        if byte < 128 and not value >> (32 if most == 5 else 64):
            return value, p + i + 1
    raise CorruptBatch(f"varint at {p} is too long")


def put_varint(out: bytearray, number: int) -> None:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def unzigzag(n: int) -> int:
    return n >> 1 ^ -(n & 1)
