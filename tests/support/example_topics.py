"""Topics for examples that consume, and settings with which their groups act quickly."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.consoles import fresh

ATTENTIVE = ("--property", "heartbeat.interval.ms=200")  # hears of rebalances soon
SHORT_SESSION = (*ATTENTIVE, "--property", "session.timeout.ms=1000")  # is soon given up


class Topic:
    """A topic of one's own, with a group of the same name."""

    def __init__(self, bootstrap: str, partitions: int, name: str = "") -> None:
        self.bootstrap = bootstrap
        self.name = name or fresh("customers")
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(30)

    def send(self, *values: str, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(self.name, value=value, key="customer", partition=partition)
        assert producer.flush(30) == 0

    def committed(self, partition: int = 0) -> int | None:
        """The offset that the group has committed."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name})
        (found,) = consumer.committed([TopicPartition(self.name, partition)], timeout=30)
        consumer.close()
        return found.offset if found.offset >= 0 else None

    def members(self) -> int:
        """How many are in the group."""
        return len(self.admin.describe_consumer_groups([self.name])[self.name].result(30).members)

    @property
    def options(self) -> tuple[str, ...]:
        return ("--bootstrap", self.bootstrap, "--topic", self.name, "--group", self.name)

    def values(self, isolation: str = "read_committed") -> list[str]:
        """All that lies in partition 0."""
        return values(self.bootstrap, self.name, isolation)


def values(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[str]:
    """All that lies in partition 0 of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "values",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return found
        found.append(message.value().decode())
