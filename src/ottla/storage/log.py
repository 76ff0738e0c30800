"""The log of one partition: segments in a row, the producers and leader epochs that wrote them.

    orders-0/
      00000000000000000000.log .index .timeindex      segments (segment.py)
      00000000000000001041.log …                      the last one is written to
      00000000000000001041.snapshot                   producers as of that offset (producers.py)
      leader-epoch-checkpoint                         (epochs.py)
      partition.metadata                              version, topic id

Offsets start at `start_offset` and end before `end_offset`, the one that the next record gets. Batches are stored as
they came, with base offset and leader epoch written into them. A log belongs to one thread; opening may happen in
any.

After a proper stop the files are believed. Otherwise everything from the recovery point on is read, checked against its
CRCs and cut behind the last good batch: what was acknowledged had reached the page cache, so the death of the process
alone takes nothing away.
"""

from __future__ import annotations

import logging
import os
import random
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

from ottla.config.topic import TopicConfig
from ottla.protocol.batch import CONTROL, BatchHeader
from ottla.protocol.records import first_at_or_after, max_timestamp_record
from ottla.storage import leftovers
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.errors import OffsetOutOfRange
from ottla.storage.file import FileSlice, Handles
from ottla.storage.producers import CorruptSnapshot, ProducerStates
from ottla.storage.segment import LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment, file_name

logger = logging.getLogger(__name__)

EPOCH_FILE = "leader-epoch-checkpoint"
DECOMPRESSED_LIMIT = 512 * 1024 * 1024  # of one batch, when its records must be looked at

MAX_RELATIVE_OFFSET = 0x7FFFFFFF  # an index entry has 31 bits for it

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")


class Log:
    __slots__ = (
        "_bases",
        "_handles",
        "_jitter",
        "active",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "on_roll",
        "producers",
        "recovery_point",
        "segments",
        "start_offset",
    )

    def __init__(self, directory: Path, config: TopicConfig, handles: Handles | None = None) -> None:
        self._handles = handles or Handles()
        self.directory = directory
        self.config = config
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self.active: Segment
        self.start_offset = 0
        self.end_offset = 0
        self.recovery_point = 0
        self.producers = ProducerStates()
        self.epochs = LeaderEpochs(directory / EPOCH_FILE)
        self.on_roll: Callable[[Log, Segment], None] | None = None  # told of each segment that is now complete
        self._jitter = 0

    # -- opening and closing -------------------------------------------------------------------------------------

    def create(self) -> None:
        """Begin an empty log in a new directory."""
        self.directory.mkdir(parents=True)
        self._begin_segment(0)

    def open(self, *, clean: bool, recovery_point: int = 0, start_offset: int = 0) -> None:
        """Take up the log as it lies on disk."""
        sizes = self._sizes()
        bases = sorted(sizes)
        self.epochs.open()
        self.recovery_point = recovery_point
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            segment = Segment(self.directory, base)
            self._add(segment)
            if following is not None and (clean or following <= recovery_point):
                segment.take_up(following, sizes[base])
            elif clean:
                segment.open()
            elif self._recover(segment) and following is not None:
                self._drop_behind(bases)
                break
        if not bases:
            self._begin_segment(start_offset)
        self.end_offset = self.active.next_offset
        self.recovery_point = min(self.recovery_point, self.end_offset)
        self.start_offset = min(max(start_offset, self.segments[0].base_offset), self.end_offset)
        self.epochs.truncate_start(self.start_offset)
        self.epochs.truncate_end(self.end_offset)
        self._load_producers()

    def _sizes(self) -> dict[int, int]:
        """Base offset and size of each `.log`, after putting in order what a crash may have left behind."""
        sizes = {}
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith(LOG_SUFFIX):
                    sizes[int(entry.name.removesuffix(LOG_SUFFIX))] = entry.stat().st_size
                elif entry.name.endswith(leftovers.SUFFIXES):
                    break
            else:
                return sizes
        leftovers.settle(self.directory)
        return {int(path.stem): path.stat().st_size for path in self.directory.glob("*" + LOG_SUFFIX)}

    def _recover(self, segment: Segment) -> bool:
        """Check a segment that may be damaged; whether something was cut off."""
        lost = segment.recover(index_interval=self.config.index_interval_bytes)
        if lost:
            logger.warning(
                "%s: cut off %d bytes behind offset %d that were never acknowledged or are damaged",
                self.directory.name,
                lost,
                segment.next_offset,
            )
        return lost > 0

    def _begin_segment(self, base_offset: int) -> None:
        segment = Segment(self.directory, base_offset)
        segment.create(self.config.segment_bytes if self.config.preallocate else 0)
        self._add(segment)

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        jitter = min(self.config.segment_jitter_ms, self.config.segment_ms)
        self._jitter = random.randrange(jitter) if jitter > 0 else 0

    def _drop_behind(self, bases: list[int]) -> None:
        for base in bases[bases.index(self.active.base_offset) + 1 :]:
            logger.warning("%s: dropping segment %d behind a damaged one", self.directory.name, base)
            Segment(self.directory, base).delete_files()

    def close(self) -> None:
        """Put everything on disk, so that the next opening may believe it."""
        for segment in self.segments:
            if segment is self.active or segment.base_offset >= self.recovery_point:
                segment.seal()
                segment.fsync()
        self._snapshot()
        self.recovery_point = self.end_offset
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are."""
        for segment in self.segments:
            segment.close()

    # -- writing -------------------------------------------------------------------------------------------------

    def append(self, batch: memoryview | bytearray, leader_epoch: int, header: tuple[int, ...], timestamp: int) -> int:
        """Write a checked batch at the end; returns the offset of its first record.

        `header` is the batch's, as unpacked; `timestamp` its largest. Offset and epoch are written into `batch` itself.
        """
        segment = self.active
        base = self.end_offset
        last = base + header[6]
        config = self.config
        if segment.size and (
            segment.size + len(batch) > config.segment_bytes
            or timestamp - segment.first_timestamp > config.segment_ms - self._jitter
            or segment.index_bytes > config.segment_index_bytes
            or last - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            segment = self.roll()
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base)
        _OFFSET.pack_into(batch, 0, base)
        _EPOCH.pack_into(batch, 12, leader_epoch)
        segment.append(batch, base, last, timestamp, config.index_interval_bytes)
        self.end_offset = last + 1
        if header[9] >= 0 and not header[5] & CONTROL:
            first = header[11]
            self.producers.appended(header[9], header[10], first, (first + header[6]) & 0x7FFFFFFF, base, timestamp)
        return base

    def roll(self) -> Segment:
        """Begin a new segment at the end offset."""
        old = self.active
        old.seal()
        self._begin_segment(self.end_offset)
        self._snapshot()
        if self.on_roll is not None:
            self.on_roll(self, old)
        return self.active

    # -- deleting ------------------------------------------------------------------------------------------------

    def move_start(self, offset: int) -> None:
        """Records below `offset` are no more to be seen."""
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_start(offset)

    def delete_oldest(self, count: int) -> list[Path]:
        """Take the `count` oldest segments out of the log, which then begins behind them.

        Returns their files, out of sight, for the caller to remove when nobody reads them any more.
        """
        if count >= len(self.segments):
            self.roll()
        aside = []
        try:
            for _ in range(count):
                oldest = self.segments[0]
                aside += oldest.set_aside()
                self._handles.forget(oldest)
                del self.segments[0], self._bases[0]
        finally:
            first = self.segments[0].base_offset
            self.recovery_point = max(self.recovery_point, first)
            self.move_start(first)
        return aside

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, offset: int, limit: int, below: int, at_least_one: bool) -> tuple[bytes | FileSlice | None, int]:
        """Batches from the one with `offset` on, of offsets under `below`; see Segment.read."""
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        active = self.active
        if offset >= active.base_offset:
            return active.read(offset, limit, below, at_least_one)
        at = bisect_right(self._bases, offset) - 1
        while at < len(self.segments) - 1:
            self._handles.use(self.segments[at])
            data, length = self.segments[at].read(offset, limit, below, at_least_one)
            if length:
                return data, length
            following = self.segments[at + 1].base_offset
            if following >= below or self.segments[at].position_of(offset) < self.segments[at].size:
                return data, length
            at, offset = at + 1, following  # a gap at the segment's end, left by compaction
        return active.read(offset, limit, below, at_least_one)

    def batches(self, offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Every batch from the one with `offset` on."""
        at = max(0, bisect_right(self._bases, offset) - 1)
        for segment in self.segments[at:]:
            self._use(segment)
            for position, header in segment.batches(segment.position_of(offset)):
                yield segment, position, header

    # -- looking up ----------------------------------------------------------------------------------------------

    def batches_not_older(self, timestamp: int) -> Iterator[bytes]:
        """The batches that may hold the first record not older than `timestamp`, the likeliest first."""
        for segment in list(self.segments):
            if segment.next_offset <= self.start_offset:
                continue
            self._use(segment)
            for position, header in segment.batches_not_older(timestamp, self.start_offset):
                if not header.is_control:
                    yield segment.batch_at(position)

    def newest_batch(self) -> bytes | None:
        """The batch with the newest record by its timestamp."""
        newest: Segment | None = None
        for segment in self.segments:
            self._use(segment)
            segment.load()
            if segment.size and segment.max_timestamp > (newest.max_timestamp if newest else -1):
                newest = segment
        if newest is None:
            return None
        self._use(newest)
        return newest.batch_at(newest.position_of(newest.max_timestamp_offset))

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record that is not older than `timestamp`."""
        for batch in self.batches_not_older(timestamp):
            found = first_at_or_after(batch, timestamp, DECOMPRESSED_LIMIT, start_offset=self.start_offset)
            if found is not None:
                return found
        return None

    def max_timestamp_offset(self) -> tuple[int, int]:
        """(timestamp, offset) of the newest record by its timestamp; (-1, -1) when there is none."""
        batch = self.newest_batch()
        return (-1, -1) if batch is None else max_timestamp_record(batch, DECOMPRESSED_LIMIT)

    def _use(self, segment: Segment) -> None:
        if segment is not self.active:
            self._handles.use(segment)

    def segment_base_offsets(self) -> list[int]:
        return list(self._bases)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    # -- producers -----------------------------------------------------------------------------------------------

    def _snapshot(self) -> None:
        """Keep the producers as they are at the end; older snapshots than the last two are of no more use."""
        if len(self.producers) or any(self.directory.glob("*" + SNAPSHOT_SUFFIX)):
            self.producers.save(self.directory / file_name(self.end_offset, SNAPSHOT_SUFFIX))
            bases = set(self._bases[-2:])
            for offset, path in self._snapshots():
                if offset != self.end_offset and offset not in bases:
                    path.unlink(missing_ok=True)

    def _snapshots(self) -> list[tuple[int, Path]]:
        found = [(int(path.stem), path) for path in self.directory.glob("*" + SNAPSHOT_SUFFIX) if path.stem.isdigit()]
        return sorted(found, reverse=True)

    def _load_producers(self) -> None:
        """The newest snapshot that can be believed, and what was written after it."""
        self.producers.clear()
        replay_from = self.start_offset
        for offset, path in self._snapshots():
            if offset > self.end_offset:
                path.unlink()
                continue
            try:
                self.producers.decode(path.read_bytes())
            except CorruptSnapshot as error:
                logger.warning("%s: ignoring %s: %s", self.directory.name, path.name, error)
                path.unlink()
                continue
            replay_from = offset
            break
        if replay_from >= self.end_offset:
            return
        for _, _, header in self.batches(replay_from):
            if header.base_offset < replay_from:
                continue
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0 and not header.is_control:
                self.producers.appended(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_sequence,
                    header.base_offset,
                    header.max_timestamp,
                )


def fsync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
