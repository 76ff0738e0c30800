"""A broker that these tests share, a connection of each client to it, and topics that nobody else uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from uuid import uuid4

import pytest

from ottla.testing import BrokerProcess
from support.clients.client import Client, Connected
from support.clients.every import CLIENTS
from support.wire import Wire


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a `client` is run with each; one that takes a `codec` too, with each that the client has."""
    if any("client" in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize")):
        return
    if {"client", "codec"} <= set(metafunc.fixturenames):
        pairs = [(client, codec) for client in CLIENTS for codec in client.codecs]
        metafunc.parametrize(
            ("client", "codec"), pairs, ids=[f"{client.name}-{codec}" for client, codec in pairs], scope="session"
        )
    elif "client" in metafunc.fixturenames:
        metafunc.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS], scope="session")


@pytest.fixture(scope="session", autouse=True)
def _clients_end_with_the_session() -> Iterator[None]:
    yield
    for client in CLIENTS:
        client.close()


@pytest.fixture(scope="session")
def broker(ottla_shared_broker: BrokerProcess) -> BrokerProcess:
    return ottla_shared_broker


@pytest.fixture(scope="session")
def connections(broker: BrokerProcess) -> Iterator[Callable[[Client], Connected]]:
    """A client's connection to the shared broker, made once."""
    made: dict[str, Connected] = {}

    def connect(client: Client) -> Connected:
        if client.name not in made:
            made[client.name] = client.connect(broker.bootstrap)
        return made[client.name]

    yield connect
    for one in made.values():
        one.close()


@pytest.fixture
def connected(client: Client, connections: Callable[[Client], Connected]) -> Connected:
    return connections(client)


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    """A raw connection to the shared broker."""
    wire = Wire("127.0.0.1", broker.port)
    yield wire
    wire.close()


@pytest.fixture
def new_name() -> Callable[[], str]:
    numbers = count()
    return lambda: f"topic-{uuid4().hex[:12]}-{next(numbers)}"


@pytest.fixture
def topic(wire: Wire, new_name: Callable[[], str]) -> str:
    """A topic with one partition."""
    name = new_name()
    wire.create(name)
    return name
