"""Requests that carry a timeout: how long the client waits for the work, not how long the work may take."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(timeout_ms: int, work: Coroutine[Any, Any, T]) -> T | None:
    """What the work comes to; None when that takes longer. The work goes on then, as in Kafka."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait((task,), timeout=max(timeout_ms, 0) / 1000)
    return task.result() if done else None
