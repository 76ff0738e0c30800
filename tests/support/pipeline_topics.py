"""The topics around a pipeline: made, filled, and read to their end as a reader with read_committed sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.consoles import fresh
from support.group_wire import fetch
from support.wire import Wire

PATIENCE = 60


class Seen(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]


class Topics:
    """Those of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def make(self, name: str = "topic", partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A topic whose name begins so, and is nobody else's."""
        name = fresh(name)
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        self.admin.create_topics([topic])[name].result(PATIENCE)
        return name

    def fill(self, topic: str, values: Iterable[str], *, partition: int = -1) -> None:
        """Records whose key is their value; they are there when it returns."""
        for value in values:
            self._producer.produce(topic, key=value, value=value, partition=partition)
            self._producer.poll(0)
        assert self._producer.flush(PATIENCE) == 0

    def markers(self, query: str) -> dict[int, tuple[int, str]]:
        """What the tasks of a query have committed: offset and metadata.

        (confluent_kafka reads metadata to the next zero byte, which is not theirs.)
        """
        host, _, port = self.bootstrap.rpartition(":")
        with closing(Wire(host, int(port))) as wire:
            told = fetch(wire, f"{query}-exactly-once")
        return {partition: (offset, metadata) for _, partition, offset, _, metadata, _ in told}

    def read(self, topic: str) -> list[Seen]:
        """All that is committed; with a transaction open it ends before it."""
        told = self.admin.list_topics(topic, PATIENCE).topics[topic]
        settings = {"bootstrap.servers": self.bootstrap, "group.id": fresh("reader"), "enable.partition.eof": True}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
        seen: list[Seen] = []
        try:
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in told.partitions])
            left = set(told.partitions)
            while left:
                for message in consumer.consume(10_000, 0.1):
                    error = message.error()
                    if error is None:
                        headers = list(message.headers() or [])
                        stamp = message.timestamp()[1]
                        seen.append(Seen(message.partition(), message.key(), message.value(), stamp, headers))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()
        return seen

    def values(self, topic: str) -> list[str]:
        """The values that are committed, sorted."""
        return sorted((seen.value or b"").decode() for seen in self.read(topic))
