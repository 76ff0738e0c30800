"""Reading what clients push."""

from __future__ import annotations

import contextlib
import struct
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.telemetry.otlp import Malformed, read_metrics
from support import otlp


def test_points_of_all_kinds_are_read_with_their_labels() -> None:
    data = otlp.metrics(
        otlp.gauge("a.gauge", otlp.number(1.5, node=3), description="How much."),
        otlp.total("a.total", otlp.number(-2, ok=True), otlp.number(7, ratio=0.5)),
        otlp.total("a.level", otlp.number(4), delta=False, monotonic=False),
        otlp.histogram("a.time", [1, 2, 3], [0.1, 1.0], 9.5, topic="t"),
        otlp.summary("a.size", 4, 10.0, {0.99: 8.0, 0.5: 2.0}),
        group_id="g",
    )
    gauge, first, second, level, time, size = read_metrics(data)
    assert gauge == ("a.gauge", "How much.", "gauge", False, (("group_id", "g"), ("node", "3")), 1.5, 0, (), (), ())
    assert (first.kind, first.delta, first.value, first.labels[1:]) == ("counter", True, -2.0, (("ok", "true"),))
    assert (second.value, second.labels[1:]) == (7.0, (("ratio", "0.5"),))
    assert (level.kind, level.delta, level.value) == ("gauge", False, 4.0)
    assert (time.kind, time.observed, time.value) == ("histogram", 6, 9.5)
    assert (time.buckets, time.bounds, time.labels[1:]) == ((1, 2, 3), (0.1, 1.0), (("topic", "t"),))
    assert (size.kind, size.observed, size.value, size.quantiles) == ("summary", 4, 10.0, ((0.5, 2.0), (0.99, 8.0)))


def test_negative_whole_numbers_of_labels_are_negative() -> None:
    (point,) = read_metrics(otlp.metrics(otlp.gauge("g", otlp.number(1, partition=-1))))
    assert point.labels == (("partition", "-1"),)


def test_what_is_not_used_is_passed_over() -> None:
    data = otlp.metrics(otlp.gauge("g", otlp.number(1) + otlp.field(5, b"an exemplar") + otlp.field(99, 12)))
    data += otlp.field(2, b"???") + otlp.varint(7 << 3 | 5) + b"four"
    data += otlp.metrics(otlp.field(1, "exponential") + otlp.field(10, b"\xff"))
    assert [point.name for point in read_metrics(data)] == ["g"]
    assert list(read_metrics(b"")) == []


def test_numbers_that_are_not_packed_are_read_as_well() -> None:
    point = otlp.fixed(4, 3) + otlp.field(5, 2.0) + otlp.fixed(6, 1) + otlp.fixed(6, 2) + otlp.field(7, 0.5)
    data = otlp.metrics(otlp.field(1, "h") + otlp.field(9, otlp.field(1, point)))
    (read,) = read_metrics(data)
    assert (read.buckets, read.bounds) == ((1, 2), (0.5,))


WHOLE = otlp.metrics(
    otlp.gauge("a", otlp.number(1.5, x="y")), otlp.histogram("h", [1, 2], [0.5], 1.0), otlp.total("t", otlp.number(3))
)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (WHOLE[:-1], "left"),
        (b"\x0a", "cut off"),
        (b"\x0a\xff", "cut off"),
        (b"\x08" + b"\xff" * 11, "more than 10 bytes"),
        (b"\x00\x01", "field number 0"),
        (b"\x0b", "wire type 3"),
        (b"\x0f", "wire type 7"),
        (otlp.field(1, 5), "a number where bytes should be"),
        (b"not protobuf at all", "wire type"),
        (otlp.metrics(otlp.field(1, b"\xff") + otlp.field(5, b"")), "UTF-8"),
        (otlp.metrics(otlp.field(5, otlp.field(1, otlp.number(1)))), "no name"),
        (otlp.metrics(otlp.field(1, "n") + otlp.field(5, otlp.field(1, otlp.field(4, b"short")))), "5 bytes"),
        (otlp.metrics(otlp.field(1, "n") + otlp.field(7, otlp.field(2, "delta"))), "bytes where a number should be"),
        (otlp.metrics(otlp.histogram("h", [1, 2], [0.5, 1.0], 1.0)), "2 buckets and 2 bounds"),
        (otlp.metrics(otlp.histogram("h", [1, 2, 3], [1.0, 0.5], 1.0)), "do not rise"),
        (otlp.metrics(otlp.histogram("h", [1, 2], [float("nan")], 1.0)), "do not rise"),
        (otlp.metrics(otlp.field(1, "h") + otlp.field(9, otlp.field(1, otlp.field(6, b"1234567")))), "7 bytes"),
    ],
)
def test_what_cannot_be_read_is_malformed(data: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        list(read_metrics(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        list(read_metrics(data))


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_malformed(at: int, byte: int) -> None:
    with contextlib.suppress(Malformed):
        list(read_metrics(WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :]))


def test_the_time_is_bounded_by_the_bytes() -> None:
    nested = otlp.field(1, b"")
    for _ in range(200):
        nested = otlp.field(1, nested)
    before = process_time()
    with contextlib.suppress(Malformed):
        list(read_metrics(nested * 100))
    list(read_metrics(struct.pack("<BB", 0x10, 1) * 100_000))
    assert process_time() - before < 5
