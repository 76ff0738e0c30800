"""A log's side of compaction: what it tells those who decide and those who work, and how it takes up the result.

The swap happens between two requests. New files go from `.cleaned` to `.swap`, the old ones to `.deleted`, the new
ones to their names; a crash at any step is settled at the next start (leftovers.py). Readers that are under way hold
the old files open and go on undisturbed.
"""

from __future__ import annotations

from pathlib import Path

from ottla.storage.compaction.decisions import Dirt, Row, asks_for_timestamps, judge
from ottla.storage.compaction.job import Group, Job
from ottla.storage.errors import CorruptLog
from ottla.storage.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from ottla.storage.log import Log
from ottla.storage.recompression import compression_levels
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_name

SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)  # in the order in which they are renamed


class SegmentsGone(Exception):
    """Segments were deleted while they were compacted; the result is of no use."""


def dirt_of(log: Log, *, checkpoint: int | None, stable_offset: int, now_ms: int) -> Dirt:
    """What there is to compact now."""
    config = log.config
    timed = asks_for_timestamps(config)
    rows = []
    for segment in log.segments:
        if timed and segment is not log.active:
            segment.load()
        rows.append(Row(segment.base_offset, segment.size, segment.first_timestamp, segment.max_timestamp))
    return judge(
        rows,
        checkpoint=checkpoint,
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        stable_offset=stable_offset,
        flushed_offset=log.recovery_point,
        config=config,
        now_ms=now_ms,
    )


def job_for(
    log: Log, dirt: Dirt, *, now_ms: int, memory: int, load_factor: float, buffer: int, bytes_per_second: float
) -> Job:
    config = log.config
    producers = []
    for producer_id, state in log.producers.items():
        last = -1
        if state.batches:
            first_sequence, last_sequence, offset, _ = state.batches[-1]
            last = offset + ((last_sequence - first_sequence) & 0x7FFFFFFF)
        producers.append((producer_id, state.epoch, last))
    return Job(
        directory=str(log.directory),
        segments=[segment.base_offset for segment in log.segments if segment.base_offset < dirt.end],
        first_dirty=dirt.first_dirty,
        end=dirt.end,
        producers=producers,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        index_bytes=config.segment_index_bytes,
        index_interval=config.index_interval_bytes,
        levels=compression_levels(config),
        memory=memory,
        load_factor=load_factor,
        buffer=buffer,
        bytes_per_second=bytes_per_second,
    )


def swap_in(log: Log, group: Group) -> list[Path]:
    """Put a compacted segment in the place of those it was made from.

    Returns their files, out of sight, for the caller to remove when nobody reads them any more.
    """
    by_base = {segment.base_offset: at for at, segment in enumerate(log.segments[:-1])}
    first = by_base.get(group.base_offset)
    old = [] if first is None else log.segments[first : first + len(group.replaced)]
    if first is None or [segment.base_offset for segment in old] != group.replaced or log.active in old:
        remove_cleaned(log.directory, group.base_offset)
        raise SegmentsGone(f"{log.directory.name}: segments {group.replaced} are no more all there")
    new = Segment(log.directory, group.base_offset)
    new.take_up(log.segments[first + len(old)].base_offset, group.size)
    names = [file_name(group.base_offset, suffix) for suffix in SUFFIXES]
    try:
        _rename(log.directory, names, CLEANED_SUFFIX, SWAP_SUFFIX)
    except OSError:
        remove_cleaned(log.directory, group.base_offset)  # a `.swap` must not outlive what it was made from
        raise
    try:
        aside = log.replace(old, new)
        _rename(log.directory, names, SWAP_SUFFIX, "")
    except OSError as error:
        raise CorruptLog(
            f"{log.directory}: the compacted segment {group.base_offset} could not be put in place: {error}; the next "
            "start does it"
        ) from error
    return aside


def _rename(directory: Path, names: list[str], old: str, new: str) -> None:
    for name in names:
        try:
            (directory / (name + old)).rename(directory / (name + new))
        except FileNotFoundError:
            if name.endswith(LOG_SUFFIX):
                raise


def remove_cleaned(directory: Path, base_offset: int | None = None) -> None:
    """Remove what a compaction that came to nothing has written, all of it or one segment."""
    pattern = "*" if base_offset is None else f"{base_offset:020d}.*"
    for suffix in (CLEANED_SUFFIX, SWAP_SUFFIX):
        for path in directory.glob(pattern + suffix):
            path.unlink(missing_ok=True)
