"""The broker as a process: its event loop, its signals, its limit of open files.

The first SIGTERM or SIGINT asks for a clean stop; a second one ends the process at once, whatever it is doing.
uvloop drives the loop where it is installed, asyncio's own loop otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

FORCED = 1  # exit status after a second signal


class StartError(Exception):
    """A broker that cannot start: one line that says why and what to do. Not a bug, so no traceback."""


class StopSignal:
    """Set once, when the process shall stop; anything that serves waits for it."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()


def raise_file_limit() -> int:
    """Raises the number of files that may be open as far as the system lets us; returns what holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:  # some systems have a ceiling below their own hard limit
            log.warning("open files stay limited to %d: %s", soft, error)
            return soft
    return hard


def run(main: Callable[[StopSignal], Coroutine[Any, Any, int]]) -> int:
    """Runs `main` on an event loop of its own until it returns; its result is the exit status."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_with_signals(main))


async def _with_signals(main: Callable[[StopSignal], Coroutine[Any, Any, int]]) -> int:
    stop = StopSignal()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            log.warning("second signal (%s): stopping at once", number.name)
            os._exit(FORCED)
        log.info("%s: stopping", number.name)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return await main(stop)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
