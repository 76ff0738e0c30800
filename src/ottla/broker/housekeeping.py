"""Work that comes again and again, and work that comes later: checks, checkpoints, removal of what was deleted.

Every piece runs by itself, never twice at once; the next round is counted from the end of the last. What fails is
logged and tried again. A piece is a function for a thread (`blocking`), or a function or coroutine function for the
loop.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from ottla.storage.errors import StorageError

log = logging.getLogger(__name__)


class Housekeeping:
    def __init__(self, run_blocking: Callable[..., Awaitable[Any]]) -> None:
        self._run_blocking = run_blocking
        self._timers: set[asyncio.TimerHandle] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def every(
        self,
        interval_ms: int,
        work: Callable[[], Any],
        *,
        blocking: bool = True,
        first_ms: int | None = None,
    ) -> None:
        """Do `work` again and again; `first_ms` from now for the first time."""

        async def run() -> None:
            try:
                result = self._run_blocking(work) if blocking else work()
                if isinstance(result, Awaitable):
                    await result
            except (OSError, StorageError) as error:
                log.error("housekeeping failed; it is tried again later: %s", error)
            except Exception:
                log.exception("housekeeping failed; it is tried again later")
            self._after(interval_ms, run)

        self._after(interval_ms if first_ms is None else first_ms, run)

    def remove_later(self, paths: Iterable[Path], delay_ms: int) -> None:
        """Remove files and directories that are out of sight already. What is left over, the next start removes."""
        waiting = list(paths)
        if not waiting:
            return

        async def run() -> None:
            try:
                await self._run_blocking(_remove, waiting)
            except OSError as error:
                log.error("cannot remove deleted files; the next start tries again: %s", error)

        self._after(delay_ms, run)

    def _after(self, delay_ms: int, work: Callable[[], Any]) -> None:
        if self._stopped:
            return
        loop = asyncio.get_running_loop()

        def start() -> None:
            self._timers.discard(timer)
            task = loop.create_task(work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        timer = loop.call_later(min(delay_ms / 1000, LONGEST), start)
        self._timers.add(timer)

    async def stop(self) -> None:
        """Begin nothing more, and let what runs finish."""
        self._stopped = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._tasks:
            await asyncio.wait(self._tasks)


LONGEST = 10 * 365 * 86_400.0  # a timer farther off would be more than event loops can count


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
