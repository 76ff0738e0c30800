"""The log of one partition: segments in a row, the producers and leader epochs that wrote them.

    orders-0/
      00000000000000000000.log .index .timeindex      segments (segment.py), with .txnindex where it has aborts
      00000000000000001041.log …                      the last one is written to
      00000000000000001041.snapshot                   producers as of that offset (producers.py)
      leader-epoch-checkpoint                         (epochs.py)
      partition.metadata                              version, topic id

Offsets start at `start_offset` and end before `end_offset`, the one that the next record gets. Batches are stored as
they came, with base offset and leader epoch written into them. A log belongs to one thread; opening may happen in
any.

After a proper stop the files are believed. Otherwise everything from the recovery point on is read, checked against its
CRCs and cut behind the last good batch: what was acknowledged had reached the page cache, so the death of the process
alone takes nothing away. What lies before the recovery point is surely on disk; if that is damaged nothing is cut, and
CorruptLog says where, at once or when somebody reads there.
"""

from __future__ import annotations

import logging
import random
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ottla.config.topic import TopicConfig
from ottla.protocol.batch import CONTROL, HEADER, TRANSACTIONAL, BatchHeader, read_header
from ottla.protocol.records import (
    ABORT,
    COMMIT,
    control_batch,
    control_type,
    first_at_or_after,
    iter_records,
    marker_coordinator_epoch,
    max_timestamp_record,
)
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.errors import CorruptLog, OffsetOutOfRange
from ottla.storage.file import FileSlice, Handles
from ottla.storage.index import VALUE
from ottla.storage.producers import CorruptSnapshot, ProducerStates
from ottla.storage.scan import NEVER
from ottla.storage.segment import SNAPSHOT_SUFFIX, Segment, file_name
from ottla.storage.survey import snapshots_in, survey
from ottla.storage.transactions import AbortedTransaction

logger = logging.getLogger(__name__)

EPOCH_FILE = "leader-epoch-checkpoint"
DECOMPRESSED_LIMIT = 512 * 1024 * 1024  # of one batch, when its records must be looked at

MAX_RELATIVE_OFFSET = 0x7FFFFFFF  # an index entry has 31 bits for it
RECALLED = 512 * 1024  # bytes at a log's end where producers' last batches are looked for

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
        "has_aborted",
        "on_failure",
        "on_roll",
        "producers",
        "recovery_point",
        "segments",
        "start_offset",
        "truncations",
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
        self.has_aborted = False  # transactions, in any segment
        self.epochs = LeaderEpochs(directory / EPOCH_FILE)
        self.on_failure: Callable[[Log, Exception], None] | None = None  # told when the disk lets us down
        self.on_roll: Callable[[Log, Segment], None] | None = None  # told of each segment that is now complete
        self.truncations = 0  # how often the log was cut: what was read of it may be gone
        self._jitter = 0

    # -- opening and closing -------------------------------------------------------------------------------------

    def create(self) -> None:
        """Begin an empty log in a new directory."""
        self.directory.mkdir(parents=True)
        self._begin_segment(0)
        self.let_go()

    def open(self, *, clean: bool, recovery_point: int = 0, start_offset: int = 0, was_compacted: bool = False) -> None:
        """Take up the log as it lies on disk. CorruptLog, and nothing is changed, when what was flushed is damaged."""
        found = survey(self.directory)
        found.sweep()
        self.has_aborted = found.has_txn_indexes
        has_gaps = was_compacted or "compact" in self.config.cleanup_policy
        flushed = NEVER if clean else recovery_point
        trusted, checked = found.split(flushed)
        self.recovery_point, self.start_offset = recovery_point, start_offset
        epochs_known = self.epochs.open()
        for base, following in trusted:
            if not found.sizes[base] and not has_gaps:
                raise CorruptLog(f"{self.directory}: segment {base} is empty, and it had been on disk")
            segment = Segment(self.directory, base)
            segment.take_up(following, found.sizes[base])
            self._add(segment)
        if clean and checked:
            ((base, _),) = checked
            segment = Segment(self.directory, base)
            if found.sizes[base]:
                segment.open()
            self._add(segment)
            self._load_producers(found.snapshots, segment.next_offset)
        else:
            self._load_producers(found.snapshots, checked[0][0] if checked else 0)
            self._recover(checked, recovery_point, has_gaps)
        self.end_offset = self.active.next_offset if self.segments else start_offset
        if self.end_offset < recovery_point:
            raise CorruptLog(
                f"{self.directory}: the log ends at {self.end_offset}, and up to {recovery_point} it had been on disk"
            )
        if not self.segments:
            self._begin_segment(start_offset)
        self.recovery_point = self.end_offset if clean else min(recovery_point, self.end_offset)
        self.start_offset = min(max(start_offset, self.segments[0].base_offset), self.end_offset)
        if not epochs_known:
            self._find_epochs()
        self.epochs.truncate_start(self.start_offset)
        self.epochs.truncate_end(self.end_offset)
        self.let_go()

    def _recover(self, checked: list[tuple[int, int]], recovery_point: int, has_gaps: bool) -> None:
        """Look through what may not have reached the disk, and cut off what is damaged of it."""
        for at, (base, following) in enumerate(checked):
            segment = Segment(self.directory, base)
            aborted: list[AbortedTransaction] = []
            behind = segment.recover(
                check_from=recovery_point,
                highest=following - 1,
                gaps=has_gaps,
                interval=self.config.index_interval_bytes,
                visit=partial(self._replay, segment, aborted),
            )
            is_last = at == len(checked) - 1
            if segment.next_offset < recovery_point and (behind or is_last or not has_gaps):
                segment.close()
                raise CorruptLog(
                    f"{segment.file.path}: the log breaks off at offset {segment.next_offset} (byte {segment.size}), "
                    f"and up to {recovery_point} it had been on disk"
                )
            segment.cut()
            segment.aborted.replace(aborted)
            self._add(segment)
            if behind:
                logger.warning(
                    "%s: cut off %d bytes behind offset %d that were never acknowledged or are damaged",
                    self.directory.name,
                    behind,
                    segment.next_offset,
                )
            if behind or (segment.next_offset < following and not is_last and not has_gaps):
                self._drop([base for base, _ in checked[at + 1 :]])
                break
            if not is_last:
                self.producers.save(self.directory / file_name(following, SNAPSHOT_SUFFIX))

    def _find_epochs(self) -> None:
        """Learn from the batches which epochs wrote them. They only grow, so few segments must be looked through."""
        self.epochs.clear()
        firsts = [(segment, next(segment.batches(0), None)) for segment in self.segments]
        heads = [(segment, first[1]) for segment, first in firsts if first is not None]
        for at, (segment, header) in enumerate(heads):
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if at == len(heads) - 1 or heads[at + 1][1].partition_leader_epoch > self.epochs.latest:
                for _, one in segment.batches(0):
                    self.epochs.assign(one.partition_leader_epoch, one.base_offset)

    def _begin_segment(self, base_offset: int) -> None:
        segment = Segment(self.directory, base_offset)
        segment.create(self.config.segment_bytes if self.config.preallocate else 0)
        self._add(segment)

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self.configure(self.config)

    def configure(self, config: TopicConfig) -> None:
        """Go by other settings from now on."""
        self.config = config
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        self._jitter = random.randrange(jitter) if jitter > 0 else 0

    def _drop(self, bases: list[int]) -> None:
        for base in bases:
            logger.warning("%s: dropping segment %d behind a damaged one", self.directory.name, base)
            Segment(self.directory, base).delete_files()

    def close(self) -> None:
        """Put everything on disk, so that the next opening may believe it."""
        for segment in self.segments:
            if segment.next_offset > self.recovery_point or segment.has_unwritten_indexes or self.config.preallocate:
                segment.seal()
                segment.fsync()
        self._snapshot()
        self.recovery_point = self.end_offset
        self.abandon()

    def failed(self, error: Exception) -> None:
        """Say that the disk let us down, to whoever decides what that means."""
        if self.on_failure is not None:
            self.on_failure(self, error)

    def let_go(self) -> None:
        """Close the files until somebody needs them: most logs of a broker are idle."""
        for segment in self.segments:
            segment.let_go()

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
            if header[5] & TRANSACTIONAL:
                self.producers.begun(header[9], base)
        return base

    def append_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, leader_epoch: int, *, commit: bool, now_ms: int
    ) -> int:
        """End the transaction of this producer, if it has one here; returns the offset of the marker."""
        batch = control_batch(
            COMMIT if commit else ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
        )
        offset = self.append(batch, leader_epoch, HEADER.unpack_from(batch), now_ms)
        first = self.producers.marked(producer_id, epoch, coordinator_epoch, offset, now_ms)
        if first is not None and not commit:
            stable = self.producers.stable_below(self.end_offset)
            self.active.aborted.append(AbortedTransaction(first, offset, producer_id, stable))
            self.has_aborted = True
        return offset

    def roll(self) -> Segment:
        """Begin a new segment at the end offset; an empty one is new already."""
        old = self.active
        if not old.size:
            return old
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
            count = len(self.segments) - 1
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

    def truncate_to(self, offset: int) -> list[Path]:
        """Records from `offset` on are gone, with the whole batch that has it; the log ends before that batch.

        Returns the files of segments that went, out of sight. Before this, `recovery_point` on disk must not lie beyond
        the new end (Logs.truncate), or a crash would look like damage.
        """
        if offset >= self.end_offset:
            return []
        self.truncations += 1
        aside = []
        while self.segments and self.active.base_offset >= offset:
            aside += self.active.set_aside()
            del self.segments[-1], self._bases[-1]
            if self.segments:
                self.active = self.segments[-1]
        if self.segments:
            self._handles.forget(self.active)
            self.active.truncate_to(offset)
        else:
            self._begin_segment(offset)
        self.end_offset = self.active.next_offset
        self.recovery_point = min(self.recovery_point, self.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        self.epochs.truncate_end(self.end_offset)
        self._load_producers(snapshots_in(self.directory), self.end_offset)
        return aside

    def replace(self, old: list[Segment], new: Segment) -> list[Path]:
        """Let `new` stand for segments in a row, none of them the active one; returns their files, out of sight."""
        at = self.segments.index(old[0])
        self.segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]
        aside = []
        for segment in old:
            self._handles.forget(segment)
            aside += segment.set_aside()
        return aside

    def relocate(self, directory: Path, recovery_point: int) -> None:
        """Go on in another directory, where all files are (relocation.py). Readers under way keep the old ones."""
        old, self.directory = self.segments, directory
        self.active = self.active.active_in(directory)
        self.segments = [*(segment.in_directory(directory) for segment in old[:-1]), self.active]
        self.recovery_point = recovery_point
        self.epochs.relocate(directory / EPOCH_FILE)
        for segment in old:
            self._handles.forget(segment)
            segment.close()

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

    def aborted(self, offset: int, size: int) -> list[AbortedTransaction]:
        """The aborted transactions that may have records in the `size` bytes read from `offset` on."""
        if not self.has_aborted:
            return []
        at = max(0, bisect_right(self._bases, offset) - 1)
        self._use(self.segments[at])
        below = self.segments[at].upper_bound(offset, size)
        found = []
        for segment in self.segments[at:]:
            for one in segment.aborted.entries:
                if one.last_offset >= offset and one.first_offset < below:
                    found.append(one)
                if one.last_stable_offset >= below:
                    return found
        return found

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
        batch = newest.batch_at(newest.position_of(newest.max_timestamp_offset))
        return batch if read_header(batch).record_count else self._newest_with_records()

    def _newest_with_records(self) -> bytes | None:
        """The same, looked for batch by batch: compaction may have left the newest one without records."""
        found = max(
            (
                (header.max_timestamp, -header.base_offset, segment, at)
                for segment, at, header in self.batches(0)
                if header.record_count
            ),
            default=None,
            key=lambda one: one[:2],
        )
        return found[2].batch_at(found[3]) if found else None

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
    def starts_inside_segment(self) -> bool:
        return self.start_offset > (self._bases[0] if self._bases else 0)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    # -- producers -----------------------------------------------------------------------------------------------

    def _snapshot(self) -> None:
        """Keep the producers as they are at the end, so that a restart need not read the log to know them."""
        path = self.directory / file_name(self.end_offset, SNAPSHOT_SUFFIX)
        if self.end_offset <= self._bases[0] or path.exists():
            return
        try:
            self.producers.save(path)
        except OSError as error:
            logger.warning("%s: no snapshot of producers at %d: %s", self.directory.name, self.end_offset, error)

    def _load_producers(self, snapshots: list[int], end: int) -> None:
        """Producers as of the offset `end`: the newest snapshot that can be believed, and what was written after it.

        Snapshots beyond `end` are of records that are about to be looked at anyway, or that are gone.
        """
        self.producers.clear()
        replay_from = 0
        for offset in snapshots:  # newest first
            path = self.directory / file_name(offset, SNAPSHOT_SUFFIX)
            if offset <= end:
                try:
                    self.producers.decode(path.read_bytes())
                    self._recall(offset)
                    replay_from = offset
                    break
                except CorruptSnapshot as error:
                    logger.warning("%s: ignoring %s: %s", self.directory.name, path.name, error)
            path.unlink(missing_ok=True)
        if replay_from < end:
            at = max(0, bisect_right(self._bases, replay_from) - 1)
            for segment in self.segments[at:]:
                if segment.next_offset > replay_from:
                    segment.scan_headers(partial(self._replay_from, replay_from, segment))
                    segment.let_go()

    def _recall(self, offset: int) -> None:
        """Add what a snapshot leaves out: it has the last batch of each producer, the ones before are in the log.

        A producer whose replies got lost sends its last few batches again. Only the end of the log is looked through,
        which has them unless very many write to it.
        """
        left, at, tails = RECALLED, bisect_right(self._bases, offset - 1) - 1, []
        try:
            while at >= 0 and left > 0 and len(self.producers):
                segment = self.segments[at]
                end = segment.position_of(offset)
                entry = segment.index.floor(VALUE, end - left)
                tails.append((segment, entry[VALUE] if entry else 0))
                left, at = left - end, at - 1
            for segment, start in reversed(tails):
                for _, header in segment.batches(start):
                    if header.base_offset >= offset:
                        break
                    if header.producer_id >= 0 and not header.is_control:
                        self.producers.recall(
                            header.producer_id,
                            header.producer_epoch,
                            header.base_sequence,
                            header.last_sequence,
                            header.base_offset,
                            header.max_timestamp,
                        )
        except CorruptLog as error:
            logger.warning("%s: producers' last batches are not all known: %s", self.directory.name, error)
        finally:
            for segment, _ in tails:
                segment.let_go()

    def _replay(
        self, segment: Segment, aborted: list[AbortedTransaction], header: tuple[int, ...], position: int
    ) -> None:
        """Learn from a batch, as append does; `aborted` gets the transaction that it aborts."""
        base, attributes, producer_id, epoch = header[0], header[5], header[9], header[10]
        self.epochs.assign(header[2], base)
        if producer_id < 0:
            return
        if not attributes & CONTROL:
            first = header[11]
            last = (first + header[6]) & 0x7FFFFFFF
            self.producers.appended(producer_id, epoch, first, last, base, header[8])
            if attributes & TRANSACTIONAL:
                self.producers.begun(producer_id, base)
            return
        marker = next(iter_records(segment.batch_at(position), DECOMPRESSED_LIMIT), None)
        kind = COMMIT if marker is None else control_type(marker.key)  # compaction has left it empty: it is over
        coordinator_epoch = -1 if marker is None else marker_coordinator_epoch(marker.value)
        begin = self.producers.marked(producer_id, epoch, coordinator_epoch, base, header[8])
        if begin is not None and kind == ABORT:
            aborted.append(AbortedTransaction(begin, base, producer_id, self.producers.stable_below(base + 1)))
            self.has_aborted = True

    def _replay_from(self, offset: int, segment: Segment, header: tuple[int, ...], position: int) -> None:
        """The same for batches from `offset` on of a segment whose index of aborted transactions is complete."""
        if header[0] >= offset:
            self._replay(segment, [], header, position)
