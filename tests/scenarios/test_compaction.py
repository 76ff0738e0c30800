"""Compacted topics as their users see them (B LOG-10 to LOG-15): employees' salaries, a crash under load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, sleep, time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import BrokerProcess

QUICK = {"log.cleaner.backoff.ms": "100"}
Pair = tuple[str, str | None]


def create(broker: BrokerProcess, topic: str, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(20)


def send(broker: BrokerProcess, topic: str, *pairs: Pair) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for key, value in pairs:
        producer.produce(topic, value, key)
    assert producer.flush(20) == 0


class Reader:
    """A console consumer `--from-beginning`."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.partition.eof": True}
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def to_the_end(self) -> list[Pair]:
        found: list[Pair] = []
        deadline = monotonic() + 20
        while monotonic() < deadline:
            message = self._consumer.poll(1)
            if message is None:
                continue
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                return found
            value = message.value()
            found.append((message.key().decode(), None if value is None else value.decode()))
        raise AssertionError(f"no end of the partition after {len(found)} records")

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def reader() -> Iterator[Callable[[BrokerProcess, str], Reader]]:
    made: list[Reader] = []

    def make(broker: BrokerProcess, topic: str) -> Reader:
        made.append(Reader(broker, topic))
        return made[-1]

    yield make
    for one in made:
        one.close()


def until_read(broker: BrokerProcess, topic: str, expected: list[Pair], reader: Callable[..., Reader]) -> None:
    deadline = monotonic() + 30
    while (found := reader(broker, topic).to_the_end()) != expected:
        assert monotonic() < deadline, found


def test_the_salaries_of_employees(
    ottla_broker_factory: Callable[..., BrokerProcess], reader: Callable[..., Reader]
) -> None:
    """LOG-14, LOG-15, with a segment.ms of half a second where the text has five."""
    broker = ottla_broker_factory(overrides=QUICK)
    create(broker, "employee-salary", cleanup_policy="compact", min_cleanable_dirty_ratio="0.001", segment_ms="500")
    first = [("A", "1000"), ("B", "1000"), ("C", "1000")]
    second = [("A", "2000"), ("B", "2000"), ("b", "3000")]
    send(broker, "employee-salary", *first)
    live = reader(broker, "employee-salary")
    assert live.to_the_end() == first
    send(broker, "employee-salary", *second)
    assert live.to_the_end() == second
    compacted = [("C", "1000"), *second]
    until_read(broker, "employee-salary", compacted, reader)
    broker.restart()
    assert reader(broker, "employee-salary").to_the_end() == compacted


def test_a_deleted_key_is_seen_for_a_while_and_then_gone(
    ottla_broker_factory: Callable[..., BrokerProcess], reader: Callable[..., Reader]
) -> None:
    broker = ottla_broker_factory(overrides=QUICK)
    create(
        broker,
        "t",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_ms="100",
        delete_retention_ms="1500",
    )
    send(broker, "t", ("a", "1"), ("b", "1"))
    send(broker, "t", ("a", None))
    until_read(broker, "t", [("b", "1"), ("a", None)], reader)
    deadline = monotonic() + 30
    number = 0
    while ("a", None) in reader(broker, "t").to_the_end():
        assert monotonic() < deadline
        number += 1
        send(broker, "t", ("c", str(number)))  # a log is compacted again when there is something new
    assert reader(broker, "t").to_the_end()[0] == ("b", "1")


def test_compact_and_delete_together(
    ottla_broker_factory: Callable[..., BrokerProcess], reader: Callable[..., Reader]
) -> None:
    broker = ottla_broker_factory(
        overrides={**QUICK, "log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "0"}
    )
    create(
        broker,
        "t",
        cleanup_policy="compact,delete",
        min_cleanable_dirty_ratio="0.001",
        segment_bytes="100",
        retention_ms="3600000",
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", "1", "old", timestamp=int(time() * 1000) - 2 * 3_600_000)
    assert producer.flush(20) == 0
    until_read(broker, "t", [], reader)
    send(broker, "t", ("a", "1"))
    send(broker, "t", ("a", "2"))
    send(broker, "t", ("b", "1"))
    until_read(broker, "t", [("a", "2"), ("b", "1")], reader)


def test_kills_under_load_lose_no_newest_value(
    ottla_broker_factory: Callable[..., BrokerProcess], reader: Callable[..., Reader]
) -> None:
    broker = ottla_broker_factory(overrides={**QUICK, "log.cleaner.backoff.ms": "20", "log.cleaner.threads": "2"})
    create(
        broker,
        "t",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_bytes="20000",
        index_interval_bytes="500",
        file_delete_delay_ms="0",
    )
    expected: dict[str, str] = {}
    number = 0

    def note(error: object, message: Message) -> None:
        assert error is None
        expected[message.key().decode()] = message.value().decode()

    for jobs in range(4):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "batch.num.messages": 20})
        before, deadline = broker.stderr.count("compacted offsets"), monotonic() + 30
        while broker.stderr.count("compacted offsets") <= before + jobs:
            assert monotonic() < deadline
            for _ in range(200):
                number += 1
                producer.produce("t", str(number).rjust(50), str(number * 7919 % 500), on_delivery=note)
            assert producer.flush(20) == 0
            sleep(0.02)  # leaves the cleaner some of the processor
        broker.kill()
        broker.start()
        assert dict(reader(broker, "t").to_the_end()) == expected
    assert "offline" not in broker.stderr
