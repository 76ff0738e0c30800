"""At most so many records a second, as Kafka's test tools keep it."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_PAUSE = 0.002  # shorter ones cost more than they give


class Throttle:
    """Holds a sender back when it is ahead of `rate` records a second; below 0 nothing holds it, at 0 it stays held.

    A pause is spent in `pause(seconds)`, which may return early; `stopped()` ends it.
    """

    def __init__(
        self,
        rate: float,
        pause: Callable[[float], object] = time.sleep,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._pause = pause
        self._stopped = stopped
        self._clock = clock
        self._start = clock()

    def after(self, sent: int) -> None:
        """Called when `sent` records are on their way."""
        if self._rate < 0:
            return
        if self._rate == 0:
            while not self._stopped():
                self._pause(0.1)
            return
        due = self._start + sent / self._rate
        left = due - self._clock()
        if left < LEAST_PAUSE:
            return
        while left > 0 and not self._stopped():
            self._pause(left)
            left = due - self._clock()
