"""Which leader epoch wrote which part of the log (KIP-101), kept in `leader-epoch-checkpoint`.

    0                     version
    2                     number of lines
    0 0                   epoch, its first offset
    3 1200

Epochs and offsets both grow. A follower that asks where an epoch ended learns how far its log agrees with the leader's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
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

    def open(self) -> bool:
        """Read what was written down; False when there is nothing that can be believed."""
        try:
            entries = [(int(epoch), int(start)) for epoch, start in read_checkpoint(self._path)]
        except ValueError:
            entries = []
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if next_epoch <= epoch or next_start <= start:
                entries = []
                break
        self._entries = entries
        self.latest = entries[-1][0] if entries else NO_EPOCH
        return bool(entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """From `start_offset` on, records are of `epoch`. OSError, and it is not so, when that cannot be written."""
        if epoch <= self.latest:
            return
        kept = [entry for entry in self._entries if entry[1] < start_offset]  # the others wrote nothing
        self._keep([*kept, (epoch, start_offset)])

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
        self._keep(kept)

    def truncate_start(self, offset: int) -> None:
        """Records before `offset` are gone; the epoch of `offset` now begins there."""
        kept = [entry for entry in self._entries if entry[1] > offset]
        epoch = self.epoch_at(offset)
        if epoch != NO_EPOCH:
            kept.insert(0, (epoch, offset))
        self._keep(kept)

    def clear(self) -> None:
        """Nothing is known: the epochs are about to be learnt from the log."""
        self._keep([])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._entries)

    def save_to(self, path: Path) -> None:
        """Write the epochs down elsewhere."""
        write_checkpoint(path, self._rows(self._entries))

    def relocate(self, path: Path) -> None:
        """Write them there from now on."""
        self._path = path

    @staticmethod
    def _rows(entries: list[tuple[int, int]]) -> list[tuple[str, str]]:
        return [(str(epoch), str(start)) for epoch, start in entries]

    def _keep(self, entries: list[tuple[int, int]]) -> None:
        if entries != self._entries:
            write_checkpoint(self._path, self._rows(entries))
            self._entries = entries
            self.latest = entries[-1][0] if entries else NO_EPOCH
