"""Deadlines of many owners, most of which are moved again and again and seldom come.

A heartbeat moves a member's deadline every few seconds, so that must cost next to nothing: the new time is noted, and
the entry in the heap stays where it is. When it comes to the top too early, it is put back at its present time.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Any

NEVER = 1 << 62


class Timers:
    __slots__ = ("_count", "_heap", "_wanted")

    def __init__(self) -> None:
        self._wanted: dict[tuple[Any, Hashable], list[int]] = {}  # deadline, and that of its entry in the heap
        self._heap: list[tuple[int, int, tuple[Any, Hashable]]] = []
        self._count = 0  # keeps keys out of comparisons

    def set(self, owner: Any, name: Hashable, at: int) -> None:
        key = (owner, name)
        known = self._wanted.get(key)
        if known is None:
            self._wanted[key] = [at, at]
        else:
            known[0] = at
            if at >= known[1]:
                return
            known[1] = at
        self._push(at, key)

    def cancel(self, owner: Any, name: Hashable) -> None:
        self._wanted.pop((owner, name), None)

    def next(self) -> int:
        """When somebody may be due; NEVER if nobody waits."""
        heap = self._heap
        while heap:
            at, _, key = heap[0]
            known = self._wanted.get(key)
            if known is None or known[1] != at:
                heapq.heappop(heap)
            elif known[0] > at:
                known[1] = known[0]
                self._count += 1
                heapq.heapreplace(heap, (known[0], self._count, key))
            else:
                return at
        return NEVER

    def due(self, now: int) -> Iterator[tuple[Any, Hashable]]:
        """Owners and names whose time has come; each is over with that. More may be set meanwhile."""
        while self.next() <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._wanted[key]
            yield key

    def _push(self, at: int, key: tuple[Any, Hashable]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))

    def __len__(self) -> int:
        return len(self._wanted)
