"""A broker inside the test process, and a client that speaks raw frames to it.

`serve(**settings)` starts a broker on its own thread and event loop (settings as attributes of BrokerConfig) and gives
a `Served`; `wire` is a client of a broker with the default settings. Everything ends with the test.

    def test_x(wire):
        reply = wire.call(messages.MetadataRequest(topics=None), 12)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from ottla.broker.broker import Broker
from ottla.config.broker import BrokerConfig
from support.group_wire import find_coordinator
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


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    served: list[Served] = []

    def start(**settings: Any) -> Served:
        one = Served(tmp_path / f"data-{len(served)}", settings).start()
        served.append(one)
        return one

    yield start
    for one in served:
        one.stop()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve()


@pytest.fixture
def wire(served: Served) -> Wire:
    return served.wire()


@pytest.fixture(scope="module")
def served_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker for a whole module, whose groups do not wait for more members."""
    settings = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 5}
    one = Served(tmp_path_factory.mktemp("groups"), settings).start()
    find_coordinator(one.wire(), "g")
    yield one
    one.stop()


@pytest.fixture(scope="module")
def served_transactions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker for a whole module, with few partitions for coordinators."""
    settings = {
        "group_initial_rebalance_delay_ms": 0,
        "offsets_topic_num_partitions": 2,
        "transaction_state_log_num_partitions": 3,
    }
    one = Served(tmp_path_factory.mktemp("transactions"), settings).start()
    yield one
    one.stop()


@pytest.fixture
def connect(served_groups: Served) -> Callable[[], Wire]:
    return served_groups.wire


@pytest.fixture
def group() -> str:
    """The name of a group that nobody else uses."""
    return f"group-{uuid4().hex[:12]}"


@pytest.fixture
def until() -> Callable[[Callable[[], T]], T]:
    """Asks again until the answer is true, and returns it."""

    def wait(ask: Callable[[], T]) -> T:
        deadline = monotonic() + TIMEOUT
        while not (answer := ask()):
            assert monotonic() < deadline, "it did not come true in time"
        return answer

    return wait
