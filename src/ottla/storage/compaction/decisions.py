"""When a log is compacted, how far, and which one first: decisions, made from numbers alone (KIP-58, KIP-354).

    start ……………… clean ……………… first dirty ……………… dirty ……………… end ……… left alone ……… active segment
                                 (checkpoint)                     (a segment's base)

The dirty part ends before the first segment that holds or follows: the active segment, the last stable offset (so also
the high watermark), what is not on disk yet, a record younger than `min.compaction.lag.ms`.

A log is due when its dirty share of bytes is above `min.cleanable.dirty.ratio`, or when a dirty record has waited
longer than `max.compaction.lag.ms`. Overdue logs come first, then the dirtiest (A1 S-34).

The active segment is never compacted (S-41); so that a log which is seldom written to is compacted at all, its active
segment is rolled when it is older than `segment.ms` or `max.compaction.lag.ms`, even when nothing is written. (Kafka
rolls at the next write.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ottla.config.topic import TopicConfig

MAX_LONG = (1 << 63) - 1
MAX_RELATIVE_OFFSET = (1 << 31) - 1
GROUP = 64  # segments that become one at once: a swap is done between two requests, and its renames take time

T = TypeVar("T")


class Row(NamedTuple):
    """A segment. Its timestamps are looked at only where `asks_for_timestamps`."""

    base_offset: int
    size: int
    first_timestamp: int = -1
    max_timestamp: int = -1


@dataclass(slots=True, frozen=True)
class Dirt:
    """What there is to compact in a log."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int = 0
    lost_checkpoint: str = ""  # why the checkpoint could not be believed

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        return self.dirty_bytes > 0 and (self.overdue_ms > 0 or self.ratio > config.min_cleanable_dirty_ratio)


def asks_for_timestamps(config: TopicConfig) -> bool:
    return config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms < MAX_LONG


def first_dirty_offset(checkpoint: int | None, start_offset: int, end_offset: int) -> tuple[int, str]:
    """Where the dirty part begins, and why not at the checkpoint if that cannot be."""
    if checkpoint is None:
        return start_offset, ""
    if checkpoint > end_offset:
        return start_offset, f"it was cleaned up to {checkpoint}, and ends at {end_offset}"
    return max(checkpoint, start_offset), ""


def judge(
    rows: Sequence[Row],
    *,
    checkpoint: int | None,
    start_offset: int,
    end_offset: int,
    stable_offset: int,
    flushed_offset: int,
    config: TopicConfig,
    now_ms: int,
) -> Dirt:
    """What there is to compact in the log with these segments, the active one last."""
    first_dirty, lost = first_dirty_offset(checkpoint, start_offset, end_offset)
    bases = [row.base_offset for row in rows[1:]]
    dirty = [row for row, following in zip(rows, bases, strict=False) if following > first_dirty]  # but the active one
    limit = min(stable_offset, flushed_offset, rows[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        youngest = now_ms - config.min_compaction_lag_ms
        limit = min([limit, *(row.base_offset for row in dirty if row.max_timestamp > youngest)])
    # The segment that holds the limit is the first to be left alone; what lies below it is whole.
    end = max((row.base_offset for row in rows if row.base_offset <= limit), default=first_dirty)
    overdue = 0
    if config.max_compaction_lag_ms < MAX_LONG:
        oldest = min((row.first_timestamp for row in dirty if row.first_timestamp > 0), default=MAX_LONG)
        overdue = max(now_ms - config.max_compaction_lag_ms - oldest, 0)
    return Dirt(
        first_dirty,
        end,
        sum(row.size for row, following in zip(rows, bases, strict=False) if following <= first_dirty),
        sum(row.size for row in dirty if row.base_offset < end),
        overdue,
        lost,
    )


def filthiest(found: Iterable[tuple[T, Dirt]]) -> tuple[T, Dirt] | None:
    """Of logs that are due, the one to compact next."""
    return max(found, key=lambda one: (one[1].overdue_ms > 0, one[1].ratio), default=None)


def should_roll(first_timestamp: int, size: int, config: TopicConfig, now_ms: int) -> bool:
    """Whether the active segment of a compacted log has waited long enough."""
    return (
        size > 0
        and first_timestamp >= 0
        and now_ms - first_timestamp > min(config.segment_ms, config.max_compaction_lag_ms)
    )


class Files(NamedTuple):
    """The sizes of a segment's files."""

    base_offset: int
    log: int
    offset_index: int
    time_index: int


def groups(segments: Sequence[Files], *, segment_bytes: int, index_bytes: int, end: int) -> list[list[Files]]:
    """Which segments become one, so that none is larger than a segment may be. `end` is the base of the next one."""
    grouped: list[list[Files]] = []
    log = index = time_index = 0
    ends = [segment.base_offset for segment in segments[1:]] + [end]
    for segment, following in zip(segments, ends, strict=False):
        fits = (
            grouped
            and len(grouped[-1]) < GROUP
            and log + segment.log <= segment_bytes
            and index + segment.offset_index <= index_bytes
            and time_index + segment.time_index <= index_bytes
            and (not segment.log or following - 1 - grouped[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if not fits:
            grouped.append([])
            log = index = time_index = 0
        grouped[-1].append(segment)
        log, index, time_index = log + segment.log, index + segment.offset_index, time_index + segment.time_index
    return grouped
