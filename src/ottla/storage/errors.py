"""What can go wrong with a log."""

from __future__ import annotations


class StorageError(Exception):
    """The disk let us down: the request fails, and what was acknowledged before it is still there."""


class CorruptLog(StorageError):
    """Data that was safely on disk is damaged or gone: nothing is cut off, the partition goes offline."""


class FlushFailed(StorageError):
    """What was written may never get to the disk, though it can be read."""


class OffsetOutOfRange(Exception):
    """A read below the log's start or beyond its end."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is not in the log's {start} to {end}")
        self.offset, self.start, self.end = offset, start, end


class DirectoryInUse(Exception):
    """Another broker holds the data directory."""


class DamagedDirectory(Exception):
    """A data directory that cannot be used as it is."""


class ForeignDirectory(Exception):
    """The data directory belongs to another cluster or another broker."""
