"""Windows of time over a stream.

    tumbling(minutes=5)                     [00:00, 00:05), [00:05, 00:10), …   a record is in one window
    hopping(minutes=5, every=60)            [00:00, 00:05), [00:01, 00:06), …   a record is in several
    sliding(seconds=10)                     windows of 10 s that end or begin at a record, wherever those are
    session(minutes=30)                     as long as records follow each other within 30 minutes

Tumbling and hopping windows are aligned to the clock (A3 K17): they begin at multiples of the advance since 1970, UTC.
A window takes records until `grace` has passed since its end, in stream time: the largest timestamp seen so far. What
comes later is counted as late (A3 K16). Without a grace a window takes records for 24 hours, as Kafka Streams did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ottla.pipelines.errors import PipelineError

DAY_MS = 86_400_000

Kind = Literal["tumbling", "hopping", "sliding", "session"]


@dataclass(frozen=True, slots=True)
class Window:
    kind: Kind
    size_ms: int  # of a session: the gap that ends it
    advance_ms: int
    grace_ms: int
    grace_given: bool


def tumbling(
    *, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: int = 0, grace: float | None = None
) -> Window:
    """Windows that follow each other. `grace` in seconds."""
    size = duration(hours, minutes, seconds, ms, "tumbling")
    return _window("tumbling", size, size, grace)


def hopping(
    *, every: float, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: int = 0, grace: float | None = None
) -> Window:
    """Windows that begin `every` so many seconds and overlap. `grace` in seconds."""
    size = duration(hours, minutes, seconds, ms, "hopping")
    advance = round(every * 1000)
    if not 0 < advance <= size:
        raise PipelineError(
            f"a hopping window of {size} ms advances by more than 0 and at most {size} ms, not {advance}"
        )
    return _window("hopping", size, advance, grace)


def sliding(
    *, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: int = 0, grace: float | None = None
) -> Window:
    """Windows of a size at every record: all sets of records that lie within it (Kafka's SlidingWindows)."""
    size = duration(hours, minutes, seconds, ms, "sliding")
    return _window("sliding", size, 0, grace)


def session(
    *, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: int = 0, grace: float | None = None
) -> Window:
    """Windows as long as records of a key follow each other within the given gap."""
    gap = duration(hours, minutes, seconds, ms, "session")
    return _window("session", gap, 0, grace)


@dataclass(frozen=True, slots=True)
class JoinWindow:
    """How far apart two records may be that join: the right one from `before` before the left one to `after` after."""

    before_ms: int
    after_ms: int
    grace_ms: int


def within(
    *,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    ms: int = 0,
    before: float | None = None,
    after: float | None = None,
    grace: float | None = None,
) -> JoinWindow:
    """The window of a join: so much on both sides; `before` and `after` (seconds) set one side apart."""
    both = duration(hours, minutes, seconds, ms, "within") if (hours or minutes or seconds or ms) else 0
    window = JoinWindow(
        both if before is None else round(before * 1000),
        both if after is None else round(after * 1000),
        DAY_MS if grace is None else round(grace * 1000),
    )
    if window.before_ms + window.after_ms < 0 or window.grace_ms < 0:
        raise PipelineError("the window of a join ends before it begins, or its grace is negative")
    if not (both or before is not None or after is not None):
        raise PipelineError("within() needs a time: within(seconds=10), or before= and after=")
    return window


def duration(hours: float, minutes: float, seconds: float, ms: float, what: str) -> int:
    total = round(hours * 3_600_000 + minutes * 60_000 + seconds * 1000 + ms)
    if total <= 0:
        raise PipelineError(f"{what}() needs a time above 0, for example {what}(seconds=5)")
    return total


def _window(kind: Kind, size: int, advance: int, grace: float | None) -> Window:
    if grace is not None and grace < 0:
        raise PipelineError(f"the grace of a window is 0 s or more, not {grace}")
    return Window(kind, size, advance, DAY_MS if grace is None else round(grace * 1000), grace is not None)
