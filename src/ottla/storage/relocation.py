"""A log on its way to another data directory (KIP-113): the copy that grows there, and the moment when it takes over.

    disk-a/orders-0/                     the log, which serves all the time
    disk-b/orders-0.<hex>-future/        its copy; named as Kafka names it; there before the move is answered
      moved-from                         the path of the log that it is copied from

Files are copied, not records, so that the copy has the same bytes. Sealed segments never change; the active one only
grows, and is copied up to where it was when the loop last looked (`wanted`). Segments that retention took away
meanwhile go from the copy too, and a log that was cut is copied anew. Compaction must rest, since it changes sealed
segments.

What happens to the disk at the end, each step after the one before is done:

    1  all but the last bytes are in the copy and on disk, and so are the checkpoints of disk-b with the partition
    2  between two requests: the last bytes are copied; `-future` is renamed to `orders-0`; the log goes on there
    3  the rename is on disk
    4  disk-a/orders-0 is renamed to `-delete`, and removed later
    5  `moved-from` is removed

The rename of step 2 decides. A start that finds a `-future` has not come to that: the copy is thrown away, and the move
begins again. One that finds the partition twice takes the one whose `moved-from` names the other. So a crash at any
point loses nothing: records go to one of the two at a time. If the disk refuses step 4 or 5, the next move of the log
makes up for it before it begins: two directories that each name the other would tell nothing.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.storage.checkpoints import TopicPartition, replace_file
from ottla.storage.directory import FUTURE, MOVED_FROM, STRAY, DataDirectory
from ottla.storage.errors import StorageError
from ottla.storage.fsync import fsync
from ottla.storage.log import EPOCH_FILE, Log
from ottla.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)

logger = logging.getLogger(__name__)

CHUNK = 1024 * 1024
SMALL_FILES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
LONGEST_NAME = 255


class SourceFailed(StorageError):
    """The log that is to be moved cannot be read."""


class Wanted(NamedTuple):
    """A segment of the log, as it was when somebody looked."""

    base_offset: int
    size: int
    next_offset: int
    sealed: bool


def future_name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}.{uuid.uuid4().hex}{FUTURE}"


class FutureLog:
    """`copy` may run in any thread, one at a time; everything else belongs to the log's own."""

    def __init__(self, key: TopicPartition, log: Log, directory: DataDirectory) -> None:
        self.key = key
        self.log = log
        self.directory = directory
        self.path = directory.path / future_name(key)
        self.cancelled = False  # the copier stops at once
        self.end_offset = log.start_offset  # up to here records are in the copy
        self.recovery_point = 0  # up to here they are surely on disk there
        self._copied: dict[int, int] = {}  # bytes of segments that are here, by base offset
        self._complete: set[int] = set()  # of sealed segments with all that belongs to them, on disk
        self._missing: set[int] = set()  # segments that were not found, once
        self._outdated: set[int] = set()  # segments that are here, and may be others than the log's
        self._truncations = log.truncations

    @property
    def size(self) -> int:
        return sum(list(self._copied.values()))

    # -- copying -------------------------------------------------------------------------------------------------

    def reserve(self) -> None:
        """Make the directory: from now on a start that finds it takes the move up."""
        self.path.mkdir()

    def begin(self, topic_id: bytes) -> None:
        """Say whose copy this is. Runs in a thread."""
        _finish_former(self.log.directory)
        home = self.directory.partition_path(*self.key)
        if home.exists():  # nobody knows why
            self.directory.set_aside(home, STRAY)
        self.directory.write_topic_id(self.path, topic_id)
        replace_file(self.path / MOVED_FROM, str(self.log.directory.absolute()).encode(), sync=True)

    def wanted(self) -> list[Wanted]:
        """What the copy is to have."""
        if self._truncations != self.log.truncations:
            self._truncations = self.log.truncations
            self._outdated.update(self._copied)
            self._copied.clear()
            self._complete.clear()
            self.end_offset, self.recovery_point = self.log.start_offset, 0
        active = self.log.active
        return [
            Wanted(one.base_offset, one.size, one.next_offset, one is not active) for one in list(self.log.segments)
        ]

    def lacks(self, wanted: Sequence[Wanted]) -> int:
        """How many bytes are still to be copied."""
        return sum(max(one.size - self._copied.get(one.base_offset, 0), 0) for one in wanted)

    def copy(self, wanted: Sequence[Wanted], limit: int) -> int:
        """Copy up to `limit` bytes, the oldest first, and put complete segments on disk. Returns how many.

        Raises SourceFailed when the log is at fault, OSError when the disk of the copy is.
        """
        self._drop_others(wanted)
        left, missing = limit, set()
        for one in wanted:
            if self.cancelled:
                break
            if one.base_offset in self._complete:
                continue
            try:
                left -= self._copy_segment(one, left)
                if one.sealed and self._copied[one.base_offset] == one.size:
                    self._complete_segment(one.base_offset)
            except _Gone as error:  # retention took it since somebody looked, or it is lost
                if one.base_offset in self._missing:
                    raise SourceFailed(f"{self.log.directory}: segment {one.base_offset} is gone") from error
                missing.add(one.base_offset)
                continue
            if self._copied[one.base_offset] < one.size:
                break
            self.end_offset = max(self.end_offset, one.next_offset)
        self._missing = missing
        return limit - left

    def _drop_others(self, wanted: Sequence[Wanted]) -> None:
        """Remove what the log does not have any more."""
        bases = {one.base_offset for one in wanted}
        for base in [*self._outdated, *(base for base in self._copied if base not in bases)]:
            for suffix in (*SMALL_FILES, LOG_SUFFIX):
                (self.path / file_name(base, suffix)).unlink(missing_ok=True)
            self._complete.discard(base)
            self._copied.pop(base, None)
        self._outdated.clear()

    def _copy_segment(self, one: Wanted, limit: int) -> int:
        name = file_name(one.base_offset, LOG_SUFFIX)
        at = self._copied.get(one.base_offset, 0)
        end = min(one.size, at + limit)
        with _reading(self.log.directory / name) as source:
            target = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                start = at
                while at < end and not self.cancelled:
                    at += _copy_range(source.fd, target, at, min(CHUNK, end - at))
                    self._copied[one.base_offset] = at
                self._copied.setdefault(one.base_offset, at)
            finally:
                os.close(target)
        return at - start

    def _complete_segment(self, base_offset: int) -> None:
        self._copy_small_files(base_offset, sync=True)
        path = self.path / file_name(base_offset, LOG_SUFFIX)
        self._keep_time(path)
        fsync(path)
        self._complete.add(base_offset)

    def _copy_small_files(self, base_offset: int, *, sync: bool) -> None:
        for suffix in SMALL_FILES:
            name = file_name(base_offset, suffix)
            try:
                with _reading(self.log.directory / name) as source:
                    data = os.pread(source.fd, os.fstat(source.fd).st_size, 0)
            except _Gone:
                continue
            replace_file(self.path / name, data, sync=sync)

    def _keep_time(self, copy: Path) -> None:
        """Files' times stand in for timestamps that records do not have."""
        with _reading(self.log.directory / copy.name) as source:
            times = os.fstat(source.fd)
        os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))

    def put_on_disk(self, wanted: Sequence[Wanted]) -> None:
        """See to it that all of `wanted`, which is here, survives a power cut. Runs in a thread."""
        for one in wanted:
            if one.base_offset not in self._complete and one.base_offset in self._copied:
                fsync(self.path / file_name(one.base_offset, LOG_SUFFIX))
        fsync(self.path / MOVED_FROM)
        fsync(self.path)
        fsync(self.path.parent)
        if not self.lacks(wanted):
            self.recovery_point = wanted[-1].base_offset  # what follows is looked through after a crash

    # -- taking over ---------------------------------------------------------------------------------------------

    def may_take_over(self, last_bytes: int) -> bool:
        """Whether all sealed segments are here, and no more than that of the active one is missing."""
        *sealed, active = self.wanted()
        return all(one.base_offset in self._complete for one in sealed) and self.lacks([active]) <= last_bytes

    def take_over(self) -> Path:
        """Copy the rest, and let the log go on here. Returns where it was.

        What is copied now lies behind `recovery_point`, so it need not be on disk. Nothing is changed when this raises:
        SourceFailed, or OSError of the new disk.
        """
        log, active = self.log, self.log.active
        wanted = self.wanted()
        self._drop_others(wanted)
        try:
            active.index.flush()
            active.time_index.flush()
        except OSError as error:
            raise SourceFailed(f"{log.directory}: {error.strerror}") from error
        for one in wanted:
            if one.base_offset not in self._complete:
                self._copy_segment(one, one.size)
                self._copy_small_files(one.base_offset, sync=False)
                self._keep_time(self.path / file_name(one.base_offset, LOG_SUFFIX))
        if self.lacks(wanted):
            raise SourceFailed(f"{log.directory}: not all of it is in {self.path}")
        log.epochs.save_to(self.path / EPOCH_FILE)
        home = self.directory.partition_path(*self.key)
        self.path.rename(home)
        was = log.directory
        log.relocate(home, self.recovery_point)
        return was


class _Gone(SourceFailed):
    """A file of the log is not there."""


class _reading:
    """A file of the log, open; SourceFailed when that cannot be."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _reading:
        try:
            self.fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise _Gone(f"{self._path} is gone") from error
        except OSError as error:
            raise SourceFailed(f"{self._path} cannot be read: {error.strerror}") from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def _copy_range(source: int, target: int, at: int, length: int) -> int:
    try:
        data = os.pread(source, length, at)
    except OSError as error:
        raise SourceFailed(f"cannot read what is to be moved: {error.strerror}") from error
    if not data:
        raise SourceFailed(f"a segment ends at byte {at}, before its end")
    written = os.pwrite(target, data, at)
    if not written:
        raise OSError("the disk took nothing")
    return written


# -- after a crash -----------------------------------------------------------------------------------------------


def settle_moves(directories: Sequence[DataDirectory]) -> list[Path]:
    """Where a partition lies twice, take one of the two out of sight; before any log is opened.

    Returns what can be removed.
    """
    aside = []
    found: dict[TopicPartition, list[Path]] = {}
    for directory in directories:
        for key, path in directory.partitions().items():
            found.setdefault(key, []).append(path.absolute())
    for key, paths in found.items():
        sources = {path: _moved_from(path) for path in paths}
        left = [path for path in paths if path not in sources.values()] or paths
        for path in paths:
            if path not in left:
                logger.info("%s-%d has moved from %s; what is left there goes", *key, path)
                aside.append(DataDirectory.set_aside(path))
        for path in left[1:]:
            stray = DataDirectory.set_aside(path, STRAY)
            logger.error("%s-%d lies in %s too, and nobody knows why; it is now %s", *key, path, stray.name)
        source = sources[left[0]]
        if source is not None and source.parent in {directory.path.absolute() for directory in directories}:
            try:
                fsync(source.parent)
                forget_source(left[0])  # else a directory that cannot be used now may still have it
            except OSError as error:
                logger.error("%s-%d: the next start looks again at where it has moved from: %s", *key, error)
    return aside


def _moved_from(partition: Path) -> Path | None:
    try:
        return Path((partition / MOVED_FROM).read_text())
    except (FileNotFoundError, ValueError):
        return None


def _finish_former(partition: Path) -> None:
    """Do what the disk may have refused at the end of the log's last move."""
    source = _moved_from(partition)
    try:
        if source is not None and source.parent.is_dir():
            if source.exists():
                DataDirectory.set_aside(source)
            fsync(source.parent)
            forget_source(partition)
    except OSError as error:
        # without its cause: that is about another disk than the log's
        raise SourceFailed(f"{source}, where it was before, cannot be removed: {error.strerror}") from None


def forget_source(partition: Path) -> None:
    """The place that a log came from is settled."""
    (partition / MOVED_FROM).unlink(missing_ok=True)
