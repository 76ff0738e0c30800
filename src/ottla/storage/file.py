"""The files of segments: opened when they are needed, kept open while somebody reads, bounded in number.

A partition of 100 GB has a hundred segments, and a broker thousands of partitions; only the segment that is written
to keeps its file open. The others' files are opened when a reader comes and closed again when `Handles` has more than
its limit, least recently used first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class SegmentFile:
    """A file that is opened on first use. Readers hold it (`acquire`, `release`) while they need it open."""

    __slots__ = ("_fd", "_leaving", "_retired", "_users", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self._users = 0
        self._leaving = False
        self._retired = False

    @property
    def fd(self) -> int:
        if self._fd < 0:
            if self._retired:
                raise FileNotFoundError(f"{self.path} is closed for good")
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._fd

    def open(self) -> None:
        """Open it now, if it is not."""
        _ = self.fd

    def acquire(self) -> None:
        self._users += 1

    def release(self) -> None:
        self._users -= 1
        if self._leaving or self._retired:
            self.let_go()

    def let_go(self) -> None:
        """Close it for now, or when the last reader is done."""
        self._leaving = self._users > 0
        if self._fd >= 0 and not self._users:
            os.close(self._fd)
            self._fd = -1

    def retire(self) -> None:
        """Close it for good, now or when the last reader is done."""
        self._retired = True
        self.let_go()


class FileSlice:
    """Bytes of a segment on their way to a client (net.connection.FilePart)."""

    __slots__ = ("_fd", "_file", "_left", "_position")

    def __init__(self, file: SegmentFile, position: int, length: int) -> None:
        self._fd = file.fd
        file.acquire()
        self._file = file
        self._position = position
        self._left = length

    def read(self, limit: int) -> bytes:
        if not self._left:
            return b""
        data = os.pread(self._fd, min(limit, self._left), self._position)
        if not data:
            raise OSError(f"the segment ended {self._left} bytes early")
        self._position += len(data)
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._file.release()


class Closable(Protocol):
    def let_go(self) -> None: ...


class Handles:
    """The segments whose files were used last; the others' are closed."""

    __slots__ = ("_recent", "limit")

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._recent: dict[Closable, None] = {}

    def use(self, segment: Closable) -> None:
        recent = self._recent
        if recent.pop(segment, 0) == 0 and len(recent) >= self.limit:
            oldest = next(iter(recent))
            del recent[oldest]
            oldest.let_go()
        recent[segment] = None

    def forget(self, segment: Closable) -> None:
        self._recent.pop(segment, None)
