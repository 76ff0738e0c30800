"""Flushing of the logs of a broker: threads of its own, and the clock of `flush.ms`.

A log with a `flush.ms` is flushed when that long has passed since its last flush and it has grown. The clock ticks as
often as the smallest `flush.ms` asks for, or `log.flush.scheduler.interval.ms` if that is less; it stands still where
no topic has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from ottla.config.definitions import MAX_LONG
from ottla.replication.partition import Partition
from ottla.storage.flush import LogFlusher

THREADS = 8  # disks do better with several fsyncs at once; each waits, and uses no processor
SHORTEST_TICK = 0.01


class Flushing:
    def __init__(self, scheduler_interval_ms: int) -> None:
        self._interval_ms = scheduler_interval_ms
        self._threads = ThreadPoolExecutor(THREADS, "flush")
        self._running: set[asyncio.Future[None]] = set()
        self._timed: dict[Partition, LogFlusher] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, partition: Partition) -> None:
        partition.flush_with(LogFlusher(partition.log, self._in_thread))
        self.reconsider(partition)

    def reconsider(self, partition: Partition) -> None:
        """A partition is new, or its settings have changed."""
        if partition.flusher is not None and partition.config.flush_ms < MAX_LONG:
            self._timed[partition] = partition.flusher
            self._tick_in(0)
        else:
            self._timed.pop(partition, None)

    def remove(self, partition: Partition) -> None:
        self._timed.pop(partition, None)

    def _in_thread(self, work: Callable[[], None]) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def _tick_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tick)

    def _tick(self) -> None:
        """Flush what is due, and come again when the next may be."""
        if not self._timed:
            return
        now = monotonic()
        for partition, flusher in self._timed.items():
            due = now - flusher.flushed_at >= partition.config.flush_ms / 1000
            if due and partition.log.end_offset > partition.log.recovery_point:
                flusher.request(partition.log.end_offset)
        smallest = min(self._interval_ms, *(partition.config.flush_ms for partition in self._timed)) / 1000
        self._tick_in(max(smallest, SHORTEST_TICK))

    async def idle(self) -> None:
        """Returns when nothing is being flushed."""
        while self._running:
            await asyncio.wait(self._running)

    async def stop(self) -> None:
        """Begin nothing more, and let what runs finish."""
        if self._timer is not None:
            self._timer.cancel()
        self._timed.clear()
        await self.idle()
        self._threads.shutdown(wait=False)
