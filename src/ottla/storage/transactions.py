"""Transactions as a log has them: the index of the aborted ones (KIP-98).

A producer's transaction begins with its first transactional batch in the partition and ends with a marker, a control
batch that says commit or abort. Which ones are open is part of the producers' state (producers.py). The aborted ones
whose marker lies in a segment stand in its `<base>.txnindex`:

    version int16 = 0 | producer id int64 | first offset int64 | last offset int64 | last stable offset int64

in the order of their markers, the last offset being the marker's; the file is there only where there is one. The last
stable offset is the one right after the marker was written: up to there everything was decided, so who looks for
aborted transactions below it need not read on.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ottla.storage.fsync import fsync

TXN_INDEX_SUFFIX = ".txnindex"

_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    first_offset: int
    last_offset: int  # of its marker
    producer_id: int
    last_stable_offset: int


def read_txn_index(path: Path) -> list[AbortedTransaction]:
    """What the file holds; a torn entry at its end is left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = len(data) - len(data) % _ENTRY.size
    return [
        AbortedTransaction(first, last, producer_id, stable)
        for _, producer_id, first, last, stable in _ENTRY.iter_unpack(data[:whole])
    ]


def encode_txn_index(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        _ENTRY.pack(0, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset) for one in entries
    )


class TransactionIndex:
    """The aborted transactions of one segment. Read on first need; written as they come, as aborts are rare."""

    __slots__ = ("_entries", "_on_disk", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[AbortedTransaction] | None = None
        self._on_disk = True

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = read_txn_index(self._path)
        return self._entries

    def append(self, aborted: AbortedTransaction) -> None:
        at = len(self.entries) * _ENTRY.size
        self._write(encode_txn_index([aborted]), at)
        self.entries.append(aborted)

    def replace(self, entries: list[AbortedTransaction]) -> None:
        """These and no others; no file where there are none."""
        self._entries = entries
        if entries:
            self._write(encode_txn_index(entries), 0)
        else:
            self._path.unlink(missing_ok=True)
            self._on_disk = True

    def truncate_to(self, offset: int) -> None:
        """Markers from `offset` on are gone."""
        self.replace([one for one in self.entries if one.last_offset < offset])

    def _write(self, data: bytes, at: int) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(fd, data, at)
            os.ftruncate(fd, at + len(data))  # of a torn entry
        finally:
            os.close(fd)
        self._on_disk = False

    def fsync(self) -> None:
        """Put the file on disk, if there is one: the segment may be deleted while it is flushed."""
        if self._on_disk:
            return
        with contextlib.suppress(FileNotFoundError):
            fsync(self._path)
            self._on_disk = True

    def let_go(self) -> None:
        """Read it anew when somebody needs it; that there is nothing is remembered."""
        if self._entries:
            self._entries = None
