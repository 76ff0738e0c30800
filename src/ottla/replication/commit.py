"""What stands between an append and its being committed, where that takes more than a write to the page cache.

A partition has a `Commit` only when it needs one: `flush.messages` is set. Appends then are

    fewer than flush.messages records are not on disk      committed at once
    as many, or a flush is under way                       committed by the flush that covers it

So what consumers see, and what producers are told is written, survives a power cut with flush.messages=1, and loses
fewer than flush.messages records otherwise. One flush serves all appends that came before it began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.replication.refused import Refused

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.storage.flush import LogFlusher

Settled = Callable[[Refused | None], None]


class Commit:
    __slots__ = ("_flusher", "_hidden", "_partition", "_refusal", "_waiting")

    def __init__(self, partition: Partition, flusher: LogFlusher) -> None:
        self._partition = partition
        self._flusher = flusher
        self._refusal: Refused | None = None
        self._hidden: deque[tuple[int, int]] = deque()  # end offset and size of appends that are not committed
        self._waiting: deque[tuple[int, Settled]] = deque()

    def appended(self, size: int) -> None:
        self._hidden.append((self._partition.log.end_offset, size))
        if not self._flusher.busy:
            self._settle()

    def flushed(self) -> None:
        """A flush has ended well."""
        self._settle()

    def _settle(self) -> None:
        partition, log = self._partition, self._partition.log
        if log.end_offset - log.recovery_point < partition.config.flush_messages:
            self._advance(log.end_offset)
        else:
            self._advance(log.recovery_point)
            self._flusher.request(log.end_offset)

    def _advance(self, offset: int) -> None:
        partition = self._partition
        if offset > partition.high_watermark:
            partition.advance(offset)
        size = 0
        while self._hidden and self._hidden[0][0] <= offset:
            size += self._hidden.popleft()[1]
        if size:
            partition.wake(size)
        while self._waiting and self._waiting[0][0] <= offset:
            self._waiting.popleft()[1](None)

    def when_committed(self, offset: int, settled: Settled) -> None:
        """Call `settled` when all below `offset` is committed (None), or never will be (why)."""
        if self._refusal is not None or offset <= self._partition.high_watermark:
            settled(self._refusal)
        else:
            self._waiting.append((offset, settled))

    def refuse(self, refusal: Refused) -> None:
        """Nothing more will be committed."""
        self._refusal = refusal
        waiting, self._waiting = self._waiting, deque()
        for _, settled in waiting:
            settled(refusal)
