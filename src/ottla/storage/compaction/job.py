"""What is told to a worker that compacts a log, and what it tells: plain values, as JSON on the way (compaction.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Job:
    """What to compact, and how."""

    directory: str
    segments: list[int]  # base offsets of all below `end`
    first_dirty: int
    end: int
    producers: list[tuple[int, int, int]]  # producer id, epoch, offset of its last record (-1: only a marker)
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval: int
    levels: list[int | None]  # by codec
    memory: int  # of the offset map
    load_factor: float
    buffer: int  # bytes read or written at once
    bytes_per_second: float


@dataclass(slots=True)
class Group:
    """Segments that were compacted into one, whose files are ready."""

    base_offset: int
    replaced: list[int]
    size: int


@dataclass(slots=True)
class Totals:
    """What the work came to."""

    end: int = 0  # the log is clean up to here
    fits: bool = True  # whether the map held at least one whole segment
    keys: int = 0
    map_keys: int = 0  # that the map could have held
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    without_key: int = 0
    mapping_seconds: float = 0.0
    seconds: float = 0.0
    peak_memory: int = 0
