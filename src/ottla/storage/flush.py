"""Putting a log on disk: one fsync of a log at a time, in a thread, for all who asked meanwhile (group commit).

    asked for:      flush.messages reached, flush.ms over, a segment complete
    put on disk:    every segment from the recovery point on; the active one only if somebody asked for its records;
                    the directory too when it has new files, else a power cut takes the file that was so well flushed
    afterwards:     the recovery point is where the log ended when the fsync began; if more is asked for, once again

A log whose fsync failed is not tried again: the system may have dropped the pages and report success the next time. It
is offline (`Log.failed`), until a restart reads from the disk what is really there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import takewhile
from time import monotonic

from ottla.storage.directory import PARTITION_METADATA
from ottla.storage.errors import FlushFailed
from ottla.storage.fsync import fsync
from ottla.storage.log import Log
from ottla.storage.segment import Segment

InThread = Callable[[Callable[[], None]], "asyncio.Future[None]"]


class LogFlusher:
    __slots__ = ("_closed", "_held", "_idle", "_in_thread", "_wanted", "busy", "flushed_at", "log", "on_done")

    def __init__(self, log: Log, in_thread: InThread) -> None:
        self.log = log
        self._in_thread = in_thread
        self._wanted = 0
        self.busy = False
        self._closed = False
        self._held = False
        self._idle: asyncio.Future[None] | None = None
        self.flushed_at = monotonic()
        self.on_done: Callable[[], None] | None = None  # called after each good fsync
        log.on_roll = self._rolled

    def request(self, up_to: int) -> None:
        """See to it that records below `up_to` get to the disk."""
        self._wanted = max(self._wanted, up_to)
        if not self.busy and not self._closed and not self._held and up_to > self.log.recovery_point:
            self._start()

    async def hold(self) -> None:
        """Begin nothing more until `go_on`, since the log's files are about to be moved. Returns when it is idle."""
        self._held = True
        if self.busy:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def go_on(self) -> None:
        self._held = False
        self.request(self._wanted)

    def _rolled(self, log: Log, _: Segment) -> None:
        self.request(log.active.base_offset)

    def _start(self) -> None:
        log = self.log
        with_active = self._wanted > log.active.base_offset
        up_to = log.end_offset if with_active else log.active.base_offset
        start = log.recovery_point
        segments = list(takewhile(lambda one: one.next_offset > start, reversed(log.segments)))
        if not with_active:
            segments.remove(log.active)
        held: list[Segment] = []
        try:
            for segment in segments:
                segment.file.open()
                segment.file.acquire()  # it may be deleted, or its file closed for others', meanwhile
                held.append(segment)
        except OSError as error:
            self._finish(held, up_to, error)
            return
        sealed = [segment for segment in segments if segment is not log.active]
        new_files = any(segment.base_offset >= start for segment in segments)
        self.busy = True

        def work() -> None:
            for segment in sealed:
                segment.fsync()
            if with_active:
                os.fsync(segments[0].file.fd)
            if new_files:
                _fsync_new_files(log)

        def done(future: asyncio.Future[None]) -> None:
            self._finish(held, up_to, future.exception())

        self._in_thread(work).add_done_callback(done)

    def _finish(self, held: list[Segment], up_to: int, error: BaseException | None) -> None:
        self.busy = False
        self.flushed_at = monotonic()
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
        for segment in held:
            segment.file.release()
        if error is None:
            self.log.recovery_point = max(self.log.recovery_point, up_to)
        elif not self._closed:
            self._closed = True
            failure = FlushFailed(f"{self.log.directory.name} cannot be put on disk: {error}")
            failure.__cause__ = error
            self.log.failed(failure)
        if self.on_done is not None and not self._closed:
            self.on_done()
        self.request(self._wanted)

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True


def _fsync_new_files(log: Log) -> None:
    """Make sure that the names of files, and of the directory itself, are on disk."""
    metadata = log.directory / PARTITION_METADATA
    if metadata.exists():
        fsync(metadata)
    fsync(log.directory)
    fsync(log.directory.parent)
