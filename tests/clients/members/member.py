"""One member of a group, with a Python client: says on stdout what it owns and reads, and commits what it has read.

    member.py CLIENT BOOTSTRAP GROUP TOPIC    (tests/support/clients/members.py has the lines that it writes)

It leaves the group when it is told to end (SIGTERM).
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

SESSION_MS, HEARTBEAT_MS = 3000, 300
PATIENT_MS = 3000  # kafka-python 3.0 forgets a rebalance that ends just when its poll gives up, so it should not


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def shown(partitions: Any) -> list[int]:
    return sorted(one.partition for one in partitions)


class Ending:
    def __init__(self) -> None:
        self.wanted = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        self.wanted = True


def confluent(bootstrap: str, group: str, topic: str, **settings: Any) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
            **settings,
        }
    )
    _confluent(consumer, topic)


def _confluent(consumer: Any, topic: str) -> None:
    from confluent_kafka import KafkaException

    ending, owned = Ending(), []
    consumer.subscribe([topic])
    while not ending.wanted:
        message = consumer.poll(0.05)
        if (owns := shown(consumer.assignment())) != owned:
            owned = owns
            say(owns=owned)
        if message is None or message.error():
            continue
        say(read=[message.partition(), message.offset(), message.value().decode()])
        try:
            consumer.commit(message, asynchronous=False)
        except KafkaException as error:
            say(refused=error.args[0].name())
    consumer.close()


def consumer(bootstrap: str, group: str, topic: str, **settings: Any) -> None:
    """In the protocol of KIP-848, where the broker says how often to report."""
    from confluent_kafka import Consumer

    common = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer", "log_level": 2}
    ways = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10}
    _confluent(Consumer({**common, **ways, "reconnect.backoff.max.ms": 500, **settings}), topic)


def static_consumer(bootstrap: str, group: str, topic: str) -> None:
    consumer(bootstrap, group, topic, **{"group.instance.id": "the-only-one"})


def pattern(bootstrap: str, group: str, topic: str) -> None:
    """Reads all topics whose names begin so."""
    consumer(bootstrap, group, f"^{topic}.*")


def cooperative(bootstrap: str, group: str, topic: str) -> None:
    confluent(bootstrap, group, topic, **{"partition.assignment.strategy": "cooperative-sticky"})


def static(bootstrap: str, group: str, topic: str) -> None:
    confluent(bootstrap, group, topic, **{"group.instance.id": "the-only-one"})


def kafka_python(bootstrap: str, group: str, topic: str, **settings: Any) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            say(owns=[])

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(owns=shown(assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=10,
        reconnect_backoff_max_ms=500,
        **settings,
    )
    ending = Ending()
    consumer.subscribe([topic], listener=Listener())
    while not ending.wanted:
        try:
            batches = consumer.poll(timeout_ms=PATIENT_MS)
        except KafkaError:  # it may not bear that the broker is gone for a moment
            continue
        for message in (one for batch in batches.values() for one in batch):
            say(read=[message.partition, message.offset, message.value.decode()])
        if batches:
            try:
                consumer.commit()
            except KafkaError as error:
                say(refused=type(error).__name__)
    consumer.close()


def legacy(bootstrap: str, group: str, topic: str) -> None:
    kafka_python(bootstrap, group, topic, api_version=(0, 9))


def aiokafka(bootstrap: str, group: str, topic: str) -> None:
    asyncio.run(_aiokafka(bootstrap, group, topic))


async def _aiokafka(bootstrap: str, group: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=10,
    )
    ending, owned = Ending(), []
    await consumer.start()
    while not ending.wanted:
        batches = await consumer.getmany(timeout_ms=50)
        if (owns := shown(consumer.assignment())) != owned:
            owned = owns
            say(owns=owned)
        for message in (one for batch in batches.values() for one in batch):
            say(read=[message.partition, message.offset, message.value.decode()])
        if batches:
            try:
                await consumer.commit()
            except KafkaError as error:
                say(refused=type(error).__name__)
    await consumer.stop()


if __name__ == "__main__":
    KINDS = (confluent, consumer, static_consumer, pattern, cooperative, static, kafka_python, legacy, aiokafka)
    {kind.__name__: kind for kind in KINDS}[sys.argv[1]](*sys.argv[2:])
