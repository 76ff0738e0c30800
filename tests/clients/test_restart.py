"""Clients over a broker's clean stop and its death: acknowledged records stay, nothing else appears."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import Protocol

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaTimeoutError

from ottla.protocol.records import Record
from ottla.testing import BrokerProcess
from support.clients.client import Client
from support.clients.confluent import ConfluentClient
from support.clients.samples import AN_HOUR_AGO, as_seen, at_the_end, sample
from support.wire import TIMEOUT, Wire


def stop_and_start(broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    broker.start()


def kill_and_start(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


ENDS = pytest.mark.parametrize("end", [stop_and_start, kill_and_start])


def create(broker: BrokerProcess, topic: str) -> None:
    wire = Wire("127.0.0.1", broker.port)
    wire.create(topic)
    wire.close()


def values_in(broker: BrokerProcess, topic: str) -> list[bytes | None]:
    reader = ConfluentClient().connect(broker.bootstrap)
    try:
        return [record.value for record in reader.read(topic)]
    finally:
        reader.close()


@ENDS
def test_a_client_goes_on_where_it_was(
    client: Client, end: Callable[[BrokerProcess], None], ottla_broker: BrokerProcess
) -> None:
    create(ottla_broker, "orders")
    connected = client.connect(ottla_broker.bootstrap)
    before, after = sample("before"), sample("after")
    connected.write("orders", before, codec="gzip")
    assert len(connected.read("orders")) == len(before)
    end(ottla_broker)
    connected.write("orders", after, codec="gzip")
    read = connected.read("orders")
    assert as_seen(read, client, client) == at_the_end(before + after, client, client)
    assert [one.offset for one in read] == list(range(20))
    connected.close()


def test_all_that_was_acknowledged_is_there_after_three_deaths_and_nothing_twice(ottla_broker: BrokerProcess) -> None:
    create(ottla_broker, "orders")
    acknowledged: list[bytes] = []
    numbers = count()
    for _ in range(3):
        wire = Wire("127.0.0.1", ottla_broker.port)
        goal = len(acknowledged) + 200
        killer = threading.Thread(target=ottla_broker.kill)
        with suppress(OSError):
            while True:
                value = b"%d" % next(numbers)
                wire.produce("orders", [Record(0, AN_HOUR_AGO, None, value)])
                acknowledged.append(value)
                if len(acknowledged) == goal:
                    killer.start()
        wire.close()
        killer.join()
        ottla_broker.start()
    values = values_in(ottla_broker, "orders")
    assert len(values) == len(set(values))
    assert set(acknowledged) <= set(values)
    assert len(values) <= len(acknowledged) + 3  # one in flight at each death
    assert values == sorted(values, key=lambda value: int(value or b""))


class Sender(Protocol):
    """An idempotent producer."""

    acknowledged: int

    def send(self, value: bytes) -> None: ...

    def wait(self) -> None: ...

    def finish(self) -> None: ...


class ConfluentSender:
    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 2}
            | {"reconnect.backoff.max.ms": 200, "message.timeout.ms": TIMEOUT * 1000}
        )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        assert error is None, error
        self.acknowledged += 1

    def send(self, value: bytes) -> None:
        self.producer.produce("orders", value, on_delivery=self._delivered)

    def wait(self) -> None:
        self.producer.poll(0.001)

    def finish(self) -> None:
        assert self.producer.flush(TIMEOUT) == 0


class KafkaPythonSender:
    def __init__(self, bootstrap: str) -> None:
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=1, reconnect_backoff_max_ms=200)
        self.sent: list = []
        self.acknowledged = 0

    def send(self, value: bytes) -> None:
        self.sent.append(self.producer.send("orders", value))

    def wait(self) -> None:
        if self.acknowledged < len(self.sent):
            with suppress(KafkaTimeoutError):
                self.sent[self.acknowledged].get(0.01)
                self.acknowledged += 1

    def finish(self) -> None:
        for one in self.sent:
            one.get(TIMEOUT)
        self.producer.close()


@ENDS
@pytest.mark.parametrize("kind", [ConfluentSender, KafkaPythonSender])
def test_an_idempotent_producer_writes_each_record_once_over_a_restart(
    kind: Callable[[str], Sender], end: Callable[[BrokerProcess], None], ottla_broker: BrokerProcess
) -> None:
    create(ottla_broker, "orders")
    sender = kind(ottla_broker.bootstrap)
    ending = threading.Thread(target=end, args=(ottla_broker,))
    sent = []
    deadline = monotonic() + 2 * TIMEOUT
    while not (ending.ident and not ending.is_alive()) or sender.acknowledged < 50:  # until it is back
        assert monotonic() < deadline
        if len(sent) - sender.acknowledged < 500:
            sent.append(b"%d" % len(sent))
            sender.send(sent[-1])
        sender.wait()
        if sender.acknowledged >= 50 and not ending.ident:
            ending.start()
    sender.finish()
    ending.join()
    assert values_in(ottla_broker, "orders") == sent


class ConfluentReceiver:
    def __init__(self, bootstrap: str) -> None:
        self.consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 2}
            | {"reconnect.backoff.max.ms": 200}
        )
        self.consumer.assign([TopicPartition("orders", 0, 0)])

    def __iter__(self) -> Iterator[bytes]:
        while (message := self.consumer.poll(TIMEOUT)) is not None:
            if message.error() is None:
                yield message.value()

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonReceiver:
    def __init__(self, bootstrap: str) -> None:
        self.consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, reconnect_backoff_max_ms=200)
        self.consumer.assign([PythonPartition("orders", 0)])
        self.consumer.seek(PythonPartition("orders", 0), 0)

    def __iter__(self) -> Iterator[bytes]:
        deadline = monotonic() + TIMEOUT
        while monotonic() < deadline:
            for batch in self.consumer.poll(1000).values():
                yield from [one.value for one in batch]

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class AioKafkaReceiver:
    def __init__(self, bootstrap: str) -> None:
        self.runner = asyncio.Runner()
        self.runner.run(self._start(bootstrap))

    async def _start(self, bootstrap: str) -> None:
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest", retry_backoff_ms=50
        )
        await self.consumer.start()
        self.consumer.assign([AioPartition("orders", 0)])

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self.runner.run(asyncio.wait_for(self.consumer.getone(), TIMEOUT)).value

    def close(self) -> None:
        self.runner.run(self.consumer.stop())
        self.runner.close()


@ENDS
@pytest.mark.parametrize("kind", [ConfluentReceiver, KafkaPythonReceiver, AioKafkaReceiver])
def test_a_consumer_goes_on_over_a_restart(
    kind: Callable, end: Callable[[BrokerProcess], None], ottla_broker: BrokerProcess
) -> None:
    create(ottla_broker, "orders")
    receiver = kind(ottla_broker.bootstrap)
    got = []
    for value in (b"one", b"two", b"three"):
        if got:
            end(ottla_broker)
        wire = Wire("127.0.0.1", ottla_broker.port)
        wire.produce("orders", [Record(0, AN_HOUR_AGO, None, value)])
        wire.close()
        got.append(next(iter(receiver)))
    receiver.close()
    assert got == [b"one", b"two", b"three"]
