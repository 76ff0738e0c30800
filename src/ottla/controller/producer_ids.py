"""Producer ids for idempotent producers: handed out one by one, taken from the controller in blocks (KIP-730).

A block is recorded in the store before any id of it is given away, so an id is never given twice, not even after
kill -9; what was left of a block then is lost, which 2^63 ids allow. The next block is fetched when a tenth of the
current one is left, so that a request waits only for the first block.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

BLOCK_SIZE = 1000
PREFETCH_AT = BLOCK_SIZE // 10


class ProducerIds:
    """`allocate` gives a fresh block as (first id, count)."""

    __slots__ = ("_allocate", "_end", "_fetching", "_next", "_spare")

    def __init__(self, allocate: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        self._allocate = allocate
        self._next = self._end = 0
        self._spare: tuple[int, int] | None = None
        self._fetching: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """An id at once, or None if a block has to be waited for."""
        if self._next == self._end:
            if self._spare is None:
                return None
            first, count = self._spare
            self._next, self._end, self._spare = first, first + count, None
        taken = self._next
        self._next += 1
        if self._end - self._next <= PREFETCH_AT and self._spare is None and self._fetching is None:
            self._fetch().add_done_callback(_log_failure)
        return taken

    async def wait(self) -> int:
        """An id, after waiting for a block if need be. Raises what `allocate` raised."""
        while (taken := self.take()) is None:
            await asyncio.shield(self._fetching or self._fetch())
        return taken

    def _fetch(self) -> asyncio.Task[None]:
        async def fetch() -> None:
            try:
                self._spare = await self._allocate()
            finally:
                self._fetching = None

        self._fetching = asyncio.get_running_loop().create_task(fetch())
        return self._fetching


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("no block of producer ids: %s", error)
