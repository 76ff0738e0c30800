"""A broker inside the test process, and a client that speaks raw frames to it.

`serve(**settings)` starts a broker on its own thread and event loop (settings as attributes of BrokerConfig) and gives
a `Served`; `wire` is a client of a broker with the default settings. Everything ends with the test.

    def test_x(wire):
        reply = wire.call(messages.MetadataRequest(topics=None), 12)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from support.group_wire import find_coordinator
from support.served import Served
from support.wire import TIMEOUT, Wire

T = TypeVar("T")


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
