"""A writer of OpenTelemetry's metrics, by the field numbers of its protobuf definition."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | float | str | bytes) -> bytes:
    """A field: text and bytes with a length, int as varint, float as 8 bytes."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fixed(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<q", value)


def attributes(number: int, labels: Mapping[str, str | int | float | bool]) -> bytes:
    return b"".join(field(number, field(1, name) + field(2, _any(value))) for name, value in labels.items())


def _any(value: str | int | float | bool) -> bytes:
    kind = {str: 1, bool: 2, int: 3, float: 4}[type(value)]
    return field(kind, int(value) if isinstance(value, bool) else value)


def number(value: int | float, **labels: str | int | float | bool) -> bytes:
    """A NumberDataPoint."""
    at = fixed(2, 1_700_000_000) + fixed(3, 1_700_000_001)
    return at + attributes(7, labels) + (field(4, value) if isinstance(value, float) else fixed(6, value))


def gauge(name: str, *points: bytes, description: str = "") -> bytes:
    return field(1, name) + field(2, description) + field(5, b"".join(field(1, point) for point in points))


def total(name: str, *points: bytes, delta: bool = True, monotonic: bool = True, description: str = "") -> bytes:
    """A Sum."""
    body = b"".join(field(1, point) for point in points) + field(2, 1 if delta else 2) + field(3, int(monotonic))
    return field(1, name) + field(2, description) + field(7, body)


def histogram(
    name: str, counts: Sequence[int], bounds: Sequence[float], sum: float, *, delta: bool = True, **labels: str
) -> bytes:
    from builtins import sum as add

    point = fixed(4, add(counts)) + field(5, sum) + attributes(9, labels)
    point += field(6, struct.pack(f"<{len(counts)}Q", *counts)) + field(7, struct.pack(f"<{len(bounds)}d", *bounds))
    return field(1, name) + field(9, field(1, point) + field(2, 1 if delta else 2))


def summary(name: str, count: int, sum: float, quantiles: Mapping[float, float]) -> bytes:
    point = fixed(4, count) + field(5, sum)
    point += b"".join(field(6, field(1, quantile) + field(2, value)) for quantile, value in quantiles.items())
    return field(1, name) + field(11, field(1, point))


def metrics(*metrics: bytes, **resource: str) -> bytes:
    """A MetricsData with one resource."""
    scope = field(1, field(1, "test")) + b"".join(field(2, one) for one in metrics)
    return field(1, field(1, attributes(1, resource)) + field(2, scope))
