"""The records of a batch as spans of its payload: for compaction, which keeps some and drops others, as they are.

Record layout: see records.py. A span is a plain tuple, since making one of a class would cost as much as reading it:

    start, end      where the record lies, its length included
    rest            where its offset delta begins: what comes after the timestamp
    time_delta      its timestamp - the batch's base timestamp
    offset_delta
    key             None: no key
    has_value       False: a tombstone

Offsets and timestamps are relative to the header, so a span can be copied into any batch with the same base offset and
base timestamp. For another base timestamp `shifted` writes its head anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from ottla.protocol.batch import CorruptBatch
from ottla.protocol.records import long_varint, put_varint, unzigzag

Span: TypeAlias = tuple[int, int, int, int, int, "bytes | None", bool]


def iter_spans(data: bytes, count: int, last_delta: int) -> Iterator[Span]:
    """The `count` records in `data`, an unpacked payload; CorruptBatch where they do not fit it."""
    end_of_data = len(data)
    offset_delta = -1
    p = 0
    try:
        for _ in range(count):
            start = p
            n = data[p]
            p += 1
            if n > 127:
                if (m := data[p]) < 128:
                    n += (m << 7) - 128
                    p += 1
                else:
                    n, p = long_varint(data, start)
            end = p + (n >> 1)
            if n & 1 or end > end_of_data:
                raise CorruptBatch(f"record of {unzigzag(n)} bytes, {end_of_data - p} left")
            time_delta = data[p + 1]
            p += 2
            if time_delta > 127:
                if (m := data[p]) < 128:
                    time_delta += (m << 7) - 128
                    p += 1
                else:
                    time_delta, p = long_varint(data, p - 1, 10)
            rest = p
            n = data[p]
            p += 1
            if n > 127:
                if (m := data[p]) < 128:
                    n += (m << 7) - 128
                    p += 1
                else:
                    n, p = long_varint(data, rest)
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
                if n & 1 or q >= end:
                    raise CorruptBatch(f"key of {unzigzag(n)} bytes, {end - p} left in the record")
                key = data[p:q]
                p = q
            if p >= end:
                raise CorruptBatch("record ends before its value")
            yield start, end, rest, time_delta >> 1 ^ -(time_delta & 1), offset_delta, key, data[p] != 1
            p = end
    except IndexError:
        raise CorruptBatch(f"payload of {end_of_data} bytes ends inside a record") from None
    if p != end_of_data:
        raise CorruptBatch(f"{end_of_data - p} bytes after the last of {count} records")


def copied(data: bytes, spans: Iterable[Span]) -> bytes:
    """The spans' bytes, one after the other."""
    view = memoryview(data)
    return b"".join([view[span[0] : span[1]] for span in spans])


def shifted(data: bytes, spans: Iterable[Span], by: int) -> bytes:
    """The spans' bytes for a base timestamp that is `by` later: every record keeps its timestamp."""
    out = bytearray()
    for _, end, rest, time_delta, _, _, _ in spans:
        head = bytearray(1)
        put_varint(head, time_delta - by)
        put_varint(out, len(head) + end - rest)
        out += head
        out += data[rest:end]
    return bytes(out)
