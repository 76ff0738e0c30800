"""Events as lines of JSON, as Kafka's verifiable clients print them: `{"timestamp":…,"name":…,…}`.

Programs read them while they come, so each line is out before the next thing is done. SIGTERM and SIGINT do not end
such a client at once; it finishes what it has begun and says so.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def emit(name: str, **fields: Any) -> None:
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}
    sys.stdout.write(json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n")
    sys.stdout.flush()


class Stop:
    """Whether the process was asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        return self.asked

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        def handle(_number: int, _frame: FrameType | None) -> None:
            self.asked = True

        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
