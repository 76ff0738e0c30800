"""Waiting for what other processes and threads do, where nothing tells of it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep


def wait_until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Returns as soon as it holds."""
    deadline = monotonic() + seconds
    while not holds():
        assert monotonic() < deadline, "it did not come true in time"
        sleep(0.005)
