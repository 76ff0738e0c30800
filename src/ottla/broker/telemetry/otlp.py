"""A reader of OpenTelemetry's metrics, as clients push them: protobuf, of which only the fields that are used are read.

    field   = varint (number << 3 | wire type) | value
    value   = 0: varint   1: 8 bytes, little endian   2: varint length, that many bytes   5: 4 bytes

    MetricsData      1 ResourceMetrics*
    ResourceMetrics  1 Resource {1 KeyValue*}   2 ScopeMetrics {2 Metric*}*
    Metric           1 name   2 description   5 Gauge   7 Sum   9 Histogram   11 Summary
    Gauge, Summary   1 point*
    Sum, Histogram   1 point*   2 temporality (1 delta, 2 cumulative)   3 is monotonic (of a Sum)
    NumberPoint      4 double   6 int64 (8 bytes)   7 KeyValue*
    HistogramPoint   4 count   5 sum   6 bucket counts   7 bounds   9 KeyValue*
    SummaryPoint     4 count   5 sum   6 {1 quantile   2 value}*   7 KeyValue*
    KeyValue         1 key   2 {1 string   2 bool   3 int   4 double}

Fields may come in any order and, where there should be one, several times; the last one holds. What is not named here
(units, exemplars, times, exponential histograms, values that are lists) is passed over. Anything that is not protobuf,
or not of these types, is Malformed. The depth is that of the table above: no input makes it deeper.

The packages that do this (protobuf, opentelemetry-proto) cost more memory than all that a broker holds at rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DELTA, CUMULATIVE = 1, 2

_DOUBLE = struct.Struct("<d")
_INT64 = struct.Struct("<q")
_UINT64 = struct.Struct("<Q")

Labels = tuple[tuple[str, str], ...]
Value = int | bytes


class Malformed(ValueError):
    """Bytes that are not what they should be; says where."""


class Point(NamedTuple):
    """One measured value, or several. `labels` are those of the resource, then the point's own."""

    name: str
    description: str
    kind: str  # gauge, counter, histogram, summary; a sum that may fall is a gauge
    delta: bool  # what was added since the last push, not all since the start
    labels: Labels
    value: float = 0.0  # of histograms and summaries: the sum
    observed: int = 0  # values that a histogram or summary is made of
    buckets: tuple[int, ...] = ()  # one more than bounds
    bounds: tuple[float, ...] = ()
    quantiles: tuple[tuple[float, float], ...] = ()


def read_metrics(data: bytes) -> Iterator[Point]:
    """The points of a MetricsData. Raises Malformed, which may come after some points."""
    for number, value in _fields(data):
        if number == 1:
            yield from _resource_metrics(_bytes(value))


def _resource_metrics(data: bytes) -> Iterator[Point]:
    labels: list[tuple[str, str]] = []
    scopes = []
    for number, value in _fields(data):
        if number == 1:
            labels += [_label(_bytes(one)) for inner, one in _fields(_bytes(value)) if inner == 1]
        elif number == 2:
            scopes.append(_bytes(value))
    for scope in scopes:
        for number, value in _fields(scope):
            if number == 2:
                yield from _metric(_bytes(value), labels)


def _metric(data: bytes, labels: list[tuple[str, str]]) -> Iterator[Point]:
    name = description = ""
    body, kind = b"", 0
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number == 2:
            description = _text(value)
        elif number in (5, 7, 9, 11):
            body, kind = _bytes(value), number
    if not kind:
        return
    if not name:
        raise Malformed("a metric has no name")
    points, delta, monotonic = [], False, False
    for number, value in _fields(body):
        if number == 1:
            points.append(_bytes(value))
        elif number == 2 and kind in (7, 9):
            delta = _int(value) == DELTA
        elif number == 3 and kind == 7:
            monotonic = bool(_int(value))
    for point in points:
        if kind == 9:
            yield _histogram(point, name, description, delta, labels)
        elif kind == 11:
            yield _summary(point, name, description, labels)
        else:
            yield _number(point, name, description, "counter" if monotonic else "gauge", delta, labels)


def _number(data: bytes, name: str, description: str, kind: str, delta: bool, resource: list[tuple[str, str]]) -> Point:
    measured, labels = 0.0, list(resource)
    for number, value in _fields(data):
        if number == 4:
            measured = _double(value)
        elif number == 6:
            measured = float(_INT64.unpack(_eight(value))[0])
        elif number == 7:
            labels.append(_label(_bytes(value)))
    return Point(name, description, kind, delta, tuple(labels), measured)


def _histogram(data: bytes, name: str, description: str, delta: bool, resource: list[tuple[str, str]]) -> Point:
    count, total, labels = 0, 0.0, list(resource)
    buckets: list[int] = []
    bounds: list[float] = []
    for number, value in _fields(data):
        if number == 4:
            count = _UINT64.unpack(_eight(value))[0]
        elif number == 5:
            total = _double(value)
        elif number == 6:
            buckets += [one for (one,) in _UINT64.iter_unpack(_eights(value))]
        elif number == 7:
            bounds += [one for (one,) in _DOUBLE.iter_unpack(_eights(value))]
        elif number == 9:
            labels.append(_label(_bytes(value)))
    if (buckets or bounds) and len(buckets) != len(bounds) + 1:
        raise Malformed(f"{name} has {len(buckets)} buckets and {len(bounds)} bounds")
    if any(not low < high for low, high in pairwise(bounds)) or any(one != one for one in bounds):
        raise Malformed(f"the bounds of {name} do not rise")
    return Point(
        name, description, "histogram", delta, tuple(labels), total, count, buckets=tuple(buckets), bounds=tuple(bounds)
    )


def _summary(data: bytes, name: str, description: str, resource: list[tuple[str, str]]) -> Point:
    count, total, labels, quantiles = 0, 0.0, list(resource), {}
    for number, value in _fields(data):
        if number == 4:
            count = _UINT64.unpack(_eight(value))[0]
        elif number == 5:
            total = _double(value)
        elif number == 6:
            quantile, measured = 0.0, 0.0
            for inner, one in _fields(_bytes(value)):
                if inner == 1:
                    quantile = _double(one)
                elif inner == 2:
                    measured = _double(one)
            quantiles[quantile] = measured
        elif number == 7:
            labels.append(_label(_bytes(value)))
    return Point(
        name, description, "summary", False, tuple(labels), total, count, quantiles=tuple(sorted(quantiles.items()))
    )


def _label(data: bytes) -> tuple[str, str]:
    key = text = ""
    for number, value in _fields(data):
        if number == 1:
            key = _text(value)
        elif number == 2:
            for kind, one in _fields(_bytes(value)):
                if kind == 1:
                    text = _text(one)
                elif kind == 2:
                    text = "true" if _int(one) else "false"
                elif kind == 3:
                    signed = _int(one)
                    text = str(signed - (1 << 64) if signed >> 63 else signed)
                elif kind == 4:
                    text = repr(_double(one))
    return key, text


# -- protobuf ------------------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Number and value of each field; varints as int, everything else as its bytes."""
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = _varint(data, at - 1)
        kind = tag & 7
        if not tag >> 3:
            raise Malformed("field number 0")
        if kind == BYTES:
            length = data[at] if at < end else 0x80
            at += 1
            if length >= 0x80:
                length, at = _varint(data, at - 1)
            after = at + length
        elif kind == VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        elif kind == FIXED64:
            after = at + 8
        elif kind == FIXED32:
            after = at + 4
        else:
            raise Malformed(f"wire type {kind}")
        if after > end:
            raise Malformed(f"a field of {after - at} bytes, {end - at} left")
        yield tag >> 3, data[at:after]
        at = after


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise Malformed("cut off in a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise Malformed("a number of more than 10 bytes")


def _int(value: Value) -> int:
    if isinstance(value, bytes):
        raise Malformed("bytes where a number should be")
    return value


def _bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise Malformed("a number where bytes should be")
    return value


def _text(value: Value) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise Malformed("text that is not UTF-8") from None


def _eight(value: Value) -> bytes:
    if len(data := _bytes(value)) != 8:
        raise Malformed(f"a number of {len(data)} bytes where 8 should be")
    return data


def _eights(value: Value) -> bytes:
    """Packed numbers of 8 bytes each, or a single one."""
    if len(data := _bytes(value)) % 8:
        raise Malformed(f"{len(data)} bytes where numbers of 8 should be")
    return data


def _double(value: Value) -> float:
    return float(_DOUBLE.unpack(_eight(value))[0])
