"""Aggregates by Python functions: of a key, of a key and a window of time, of a session.

The state is the aggregate's bytes, by its serde, after 8 bytes of the largest timestamp in it (ms), which is the
timestamp of the result too. Rules of Kafka Streams:

- Records without a key are left out, and without windows also those without a value. An aggregate of None is none: its
  state goes, and a null comes out.
- Windows begin at multiples of the advance. A window is closed once stream time is at its end and grace.
- A session reaches from its first record to its last; records at most the gap apart are in one. Sessions that a record
  brings together are merged, and the former ones come out with null. A session is closed once stream time is more than
  gap and grace past its end.
- Stream time is the largest timestamp of all earlier batches. What comes for a closed window is left out here:
  whoever wants to know of it looks before (poison.late).

State of a key with sessions: when its timer is due (8 bytes), then for each session start, end, timestamp (8 bytes
each), length (4 bytes), the aggregate's bytes.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.pipelines import columns
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde
from ottla.streams.keyed_python import (
    SET_TIMER,
    Pass,
    delay_of,
    fitting,
    inside,
    keyed,
    received,
    results,
    watermarked,
)
from ottla.streams.shipping import parcel
from ottla.streams.windows import Window

Emit = Literal["update", "final"]
Function = Callable[..., Any]

_long = struct.Struct(">q")
_session = struct.Struct(">qqqi")


def aggregate(
    frame: DataFrame,
    key: Serde,
    value: Serde,
    *,
    init: Function | None,
    add: Function,
    merge: Function | None = None,
    result: Serde,
    window: Window | None = None,
    emit: Emit = "update",
    name: str = "aggregate",
) -> DataFrame:
    """Fold the records of each key: `init()`, then `add(key, value, aggregate)` for each.

    Without `init` the aggregate is None at first: a reduce. `merge(key, one, other)` joins the aggregates of two
    sessions; without it a reduce adds the one to the other. Gives key (with a window: struct key, start, end),
    value, timestamp, and the rows of records that failed (see keyed_python.results). `emit` "update": the aggregate of
    each key that a batch changes; "final": that of a window, once, when it has closed.
    """
    fold = Fold(key, value, result, init, add, merge, window, emit, name)
    fold.check()
    frame = frame.where(F.col("key").isNotNull())
    if window is None:
        frame = frame.where(F.col("value").isNotNull())
    at = inside(key).encode(F.col("key"))
    if window is not None:
        frame = watermarked(frame, window.grace_ms)
        fold = replace(fold, delay=delay_of(frame) or 0)
        frame = frame.withColumn("start", F.unix_millis("timestamp") if window.kind == "session" else _starts(window))
        closes = F.col("start") + (window.size_ms + window.grace_ms - fold.delay)
        if window.kind == "session":  # its end belongs to it
            closes = closes + 1
        frame = frame.where(closes * 1000 > columns.late_watermark())
        if window.kind != "session":
            at = F.concat(at, columns.call("Codec.fromLong", "binary", F.col("start")))
    work = parcel(fold, [(name, init), (name, add), (name, merge)])
    made = keyed(frame, at, received(key, result), work, time="none" if window is None else "event")
    return results(made, windowed=window is not None)


@dataclass(frozen=True, slots=True)
class Fold:
    """All that a worker needs to know of an aggregate. `delay`: how far the watermark is behind stream time, in ms."""

    key: Serde
    value: Serde
    result: Serde
    init: Function | None
    add: Function
    merge: Function | None
    window: Window | None
    emit: Emit
    name: str
    delay: int = 0

    def check(self) -> None:
        wanted = {
            "init": (self.init, 0, "without parameters"),
            "add": (self.add, 3, "of (key, value, aggregate)"),
            "merge": (self.merge, 3, "of (key, one, other)"),
        }
        for what, (function, count, form) in wanted.items():
            if function is not None and not _takes(function, count):
                raise PipelineError(f"{self.name} needs as {what} a function {form}, not {function!r}")
        kind = self.window.kind if self.window is not None else None
        if kind == "sliding":
            raise PipelineError(
                f"{self.name} by Python functions has no sliding windows; fold the lists of operators.sliding"
            )
        if kind == "session" and self.merge is None and self.init is not None:
            raise PipelineError(f"{self.name} over sessions needs merge, a function of (key, one, other)")
        if self.emit == "final" and self.window is None:
            raise PipelineError(f"{self.name} has no final result without a window")

    def __call__(self) -> Pass:
        if self.window is None:
            return KeyPass(self)
        return SessionPass(self, self.window) if self.window.kind == "session" else WindowPass(self, self.window)


def _takes(function: object, count: int) -> bool:
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a built-in function that tells nothing
        return True
    return True


def _starts(window: Window) -> Column:
    """When the windows of a record begin, in ms: one row for each."""
    time, advance = F.unix_millis("timestamp"), window.advance_ms
    last = time - F.pmod(time, F.lit(advance))
    if window.kind == "tumbling":
        return last
    first = last - (window.size_ms - 1) // advance * advance
    first = F.when(first + window.size_ms > time, first).otherwise(first + advance)
    return F.explode(F.sequence(F.least(F.greatest(first, F.lit(0)), last), last, F.lit(advance).cast("bigint")))


class KeyPass(Pass):
    """An aggregate for each key that Spark knows."""

    def __init__(self, fold: Fold) -> None:
        super().__init__(received(fold.key, fold.result))
        self.name, self.value = fold.name, fold.value
        add = fold.add
        self.init, self.add = fold.init or (lambda: None), add
        self.merge = fold.merge or (lambda key, one, other: other if one is None else add(key, other, one))
        self.loads_key, self.to_python = inside(fold.key).loads, fold.value.to_python
        self.loads, self.dumps = inside(fold.result).loads, inside(fold.result).dumps
        self.key_cell, self.result_cell = fitting(fold.key), fitting(fold.result)
        self.updates = fold.emit == "update"
        self.at = self.key_bytes = b""
        self.key: Any = None
        self.state: bytes | None = None
        self.aggregate: Any = None
        self.time = 0
        self.changed = False

    def enter(self, at: bytes, state: bytes | None) -> None:
        self.at = at
        self.key_bytes = self.split(at)
        self.key = self.loads_key(self.key_bytes)
        self.state = state
        self.restore()

    def split(self, at: bytes) -> bytes:
        """The key's own bytes."""
        return at

    def restore(self) -> None:
        state = self.state
        self.changed = False
        if state is None:
            self.aggregate, self.time = None, 0
        else:
            self.aggregate, self.time = self.loads(state[8:]), _long.unpack_from(state)[0]

    def record(self, row: int) -> None:
        try:
            value = self.to_python(self.batch.values[row])
            aggregate = self.aggregate
            if aggregate is None:
                aggregate = self.init()
            self.aggregate = self.add(self.key, value, aggregate)
        except Exception as error:
            self.reject(row, error, self.key_bytes)
            return
        self.changed = True
        time = self.batch.times[row]
        if time > self.time:
            self.time = time

    def timer(self, time: int) -> None:
        raise AssertionError("there are no timers without windows")

    def leave(self, first: int, last: int, mark: int) -> None:
        if not self.changed:
            return
        try:
            data = self.dumps(self.aggregate)
            cell = self.result_cell(self.aggregate)
        except Exception as error:
            self.reject_all(first, last, mark, error, self.key_bytes)
            self.restore()
            return
        state = None if data is None else _long.pack(self.time) + data
        self.write(state, cell)
        self.state = state
        self.changed = False

    def write(self, state: bytes | None, cell: Any) -> None:
        self.add_both(self.at, state, self.time, self.key_cell(self.key), cell)


class WindowPass(KeyPass):
    """An aggregate for each key and window: Spark's key is the key's bytes and the window's start (8 bytes, ms)."""

    def __init__(self, fold: Fold, window: Window) -> None:
        super().__init__(fold)
        self.size, self.open_for = window.size_ms, window.size_ms + window.grace_ms - fold.delay
        self.start = 0

    def split(self, at: bytes) -> bytes:
        (self.start,) = _long.unpack_from(at, len(at) - 8)
        return at[:-8]

    def write(self, state: bytes | None, cell: Any) -> None:
        if self.state is None and state is not None:
            self.add_timer(SET_TIMER, self.at, self.start + self.open_for)
        if self.updates:
            bounds = (self.start, self.start + self.size)
            self.add_both(self.at, state, self.time, self.key_cell(self.key), cell, bounds)
        else:
            self.add_state(self.at, state)

    def timer(self, time: int) -> None:
        """The window is closed."""
        if self.state is None:
            return
        if self.updates:
            self.add_state(self.at, None)
        else:
            bounds = (self.start, self.start + self.size)
            cell = self.result_cell(self.aggregate)
            self.add_both(self.at, None, self.time, self.key_cell(self.key), cell, bounds)
        self.state = None


@dataclass(slots=True)
class Session:
    start: int
    end: int
    time: int
    aggregate: Any
    data: bytes | None = None  # None: changed since


class SessionPass(KeyPass):
    """The sessions of each key."""

    def __init__(self, fold: Fold, window: Window) -> None:
        super().__init__(fold)
        self.gap = window.size_ms
        self.open_for = window.size_ms + window.grace_ms + 1 - fold.delay  # after its end, by the watermark
        self.sessions: list[Session] = []  # by time
        self.before: dict[tuple[int, int], bytes | None] = {}  # as they are in the state
        self.due: int | None = None  # when the timer of the key is

    def restore(self) -> None:
        state, self.sessions, self.due, self.changed = self.state, [], None, False
        if state is not None:
            place = 8
            self.due = _long.unpack_from(state)[0]
            while place < len(state):
                start, end, time, length = _session.unpack_from(state, place)
                place += _session.size + length
                data = state[place - length : place]
                self.sessions.append(Session(start, end, time, self.loads(data), data))
        self.before = {(session.start, session.end): session.data for session in self.sessions}

    def record(self, row: int) -> None:
        time = self.batch.times[row]
        met = [each for each in self.sessions if each.start - self.gap <= time <= each.end + self.gap]
        try:
            value = self.to_python(self.batch.values[row])
            joined = met[0].aggregate if met else self.init()
            for other in met[1:]:
                joined = self.merge(self.key, joined, other.aggregate)
            joined = self.add(self.key, value, joined)
        except Exception as error:
            self.reject(row, error, self.key_bytes)
            return
        kept = [each for each in self.sessions if each not in met]
        if joined is not None:
            start, end = min([time, *(each.start for each in met)]), max([time, *(each.end for each in met)])
            kept.append(Session(start, end, max([time, *(each.time for each in met)]), joined))
        self.sessions = sorted(kept, key=lambda each: each.start)
        self.changed = True

    def timer(self, time: int) -> None:
        """Close what can be closed now."""
        self.changed, self.due = True, None
        for session in [each for each in self.sessions if self._closes(each) <= self.watermark]:
            self.sessions.remove(session)
            self.before.pop((session.start, session.end), None)
            if not self.updates:
                self._add(session.start, session.end, session.time, self.result_cell(session.aggregate))

    def leave(self, first: int, last: int, mark: int) -> None:
        if not self.changed:
            return
        changed = [session for session in self.sessions if session.data is None]
        try:
            for session in changed:
                session.data = self.dumps(session.aggregate)
            cells = [self.result_cell(session.aggregate) for session in changed]
        except Exception as error:
            self.reject_all(first, last, mark, error, self.key_bytes)
            self.restore()
            return
        if self.updates:
            now = {(session.start, session.end) for session in self.sessions}
            for start, end in sorted(self.before.keys() - now):
                self._add(start, end, end, None)
            for session, cell in zip(changed, cells, strict=True):
                if self.before.get((session.start, session.end)) != session.data:
                    self._add(session.start, session.end, session.time, cell)
        self._write()
        self.changed = False

    def _add(self, start: int, end: int, time: int, cell: Any) -> None:
        self.add_result(time, self.key_cell(self.key), cell, (start, end))

    def _write(self) -> None:
        parts = []
        for each in self.sessions:
            data = each.data or b""
            parts += [_session.pack(each.start, each.end, each.time, len(data)), data]
        if self.sessions:
            next_due = min(self._closes(each) for each in self.sessions)
            if self.due is None or next_due < self.due:
                self.due = next_due
                self.add_timer(SET_TIMER, self.at, next_due)
        self.state = _long.pack(self.due) + b"".join(parts) if self.sessions and self.due is not None else None
        self.add_state(self.at, self.state)
        self.before = {(each.start, each.end): each.data for each in self.sessions}

    def _closes(self, session: Session) -> int:
        return session.end + self.open_for
