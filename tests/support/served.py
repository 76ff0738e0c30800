"""A broker inside the test process, on a thread and event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from ottla.broker.broker import Broker
from ottla.config.broker import BrokerConfig
from support.wire import TIMEOUT, Wire

T = TypeVar("T")


class Served:
    """A broker that runs on a thread of its own."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        self.settings = {"listeners": ["PLAINTEXT://127.0.0.1:0"], "log_dirs": [str(directory)], **settings}
        self._wires: list[Wire] = []

    def start(self) -> Served:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="broker")
        self._thread.start()
        self.broker = self.run(self._make())
        return self

    async def _make(self) -> Broker:
        broker = Broker(BrokerConfig(**self.settings))
        await broker.start()
        return broker

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT)

    def port(self, listener: int = 0) -> int:
        return self.broker.listeners[listener].port

    def wire(self, host: str = "127.0.0.1", listener: int = 0, client_id: str | None = "test") -> Wire:
        self._wires.append(Wire(host, self.port(listener), client_id))
        return self._wires[-1]

    def stop(self) -> None:
        for wire in self._wires:
            wire.close()
        self._wires.clear()
        self.run(self.broker.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(TIMEOUT)
        self.loop.close()

    def restart(self) -> Served:
        self.stop()
        return self.start()
