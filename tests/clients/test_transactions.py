"""Transactions of real clients: what they commit is there, what they abort is not, and a newer one fences the older."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ottla.testing import BrokerProcess
from support.apache_kafka import reason_to_skip
from support.clients.client import ClientError
from support.clients.movers import MOVERS, Mover
from support.group_wire import fetch as fetch_offsets
from support.transactional import describe, end_offset, state_of
from support.wire import Wire


@pytest.fixture(params=MOVERS, ids=[mover.name for mover in MOVERS])
def kind(request: pytest.FixtureRequest) -> Any:
    if request.param.name == "java" and (reason := reason_to_skip()):
        pytest.skip(reason)
    return request.param


@pytest.fixture
def id() -> str:
    return f"id-{uuid4().hex[:12]}"


@pytest.fixture
def make(kind: Any, broker: BrokerProcess, id: str) -> Any:
    made: list[Mover] = []

    def new() -> Mover:
        made.append(kind(broker.bootstrap, id))
        return made[-1]

    yield new
    for one in made:
        one.close()


def committed(broker: BrokerProcess, topic: str, partition: int) -> list[str]:
    """As a consumer with read_committed sees it, to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    values: list[str] = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        values.append(message.value().decode())
    consumer.close()
    return values


def test_a_clients_transactions(
    kind: Any, make: Callable[[], Mover], broker: BrokerProcess, wire: Wire, new_name: Callable[[], str], id: str
) -> None:
    topic, group = new_name(), new_name()
    wire.create(topic, 2)
    one = make()
    one.begin()
    one.send(topic, 0, "a")
    one.send(topic, 1, "b")
    assert state_of(wire, id) == "Ongoing"
    assert end_offset(wire, topic) == 0
    one.commit()
    one.begin()
    one.send(topic, 0, "lost")
    one.send(topic, 1, "lost")
    one.abort()
    one.begin()
    one.send(topic, 0, "c")
    one.positions(group, topic, 0, 7)
    assert fetch_offsets(wire, group, (topic, 0))[0][2] == -1
    one.commit()
    assert committed(broker, topic, 0) == ["a", "c"]
    assert committed(broker, topic, 1) == ["b"]
    assert fetch_offsets(wire, group, (topic, 0))[0][2] == 7
    raised = describe(wire, id).producer_epoch >= 3
    assert (2 if raised else 1) == kind.version


def test_a_clients_successor_fences_it(
    make: Callable[[], Mover], broker: BrokerProcess, wire: Wire, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    wire.create(topic)
    old = make()
    old.begin()
    old.send(topic, 0, "zombie")
    new = make()
    new.begin()
    new.send(topic, 0, "new")
    with pytest.raises(ClientError):
        old.commit()
    new.commit()
    assert committed(broker, topic, 0) == ["new"]
