"""Which partition of its topic a coordinator keeps an id in: as in Kafka, so that logs can be taken over.

The hash is Java's of a string, over UTF-16 units: s[0] * 31^(n-1) + … + s[n-1], in 32 bits with a sign. The smallest
number has no absolute value of its own and counts as 0.
"""

from __future__ import annotations

import struct
from functools import lru_cache

REMEMBERED = 10_000  # ids; the same few ask again and again


def java_hash(text: str) -> int:
    if text.isascii():
        units: tuple[int, ...] | bytes = text.encode()
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(raw) // 2}H", raw)
    result = 0
    for unit in units:
        result = result * 31 + unit & 0xFFFFFFFF
    return result - (1 << 32) if result >> 31 else result


@lru_cache(REMEMBERED)
def partition_of(group_id: str, count: int) -> int:
    number = java_hash(group_id)
    return 0 if number == -(1 << 31) else abs(number) % count
