"""The sparse indexes beside a segment's `.log`, in Kafka's format.

    .index      relative offset int32 | position int32       the batch at `position` ends with that offset
    .timeindex  timestamp int64 | relative offset int32      no record up to that offset is newer

Both columns of both files only grow, so either can be searched. Entries are made every `index.interval.bytes` of log.
The newest ones live in memory and reach the file when there are TAIL of them, when the segment is rolled, or when it
is closed; after a crash the index is made again from the log. What lies in the file is searched through a memory map,
so the memory of an index does not grow with its segment.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path

from ottla.storage.fsync import fsync

TAIL = 512

KEY, VALUE = 0, 1


class SparseIndex:
    __slots__ = ("_entry", "_in_file", "_map", "_tail", "last_key", "path")

    def __init__(self, path: Path, entry: str) -> None:
        self.path = path
        self._entry = struct.Struct(entry)
        self._tail = (array("q"), array("q"))
        self._in_file = 0
        self._map: mmap | None = None
        self.last_key = -1

    def open(self) -> None:
        """Take up what the file holds; an odd number of bytes at its end is a torn entry and is left out."""
        self._in_file = self.path.stat().st_size // self._entry.size if self.path.exists() else 0
        self.last_key = self._read(self._in_file - 1)[KEY] if self._in_file else -1

    def take_up(self, other: SparseIndex) -> None:
        """The file is a copy of another index's, which has no entries beside its file."""
        self._in_file, self.last_key = other._in_file, other.last_key

    def __len__(self) -> int:
        return self._in_file + len(self._tail[KEY])

    @property
    def size(self) -> int:
        """Bytes of the whole index."""
        return len(self) * self._entry.size

    @property
    def has_tail(self) -> bool:
        """Whether there are entries that are not in the file."""
        return bool(self._tail[KEY])

    def append(self, key: int, value: int) -> None:
        keys, values = self._tail
        keys.append(key)
        values.append(value)
        self.last_key = key
        if len(keys) >= TAIL:
            with suppress(OSError):  # a full disk: they stay in memory, and are tried again with the next entry
                self.flush()

    def last(self) -> tuple[int, int] | None:
        if self._tail[KEY]:
            return self._tail[KEY][-1], self._tail[VALUE][-1]
        return self._read(self._in_file - 1) if self._in_file else None

    def floor(self, column: int, target: int) -> tuple[int, int] | None:
        """The last entry whose KEY or VALUE is not above `target`."""
        tail = self._tail[column]
        if tail and tail[0] <= target:
            at = bisect_right(tail, target) - 1
            return self._tail[KEY][at], self._tail[VALUE][at]
        at = self._count_up_to(column, target)
        return self._read(at - 1) if at else None

    def ceiling(self, column: int, target: int) -> tuple[int, int] | None:
        """The first entry whose KEY or VALUE is not below `target`."""
        at = self._count_up_to(column, target - 1)
        if at == self._in_file:
            at += bisect_right(self._tail[column], target - 1)
        return self._read(at) if at < len(self) else None

    def _count_up_to(self, column: int, target: int) -> int:
        """How many entries of the file are not above `target`."""
        low, high = 0, self._in_file
        if not high:
            return 0
        entries, unpack, size = self._mapped(), self._entry.unpack_from, self._entry.size
        while low < high:
            middle = (low + high) // 2
            if unpack(entries, middle * size)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low

    def flush(self) -> None:
        """Write the tail to the file (which exists from then on)."""
        keys, values = self._tail
        data = b"".join(map(self._entry.pack, keys, values))
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            at = self._in_file * self._entry.size
            os.ftruncate(fd, at)
            if data and os.pwrite(fd, data, at) != len(data):
                raise OSError(f"short write to {self.path}")
        finally:
            os.close(fd)
        self._in_file += len(keys)
        self._tail = (array("q"), array("q"))
        self._unmap()

    def fsync(self) -> None:
        """Put the file on disk, if there is one."""
        with suppress(FileNotFoundError):
            fsync(self.path)

    def cut(self, column: int, target: int) -> None:
        """Keep the entries whose KEY or VALUE is below `target`."""
        self.flush()
        self.truncate(self._count_up_to(column, target - 1))

    def truncate(self, entries: int) -> None:
        """Keep the first `entries`."""
        self.flush()
        self._in_file = min(entries, self._in_file)
        self.flush()
        last = self.last()
        self.last_key = last[KEY] if last else -1

    def clear(self) -> None:
        """Start anew: the index is about to be made from the log."""
        self._unmap()
        self._in_file = 0
        self._tail = (array("q"), array("q"))
        self.last_key = -1

    def close(self) -> None:
        self._unmap()

    def _read(self, at: int) -> tuple[int, int]:
        if at >= self._in_file:
            at -= self._in_file
            return self._tail[KEY][at], self._tail[VALUE][at]
        return self._entry.unpack_from(self._mapped(), at * self._entry.size)

    def _mapped(self) -> mmap:
        if self._map is None:
            with self.path.open("rb") as file:
                self._map = mmap(file.fileno(), self._in_file * self._entry.size, access=ACCESS_READ)
        return self._map

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None


class OffsetIndex(SparseIndex):
    """KEY: offset relative to the segment's base, VALUE: position in the `.log`."""

    __slots__ = ()

    def __init__(self, path: Path) -> None:
        super().__init__(path, ">ii")


class TimeIndex(SparseIndex):
    """KEY: the largest timestamp so far, VALUE: relative offset of the batch that has it."""

    __slots__ = ()

    def __init__(self, path: Path) -> None:
        super().__init__(path, ">qi")
