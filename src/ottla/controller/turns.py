"""Long work on the event loop in steps, so that requests wait for one step at most.

turns = Turns()
for topic in topics:
    ...
    await turns.give()
"""

from __future__ import annotations

import asyncio
from time import monotonic

STEP_SECONDS = 0.001


class Turns:
    __slots__ = ("_began",)

    def __init__(self) -> None:
        self._began = monotonic()

    async def give(self) -> None:
        """Let others have their turn, if it is time."""
        if monotonic() - self._began > STEP_SECONDS:
            await asyncio.sleep(0)
            self._began = monotonic()
