"""One segment of a log: `<base offset>.log` with whole record batches, and its indexes.

    00000000000000001041.log         batches, one after the other, as they came over the wire
    00000000000000001041.index       offset -> position      (index.py)
    00000000000000001041.timeindex   timestamp -> offset
    00000000000000001041.txnindex    aborted transactions, where there are any (transactions.py)

A sealed segment (all but the last) that was closed properly is taken up by its name and size alone; its indexes are
looked at when somebody needs them. Only the last segment of a log is written to. An append is one write to the page
cache; if the disk refuses it, the file is cut back to where it was, so a segment never holds part of a batch that was
refused. What cannot be a batch is CorruptLog where the file was surely on disk, and the end of the log where it was not
(log.py, scan.py).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from ottla.protocol.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader
from ottla.storage.errors import CorruptLog, StorageError
from ottla.storage.file import FileSlice, SegmentFile
from ottla.storage.index import KEY, VALUE, OffsetIndex, TimeIndex
from ottla.storage.leftovers import DELETED_SUFFIX
from ottla.storage.scan import NEVER, UNTIMED, Scanned, Visit, scan
from ottla.storage.transactions import TXN_INDEX_SUFFIX as TXN_INDEX_SUFFIX
from ottla.storage.transactions import TransactionIndex

LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX = ".log", ".index", ".timeindex", ".snapshot"

SMALL_READ = 64 * 1024  # read at once; more is read as the client's socket drains
SCAN_CHUNK = 64 * 1024
SKIM_CHUNK = 8 * 1024  # about what lies between two index entries
STALE = 1024 * 1024  # an index that ends so long before its log does not help to find things in it
HINTS = 256
NO_TIME = (-1, 0)  # as last entry of a time index that has none

_HEAD = struct.Struct(">qi")  # base offset, length
_SKIM = struct.Struct(">qi4xb6xi")  # base offset, length, format, last offset delta


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class Segment:
    __slots__ = (
        "_hints",
        "_loaded",
        "_since_index",
        "aborted",
        "base_offset",
        "directory",
        "file",
        "first_timestamp",
        "index",
        "index_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
        "time_index",
    )

    def __init__(self, directory: Path, base_offset: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.file = SegmentFile(directory / file_name(base_offset, LOG_SUFFIX))
        self.index = OffsetIndex(directory / file_name(base_offset, INDEX_SUFFIX))
        self.time_index = TimeIndex(directory / file_name(base_offset, TIME_INDEX_SUFFIX))
        self.aborted = TransactionIndex(directory / file_name(base_offset, TXN_INDEX_SUFFIX))
        self.size = 0
        self.next_offset = base_offset
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset  # last offset of the batch with that timestamp
        self.first_timestamp = UNTIMED  # of the first batch that has one: what `segment.ms` counts from
        self.index_bytes = 0  # that the larger index will have with one more entry
        self._loaded = True
        self._since_index = 0
        self._hints: dict[int, int] = {}  # offset -> position of the batch it begins, for those just written or read

    # -- opening -------------------------------------------------------------------------------------------------

    def create(self, preallocate: int = 0) -> None:
        """Make the file, with `preallocate` bytes set aside for it."""
        fd = self.file.fd
        if preallocate:
            os.posix_fallocate(fd, 0, preallocate)

    def take_up(self, next_offset: int, size: int) -> None:
        """A sealed segment that was closed properly; the rest is learnt on first need (`load`)."""
        self.next_offset, self.size = next_offset, size
        self._loaded = False

    def in_directory(self, directory: Path) -> Segment:
        """The same segment in another directory, where copies of its files are."""
        moved = Segment(directory, self.base_offset)
        moved.take_up(self.next_offset, self.size)
        return moved

    def active_in(self, directory: Path) -> Segment:
        """The same, of one that is written to; its indexes must have no entries beside their files."""
        moved = self.in_directory(directory)
        moved.index.take_up(self.index)
        moved.time_index.take_up(self.time_index)
        moved.max_timestamp, moved.max_timestamp_offset = self.max_timestamp, self.max_timestamp_offset
        moved.first_timestamp, moved.index_bytes = self.first_timestamp, self.index_bytes
        moved._since_index, moved._hints, moved._loaded = self._since_index, self._hints, True
        return moved

    def load(self) -> None:
        """Learn what the indexes of a segment that was taken up have to say."""
        if not self._loaded:
            following = self.next_offset
            self.open(following - 1)
            self.next_offset = following

    def open(self, highest: int = NEVER) -> None:
        """Take up a segment that is known to be on disk as it was: believe its indexes, look only behind their last
        entries. CorruptLog when it is not as it was."""
        self.size = os.fstat(self.file.fd).st_size
        self.index.open()
        self.time_index.open()
        if self.size and not (self._indexes_fit() and self._follow(highest)):
            self.rebuild(highest)
        self._loaded = True

    def _indexes_fit(self) -> bool:
        """Whether the last entries are about batches that are there. An index may miss, or be of something else."""
        newest, last = self.time_index.last() or NO_TIME, self.index.last()
        if last is None:
            if len(self.time_index) > 1 or self.size > STALE:
                return False
        else:
            header = self._header_at(last[VALUE])
            if (
                header is None
                or last[VALUE] == 0
                or header.last_offset != last[KEY] + self.base_offset
                or header.max_timestamp > newest[KEY]
            ):
                return False
        return newest is NO_TIME or self._has_timestamp(newest[VALUE] + self.base_offset, newest[KEY])

    def _has_timestamp(self, last_offset: int, timestamp: int) -> bool:
        """Whether a batch that ends with that offset has that timestamp as its largest."""
        entry = self.index.floor(KEY, last_offset - self.base_offset)
        position = entry[VALUE] if entry else 0
        if 0 <= position < self.size:
            for _, header in self._plausible(position):
                if header.last_offset >= last_offset:
                    return header.last_offset == last_offset and header.max_timestamp == timestamp
        return False

    def _follow(self, highest: int) -> bool:
        """Learn of the batches behind the last index entry; False when the indexes are no help for that."""
        newest, entry = self.time_index.last() or NO_TIME, self.index.last()
        self.max_timestamp, self.max_timestamp_offset = newest[KEY], newest[VALUE] + self.base_offset
        end = start = entry[VALUE] if entry else 0
        for at, header in self._plausible(start):
            if at > start + STALE:
                return False
            self._note(header.last_offset, header.max_timestamp)
            self._since_index = header.size
            end = at + header.size
        self._read_first_timestamp()
        return end == self.size and self.next_offset - 1 <= highest

    def rebuild(self, highest: int = NEVER) -> None:
        """Make the indexes anew from a log that is on disk as it was. CorruptLog when it is not."""
        on_disk = os.fstat(self.file.fd).st_size
        scanned = self._scan(on_disk, NEVER, highest, True, 4096, None)
        if scanned.end < on_disk:
            raise self.damage_at(scanned.end)
        self._loaded = True
        self.flush_indexes()

    def recover(
        self,
        *,
        check_from: int = 0,
        highest: int = NEVER,
        gaps: bool = True,
        interval: int = 4096,
        visit: Visit | None = None,
    ) -> int:
        """Look for the end of the good batches, and make the indexes anew. Returns the bytes that lie behind it.

        Nothing is cut off: see `cut`. Of batches below `check_from` only the headers are looked at.
        """
        on_disk = os.fstat(self.file.fd).st_size
        scanned = self._scan(on_disk, check_from, highest, gaps, interval, visit)
        self._loaded = True
        return on_disk - scanned.end

    def cut(self) -> None:
        """Make the file end where the good batches end, and put the indexes beside it."""
        os.ftruncate(self.file.fd, self.size)
        self.flush_indexes()

    def _scan(
        self, on_disk: int, check_from: int, highest: int, gaps: bool, interval: int, visit: Visit | None
    ) -> Scanned:
        self.index.clear()
        self.time_index.clear()
        self._hints.clear()
        scanned = scan(
            self.file.fd,
            on_disk,
            self.base_offset,
            check_from=check_from,
            highest=highest,
            gaps=gaps,
            interval=interval,
            indexes=(self.index, self.time_index),
            visit=visit,
        )
        self.size, self.next_offset = scanned.end, scanned.next_offset
        self.max_timestamp, self.max_timestamp_offset = scanned.max_timestamp, scanned.max_timestamp_offset
        self.first_timestamp = scanned.first_timestamp
        self._since_index = scanned.since_index
        self._measure_indexes()
        return scanned

    def scan_headers(self, visit: Visit) -> None:
        """Show `visit` the batches of producers, and those where the leader epoch changes."""
        scanned = scan(self.file.fd, self.size, self.base_offset, check_from=NEVER, visit=visit)
        if scanned.end < self.size:
            raise self.damage_at(scanned.end)

    def damage_at(self, position: int) -> CorruptLog:
        return CorruptLog(
            f"{self.file.path}: the batch at byte {position} of {self.size} is damaged, and it had been on disk"
        )

    def _read_first_timestamp(self) -> None:
        first = self._header_at(0)
        self.first_timestamp = first.max_timestamp if first and first.max_timestamp >= 0 else UNTIMED
        self._measure_indexes()

    # -- writing -------------------------------------------------------------------------------------------------

    def append(
        self, batch: memoryview | bytearray, base_offset: int, last_offset: int, timestamp: int, interval: int
    ) -> None:
        position, length = self.size, len(batch)
        try:
            written = os.pwrite(self.file.fd, batch, position)
        except OSError as error:
            self._take_back(position)
            raise StorageError(f"{self.directory.name}: {error.strerror}") from error
        if written != length:
            self._take_back(position)
            raise StorageError(f"{self.directory.name}: the disk took {written} of {length} bytes")
        hints = self._hints
        if len(hints) >= HINTS:
            hints.clear()
        hints[base_offset] = position
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset
        if self._since_index > interval:
            self._add_entries(last_offset, position)
        if self.first_timestamp == UNTIMED and timestamp >= 0:
            self.first_timestamp = timestamp
        self._since_index += length
        self.size = position + length
        self.next_offset = last_offset + 1

    def _take_back(self, size: int) -> None:
        try:
            os.ftruncate(self.file.fd, size)
        except OSError:
            pass  # what lies behind `size` is overwritten by the next append, or cut off at the next start

    def _note(self, last_offset: int, timestamp: int) -> None:
        self.next_offset = last_offset + 1
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset

    def _add_entries(self, last_offset: int, position: int) -> None:
        self.index.append(last_offset - self.base_offset, position)
        self._add_time_entry()
        self._since_index = 0
        self._measure_indexes()

    def _measure_indexes(self) -> None:
        self.index_bytes = max(self.index.size + 8, self.time_index.size + 12)

    def _add_time_entry(self) -> None:
        if self.max_timestamp > self.time_index.last_key:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def flush_indexes(self) -> None:
        self._add_time_entry()
        self.index.flush()
        self.time_index.flush()

    def fsync(self) -> None:
        """Put it on disk, with its indexes once they are complete."""
        os.fsync(self.file.fd)
        self.index.fsync()
        self.time_index.fsync()
        self.aborted.fsync()

    @property
    def has_unwritten_indexes(self) -> bool:
        return self._loaded and (
            self.max_timestamp > self.time_index.last_key or self.index.has_tail or self.time_index.has_tail
        )

    def seal(self) -> None:
        """Nothing more is written here: complete the indexes, give back what was set aside."""
        self.flush_indexes()
        os.ftruncate(self.file.fd, self.size)

    def truncate_to(self, offset: int) -> None:
        """Batches from the one with `offset` on are gone; the segment may be written to again."""
        position = self.position_of(offset)
        os.ftruncate(self.file.fd, position)
        self._hints.clear()
        self.aborted.truncate_to(offset)
        self.index.cut(VALUE, position)
        self.time_index.cut(VALUE, offset - self.base_offset)
        self.size, self.next_offset, self._since_index = position, self.base_offset, 0
        if position and not (self._indexes_fit() and self._follow(NEVER)):
            self.rebuild()
        elif not position:
            self.max_timestamp, self.max_timestamp_offset = NO_TIME[KEY], self.base_offset
            self._read_first_timestamp()

    def let_go(self) -> None:
        """Close the files until somebody needs them again."""
        self.index.close()
        self.time_index.close()
        self.aborted.let_go()
        self.file.let_go()

    def close(self) -> None:
        self.index.close()
        self.time_index.close()
        self.file.retire()

    # -- reading -------------------------------------------------------------------------------------------------

    def _header_at(self, position: int) -> BatchHeader | None:
        if not 0 <= position <= self.size - HEADER_SIZE:
            return None
        data = os.pread(self.file.fd, HEADER_SIZE, position)
        return BatchHeader._make(HEADER.unpack(data)) if len(data) == HEADER_SIZE else None

    def batches(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` on. CorruptLog where there is none before the end."""
        size = self.size  # there may be more before the end is reached
        for at, header in self._plausible(position):
            yield at, header
            position = at + header.size
        if position < size:
            raise self.damage_at(position)

    def _plausible(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """The same, but it just ends where there is none."""
        file = self.file
        fd = file.fd
        file.acquire()  # who walks through may pause for long, and the segment may be deleted meanwhile
        try:
            yield from self._walk(fd, position)
        finally:
            file.release()

    def _walk(self, fd: int, position: int) -> Iterator[tuple[int, BatchHeader]]:
        size = self.size
        chunk, start = b"", position
        while position + HEADER_SIZE <= size:
            at = position - start
            if at + HEADER_SIZE > len(chunk):
                chunk, start, at = os.pread(fd, SCAN_CHUNK, position), position, 0
                if len(chunk) < HEADER_SIZE:
                    return
            header = BatchHeader._make(HEADER.unpack_from(chunk, at))
            length = header.batch_length + LENGTH_OVERHEAD
            if header.magic != MAGIC or length < HEADER_SIZE or position + length > size:
                return
            yield position, header
            position += length

    def position_of(self, offset: int) -> int:
        """Where the batch with `offset` begins, or the first one after it."""
        position = self._hints.get(offset)
        if position is not None:
            return position
        self.load()
        if offset >= self.next_offset:
            return self.size
        try:
            return self._find(offset)
        except CorruptLog:
            if len(self.index) == 0:
                raise
            self.rebuild(self.next_offset - 1)  # the index may be at fault; if the log is, this says so
            return self._find(offset)

    def _find(self, offset: int) -> int:
        entry = self.index.floor(KEY, offset - self.base_offset)
        next_base = self.base_offset if entry is None else -1
        start = entry[VALUE] if entry else 0
        for position, _, last_offset in self._skim(start):
            if entry and position == start and last_offset != entry[KEY] + self.base_offset:
                raise self.damage_at(position)  # the index is wrong
            if last_offset >= offset:
                if next_base == offset:
                    self._remember(offset, position)
                return position
            next_base = last_offset + 1
        return self.size

    def _remember(self, offset: int, position: int) -> None:
        if len(self._hints) >= HINTS:
            self._hints.clear()
        self._hints[offset] = position

    def _skim(self, position: int) -> Iterator[tuple[int, int, int]]:
        """(position, end, last offset) of each batch from `position` on; reads no more of them than that takes."""
        fd, size = self.file.fd, self.size
        chunk, at = b"", 0
        lowest = self.base_offset
        if position < 0:
            raise self.damage_at(position)
        while position < size:
            if at + _SKIM.size > len(chunk):
                chunk, at = os.pread(fd, SKIM_CHUNK, position), 0
                if len(chunk) < _SKIM.size:
                    raise self.damage_at(position)
            base_offset, length, magic, delta = _SKIM.unpack_from(chunk, at)
            length += LENGTH_OVERHEAD
            if length < HEADER_SIZE or magic != MAGIC or position + length > size or base_offset < lowest or delta < 0:
                raise self.damage_at(position)
            yield position, position + length, base_offset + delta
            lowest = base_offset + delta
            position += length
            at += length

    def read(self, offset: int, limit: int, below: int, at_least_one: bool) -> tuple[bytes | FileSlice | None, int]:
        """Whole batches from the one with `offset` on, of offsets under `below`, within `limit` bytes.

        With `at_least_one` the first batch comes however large it is. Returns the bytes, or the part of the file they
        are, and their number.
        """
        start = self.position_of(offset)
        end = self.size if below >= self.next_offset else self.position_of(below)
        if end - start > limit:
            end = self._cut(start, start + limit, at_least_one)
        length = end - start
        if length <= 0:
            return None, 0
        if length <= SMALL_READ:
            return os.pread(self.file.fd, length, start), length
        return FileSlice(self.file, start, length), length

    def _cut(self, start: int, end: int, at_least_one: bool) -> int:
        """The end of the last batch that ends by `end`, as far as can be seen cheaply."""
        entry = self.index.floor(VALUE, end)
        if entry is not None and entry[VALUE] > start:
            header = self._header_at(entry[VALUE])
            if header is not None and header.last_offset == entry[KEY] + self.base_offset:
                self._remember(header.base_offset, entry[VALUE])  # where this reader goes on
                return entry[VALUE]
        cut = start
        for position, after, _ in self._skim(start):
            if after > end and not (at_least_one and position == start):
                break
            cut = after
            if after >= end:
                break
        return cut

    def upper_bound(self, offset: int, size: int) -> int:
        """An offset that no batch of the `size` bytes read from `offset` on reaches, as far as can be seen cheaply."""
        self.load()
        entry = self.index.ceiling(VALUE, self.position_of(offset) + size)
        return self.next_offset if entry is None else entry[KEY] + self.base_offset

    def batches_not_older(self, timestamp: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of the batches, of `offset` or later, whose newest record is not older than `timestamp`.

        The first time entry that is new enough was made between two offset entries, and no batch before the first of
        those is new enough: so however seldom timestamps rise, no more than one index interval is looked through.
        """
        self.load()
        if self.max_timestamp < timestamp:
            return
        start = self._start_of(timestamp)
        if start is None:
            self.rebuild(self.next_offset - 1)
            start = self._start_of(timestamp) or 0
        start = max(start, self.position_of(offset) if offset > self.base_offset else 0)
        for position, header in self.batches(start):
            if header.max_timestamp >= timestamp:
                yield position, header

    def _start_of(self, timestamp: int) -> int | None:
        """Where to begin to look for `timestamp`; None when the index is wrong about it."""
        known = self.time_index.ceiling(KEY, timestamp)
        entry = self.index.last() if known is None else self.index.floor(KEY, known[VALUE] - 1)
        if entry is None:
            return 0
        header = self._header_at(entry[VALUE])
        fits = header is not None and header.last_offset == entry[KEY] + self.base_offset
        return entry[VALUE] if fits else None

    def batch_at(self, position: int) -> bytes:
        """The whole batch at `position`."""
        _, length = _HEAD.unpack(os.pread(self.file.fd, _HEAD.size, position))
        return os.pread(self.file.fd, length + LENGTH_OVERHEAD, position)

    def newest_ms(self) -> int:
        """The largest timestamp; where no record has one, when the file was written last."""
        if not self._loaded:
            self.load()
            self.let_go()
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self._written_ms()

    def _written_ms(self) -> int:
        """When the file was written last: stands in for timestamps that records do not have."""
        return self.file.path.stat().st_mtime_ns // 1_000_000

    # -- the end -------------------------------------------------------------------------------------------------

    def set_aside(self) -> list[Path]:
        """Take the files out of sight, those of the indexes first; returns where they are until they are removed."""
        self.close()
        aside = []
        for path in self._files():
            hidden = path.with_name(path.name + DELETED_SUFFIX)
            try:
                path.rename(hidden)
            except FileNotFoundError:
                continue
            aside.append(hidden)
        return aside

    def delete_files(self) -> None:
        self.close()
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        suffixes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX, LOG_SUFFIX)
        return [self.directory / file_name(self.base_offset, suffix) for suffix in suffixes]
