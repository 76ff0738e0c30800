"""The broker's allowance for requests on their way in (`queued.max.request.bytes`).

Only frames too large for a connection's small buffer count. A frame's whole size is reserved before more than its first
bytes are read, so a frame that was let in can always be finished; one that does not fit waits, unread, in order of
arrival. A single frame larger than the whole allowance is let in when nothing else is, so that it cannot wait forever.
"""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    def granted(self) -> None: ...


class Budget:
    __slots__ = ("_held", "_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit  # < 0: no limit
        self.used = 0
        self._held: dict[Reader, int] = {}
        self._waiting: dict[Reader, int] = {}

    def reserve(self, reader: Reader, size: int) -> bool:
        """Whether `reader` may go on; if not, its `granted()` is called when it may."""
        if self._fits(size) and (not self._waiting or next(iter(self._waiting)) is reader):
            self._waiting.pop(reader, None)
            self._held[reader] = size
            self.used += size
            return True
        self._waiting.setdefault(reader, size)
        return False

    def release(self, reader: Reader) -> None:
        self.used -= self._held.pop(reader, 0)
        self._waiting.pop(reader, None)
        while self._waiting:
            first, size = next(iter(self._waiting.items()))
            if not self._fits(size):
                return
            first.granted()
            self._waiting.pop(first, None)  # it took its turn, or is about to close

    def waits(self, reader: Reader) -> bool:
        return reader in self._waiting

    def _fits(self, size: int) -> bool:
        return self.limit < 0 or self.used == 0 or self.used + size <= self.limit
