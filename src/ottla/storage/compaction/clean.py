"""Compacts sealed segments of one log into new ones, reading and writing nothing but files (A1 S-38, KIP-534).

First the dirty part is read and the newest offset of each key noted (offset_map.py), as far as the map's memory goes.
Then every segment below that end is read, oldest first, and written again without the records that go:

    a record whose key has a newer one       goes
    a record without a key                   goes, and is counted (a log that was not always compacted has them)
    a tombstone, the newest of its key       stays `delete.retention.ms` from its first compaction on
    a batch of an aborted transaction        goes; markers: see transactions.py

What stays keeps its offset, its timestamp and its bytes. A batch that loses nothing is copied as it is; one that loses
records keeps base and last offset, producer, sequence, epoch and codec. One that loses all of them goes, except, as a
header without records, the last batch of a producer that is still known (its sequence number must survive), and the
last one below the end of the round. A batch with tombstones or a marker without data gets the time at which those may
go, the delete horizon, as its base timestamp (attribute bit 6); its records' timestamps count from there.

Segments are merged into groups that fit in one (decisions.py). A group is written as `<base>.log.cleaned` with its
indexes, flushed, and reported; who started the work puts it in place (swap.py). This runs in a process of its own
(compaction_worker.py): it takes a processor for itself, and can be ended at any moment.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from ottla.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    crc32c,
    seal,
)
from ottla.protocol.compression import NONE, compress
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records import control_type, payload
from ottla.protocol.spans import Span, copied, iter_spans, shifted
from ottla.storage.compaction.decisions import MAX_LONG, Files, groups
from ottla.storage.compaction.job import Group, Job, Totals
from ottla.storage.compaction.offset_map import OffsetMap
from ottla.storage.compaction.transactions import CleanedTransactions
from ottla.storage.fsync import fsync
from ottla.storage.index import OffsetIndex, TimeIndex
from ottla.storage.leftovers import CLEANED_SUFFIX
from ottla.storage.transactions import TXN_INDEX_SUFFIX, AbortedTransaction, encode_txn_index, read_txn_index

PAYLOAD_LIMIT = 512 * 1024 * 1024  # of one batch, unpacked
LARGEST_FILE = (1 << 31) - 1  # an index entry has 31 bits for a position
MIN_BUFFER = 64 * 1024


class Uncleanable(Exception):
    """A log that cannot be compacted as it is; trying again would not help."""


def clean(job: Job, report: Callable[[Group], None]) -> Totals:
    """Do the work; `report` is told of each group as soon as it is ready."""
    return _Cleaning(job, report).run()


@dataclass(slots=True)
class _Throttle:
    """Sleeps so that, on average, no more bytes are read and written than allowed."""

    rate: float
    began: float = field(default_factory=monotonic)
    done: int = 0

    def spend(self, size: int) -> None:
        self.done += size
        ahead = self.done / self.rate - (monotonic() - self.began)
        if ahead > 0:
            sleep(min(ahead, 3600.0))


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    return directory / f"{base_offset:020d}{suffix}"


def read_batches(path: Path, buffer: int, throttle: _Throttle) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each batch of a segment, checked; its bytes hold until the next one is asked for."""
    with path.open("rb", buffering=0) as file:
        fd = file.fileno()
        size = os.fstat(fd).st_size
        position, unpack, make = 0, HEADER.unpack_from, BatchHeader._make
        while position < size:
            wanted = min(buffer, size - position)
            chunk = memoryview(os.pread(fd, wanted, position))
            at, end = 0, len(chunk)
            while at + HEADER_SIZE <= end:
                header = make(unpack(chunk, at))
                length = header.batch_length + LENGTH_OVERHEAD
                if header.magic != MAGIC or length < HEADER_SIZE or position + at + length > size:
                    raise CorruptBatch(f"{path.name} at {position + at}: no batch begins here")
                if at + length > end:
                    break
                batch = chunk[at : at + length]
                if crc32c(batch[CRC_START:]) != header.crc:
                    raise CorruptBatch(f"{path.name} at {position + at}: the batch's CRC does not fit its bytes")
                yield header, batch
                at += length
            throttle.spend(at)
            position += at
            if at == 0:
                if end < HEADER_SIZE:
                    raise CorruptBatch(f"{path.name} at {position}: {end} bytes behind the last batch")
                buffer = max(buffer, length)  # of a batch larger than the buffer


class _Cleaning:
    def __init__(self, job: Job, report: Callable[[Group], None]) -> None:
        self.job = job
        self.report = report
        self.directory = Path(job.directory)
        self.buffer = max(job.buffer, MIN_BUFFER)
        self.throttle = _Throttle(job.bytes_per_second)
        self.totals = Totals()
        self.producers = {producer_id: (epoch, offset) for producer_id, epoch, offset in job.producers}

    def run(self) -> Totals:
        job, totals = self.job, self.totals
        began = monotonic()
        aborted = self._aborted()
        # No more keys than offsets.
        self.map = OffsetMap(job.memory, job.load_factor, max(job.end - job.first_dirty, 1))
        totals.end = self._fill_map(aborted)
        totals.keys, totals.map_keys = len(self.map), self.map.limit
        totals.mapping_seconds = monotonic() - began
        self.transactions = CleanedTransactions(aborted)
        count = bisect_left(job.segments, totals.end)
        following = [*job.segments, job.end][count]
        segments = [self._files(base) for base in job.segments[:count]]
        for group in groups(segments, segment_bytes=job.segment_bytes, index_bytes=job.index_bytes, end=following):
            self._clean_group([segment.base_offset for segment in group])
        totals.seconds = monotonic() - began
        return totals

    def _files(self, base: int) -> Files:
        sizes = [_size(segment_path(self.directory, base, suffix)) for suffix in (".log", ".index", ".timeindex")]
        return Files(base, *sizes)

    def _aborted(self) -> list[AbortedTransaction]:
        """Aborted transactions; the marker of one may lie far behind its records."""
        found: list[AbortedTransaction] = []
        for path in sorted(self.directory.glob("*" + TXN_INDEX_SUFFIX)):
            found += [one for one in read_txn_index(path) if one.first_offset < self.job.end]
        return found

    # -- the newest offset of each key ---------------------------------------------------------------------------

    def _fill_map(self, aborted: list[AbortedTransaction]) -> int:
        """Note the dirty records' keys; returns the offset up to which that was possible."""
        job = self.job
        transactions = CleanedTransactions(one for one in aborted if one.last_offset >= job.first_dirty)
        ends = [*job.segments[1:], job.end]
        fitted = False
        for base, following in zip(job.segments, ends, strict=True):
            if following <= job.first_dirty:
                continue
            reached = self._map_segment(base, transactions)
            if reached is not None:
                if fitted:
                    return base  # whole segments only: the oldest that fit
                self.totals.fits = False
                if reached <= job.first_dirty:
                    raise Uncleanable(f"the offset map takes {self.map.limit} keys, which is not one batch")
                return reached
            fitted = True
        return job.end

    def _map_segment(self, base: int, transactions: CleanedTransactions) -> int | None:
        """None when all keys went in, else the offset of the first batch whose did not."""
        first_dirty, put, room = self.job.first_dirty, self.map.put, self.map.limit
        path = segment_path(self.directory, base, ".log")
        for header, batch in read_batches(path, self.buffer, self.throttle):
            if header.last_offset < first_dirty or not header.record_count:
                continue
            if header.is_control:
                transactions.is_over(header, self._control(header, batch))
                continue
            if transactions.drops(header):
                continue
            # len(map) is asked for once a batch, unless it may get full in this one.
            tight = len(self.map) + header.record_count > room
            base_offset = header.base_offset
            for span in self._spans(header, batch, path)[1]:
                key, offset = span[5], base_offset + span[4]
                if key is not None and offset >= first_dirty:
                    if tight and len(self.map) >= room:
                        return base_offset
                    put(key, offset)
        return None

    def _spans(self, header: BatchHeader, batch: memoryview, path: Path) -> tuple[bytes, Iterator[Span]]:
        try:
            data = payload(batch, header, PAYLOAD_LIMIT)
        except ProtocolError as error:
            raise CorruptBatch(f"{path.name}, offset {header.base_offset}: {error}") from error
        return data, iter_spans(data, header.record_count, header.last_offset_delta)

    def _control(self, header: BatchHeader, batch: memoryview) -> int | None:
        """What a control batch says; None when it is empty."""
        if not header.record_count:
            return None
        data = payload(batch, header, PAYLOAD_LIMIT)
        first = next(iter_spans(data, header.record_count, header.last_offset_delta))
        return control_type(first[5])

    # -- writing what stays --------------------------------------------------------------------------------------

    def _clean_group(self, bases: list[int]) -> None:
        job, totals = self.job, self.totals
        out = _CleanedSegment(self.directory, bases[0], job.index_interval, self.buffer, self.throttle)
        try:
            for base in bases:
                path = segment_path(self.directory, base, ".log")
                for header, batch in read_batches(path, self.buffer, self.throttle):
                    totals.bytes_read += len(batch)
                    totals.records_read += header.record_count
                    if header.base_offset >= totals.end and not header.attributes & (TRANSACTIONAL | CONTROL):
                        totals.records_kept += header.record_count
                        out.add(bytes(batch), header)
                    else:
                        self._clean_batch(header, batch, path, out)
            modified = segment_path(self.directory, bases[-1], ".log").stat().st_mtime_ns
            out.finish(self.transactions.kept, modified)
        except BaseException:
            out.remove()
            raise
        self.transactions.kept = []
        totals.bytes_written += out.size
        self.report(Group(bases[0], bases, out.size))

    def _clean_batch(self, header: BatchHeader, batch: memoryview, path: Path, out: _CleanedSegment) -> None:
        job = self.job
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
        past_horizon = horizon is not None and horizon <= job.now_ms
        spans: list[Span] = []
        kept: list[Span] = []
        data = b""
        begins_horizon = False
        if header.is_control:
            over = self.transactions.is_over(header, self._control(header, batch))
            if header.record_count and not (over and past_horizon):
                data, found = self._spans(header, batch, path)
                kept = spans = list(found)
                begins_horizon = over and horizon is None
        elif not self.transactions.drops(header) and header.record_count:
            data, found = self._spans(header, batch, path)
            spans = list(found)
            newest, base_offset, end = self.map.get, header.base_offset, self.totals.end
            for span in spans:
                offset, key = base_offset + span[4], span[5]
                if offset < end:
                    if key is None:
                        self.totals.without_key += 1
                        continue
                    if offset < newest(key) or (past_horizon and not span[6]):
                        continue
                kept.append(span)
                if not span[6]:
                    begins_horizon = True
            begins_horizon = begins_horizon and horizon is None
        self.totals.records_kept += len(kept)
        if not kept:
            if self._stays_empty(header):
                out.add(_emptied(header), header)
        elif len(kept) == header.record_count and not begins_horizon:
            out.add(bytes(batch), header)
        else:
            rewritten = self._rewritten(header, data, kept, begins_horizon)
            out.add(rewritten, BatchHeader._make(HEADER.unpack_from(rewritten)))

    def _stays_empty(self, header: BatchHeader) -> bool:
        if header.next_offset == self.job.end:
            return True
        known = self.producers.get(header.producer_id) if header.producer_id >= 0 else None
        if known is None:
            return False
        epoch, last_offset = known
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    def _rewritten(self, header: BatchHeader, data: bytes, kept: list[Span], begins_horizon: bool) -> bytearray:
        job = self.job
        attributes, base_timestamp, max_timestamp = header.attributes, header.base_timestamp, header.max_timestamp
        if not attributes & TIMESTAMP_TYPE:
            max_timestamp = base_timestamp + max(span[3] for span in kept)
        if begins_horizon:
            horizon = min(job.now_ms + job.delete_retention_ms, MAX_LONG)
            records = shifted(data, kept, horizon - base_timestamp)
            attributes, base_timestamp = attributes | DELETE_HORIZON, horizon
        else:
            records = copied(data, kept)
        codec = attributes & CODEC_MASK
        if codec != NONE:
            records = compress(codec, records, job.levels[codec])
        rewritten = bytearray(
            HEADER.pack(
                *header[:1],
                HEADER_SIZE - LENGTH_OVERHEAD + len(records),
                *header[2:5],
                attributes,
                header.last_offset_delta,
                base_timestamp,
                max_timestamp,
                *header[9:12],
                len(kept),
            )
        )
        rewritten += records
        seal(rewritten, 0, len(rewritten))
        return rewritten


def _emptied(header: BatchHeader) -> bytearray:
    """The batch without its records, as Kafka writes it: no codec, no base timestamp."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    empty = bytearray(
        HEADER.pack(
            header.base_offset,
            HEADER_SIZE - LENGTH_OVERHEAD,
            *header[2:5],
            attributes,
            header.last_offset_delta,
            NO_TIMESTAMP,
            *header[8:12],
            0,
        )
    )
    seal(empty, 0, len(empty))
    return empty


class _CleanedSegment:
    """The files of a new segment, under their names of before the swap."""

    def __init__(self, directory: Path, base_offset: int, interval: int, buffer: int, throttle: _Throttle) -> None:
        self.base_offset = base_offset
        self.size = 0
        self._interval = interval
        self._buffer = buffer
        self._throttle = throttle
        self._log, index, time_index, self._txn_index = self._paths = [
            segment_path(directory, base_offset, suffix + CLEANED_SUFFIX)
            for suffix in (".log", ".index", ".timeindex", TXN_INDEX_SUFFIX)
        ]
        self.remove()
        self._fd = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._index, self._time_index = OffsetIndex(index), TimeIndex(time_index)
        self._waiting: list[bytes | bytearray] = []
        self._waiting_size = 0
        self._since_index = 0
        self._newest = (-1, base_offset)  # largest timestamp, last offset of the batch that has it

    def add(self, batch: bytes | bytearray, header: BatchHeader) -> None:
        """Write a batch behind the others."""
        last_offset, length = header.base_offset + header.last_offset_delta, len(batch)
        if header.max_timestamp > self._newest[0]:
            self._newest = header.max_timestamp, last_offset
        if self._since_index > self._interval:
            self._index.append(last_offset - self.base_offset, self.size)
            self._note_time()
            self._since_index = 0
        self._since_index += length
        self.size += length
        if self.size > LARGEST_FILE:
            raise Uncleanable(f"segment {self.base_offset} would become larger than {LARGEST_FILE} bytes")
        self._waiting.append(batch)
        self._waiting_size += length
        if self._waiting_size >= self._buffer:
            self._write()

    def _note_time(self) -> None:
        timestamp, offset = self._newest
        if timestamp > self._time_index.last_key:
            self._time_index.append(timestamp, offset - self.base_offset)

    def _write(self) -> None:
        data = memoryview(b"".join(self._waiting))
        self._throttle.spend(len(data))
        while data:
            data = data[os.write(self._fd, data) :]
        self._waiting, self._waiting_size = [], 0

    def finish(self, aborted: list[AbortedTransaction], modified_ns: int) -> None:
        """All of it on disk, so that it may take the place of what it was made from."""
        self._write()
        os.fsync(self._fd)
        os.utime(self._fd, ns=(modified_ns, modified_ns))
        os.close(self._fd)
        self._fd = -1
        self._note_time()
        self._index.flush()
        self._time_index.flush()
        if aborted:
            self._txn_index.write_bytes(encode_txn_index(aborted))
        for path in self._paths[1:]:
            if path.exists():
                fsync(path)

    def remove(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)
        for path in self._paths:
            path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
