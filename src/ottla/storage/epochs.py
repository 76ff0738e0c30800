"""Which leader epoch wrote which part of the log (KIP-101), kept in `leader-epoch-checkpoint`.

    0                     version
    2                     number of lines
    0 0                   epoch, its first offset
    3 1200

Epochs and offsets both grow. A follower that asks where an epoch ended learns how far its log agrees with the leader's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.storage.checkpoints import read_checkpoint, write_checkpoint

NO_EPOCH = -1
NO_OFFSET = -1


class LeaderEpochs:
    __slots__ = ("_entries", "_path", "latest")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[tuple[int, int]] = []
        self.latest = NO_EPOCH

    def open(self) -> None:
        self._entries = [(int(epoch), int(start)) for epoch, start in read_checkpoint(self._path)]
        self.latest = self._entries[-1][0] if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """From `start_offset` on, records are of `epoch`."""
        if epoch <= self.latest:
            return
        while self._entries and self._entries[-1][1] >= start_offset:
            self._entries.pop()  # an epoch that wrote nothing
        self._entries.append((epoch, start_offset))
        self.latest = epoch
        self._write()

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and the offset at which it ends. (-1, -1): we cannot tell."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        floor, end = epoch, log_end
        for current, start in self._entries:
            if current > epoch:
                end = start
                break
            floor = current
        return floor, end

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`."""
        for epoch, start in reversed(self._entries):
            if start <= offset:
                return epoch
        return NO_EPOCH

    def truncate_end(self, offset: int) -> None:
        """Records from `offset` on are gone."""
        kept = [entry for entry in self._entries if entry[1] < offset]
        if kept != self._entries:
            self._entries = kept
            self.latest = kept[-1][0] if kept else NO_EPOCH
            self._write()

    def truncate_start(self, offset: int) -> None:
        """Records before `offset` are gone; the epoch of `offset` now begins there."""
        kept = [entry for entry in self._entries if entry[1] > offset]
        epoch = self.epoch_at(offset)
        if epoch != NO_EPOCH:
            kept.insert(0, (epoch, offset))
        if kept != self._entries:
            self._entries = kept
            self._write()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._entries)

    def _write(self) -> None:
        write_checkpoint(self._path, [(str(epoch), str(start)) for epoch, start in self._entries])
