"""Transactional producers of many clients, under one face, so that the same story runs with each of them.

`begin`, `send`, `positions` (offsets of a group), `commit`, `abort`: as all of them have it. A producer is ready when
it is made, and has fenced those before it. `version` says which version of transactions the client speaks (KIP-890).
"""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaProducer
from kafka.consumer.group import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPartition

from support.clients.client import ClientError
from support.clients.driven import KafkaJsClient
from support.clients.every import CLIENTS

PATIENCE = 30.0


class Mover(Protocol):
    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, value: str) -> None: ...
    def positions(self, group: str, topic: str, partition: int, offset: int) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class ConfluentMover:
    name, version = "confluent-kafka", 1

    def __init__(self, bootstrap: str, id: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": id, "log_level": 0})
        self._producer.init_transactions(PATIENCE)

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.produce(topic, value, partition=partition)
        self._producer.flush(PATIENCE)

    def positions(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        place = ConfluentPartition(topic, partition, offset)
        metadata = consumer.consumer_group_metadata()
        self._do(lambda: self._producer.send_offsets_to_transaction([place], metadata, PATIENCE))
        consumer.close()

    def commit(self) -> None:
        self._do(lambda: self._producer.commit_transaction(PATIENCE))

    def abort(self) -> None:
        self._do(lambda: self._producer.abort_transaction(PATIENCE))

    def _do(self, act: Any) -> None:
        try:
            act()
        except KafkaException as failure:
            raise ClientError(failure.args[0].str(), failure.args[0].code()) from failure

    def close(self) -> None:
        pass


class KafkaPythonMover:
    name, version = "kafka-python", 1

    def __init__(self, bootstrap: str, id: str) -> None:
        self._bootstrap = bootstrap
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=id)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._do(lambda: self._producer.send(topic, value.encode(), partition=partition).get(PATIENCE))

    def positions(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=group)
        place = {KafkaPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        metadata = consumer.group_metadata()
        self._do(lambda: self._producer.send_offsets_to_transaction(place, metadata))
        consumer.close()

    def commit(self) -> None:
        self._do(self._producer.commit_transaction)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction)

    def _do(self, act: Any) -> None:
        try:
            act()
        except KafkaError as failure:
            raise ClientError(repr(failure), getattr(failure, "errno", None)) from failure

    def close(self) -> None:
        self._producer.close(timeout=5)


class AioKafkaMover:
    name, version = "aiokafka", 1

    def __init__(self, bootstrap: str, id: str) -> None:
        self._runner = asyncio.Runner()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=id)
            await producer.start()
            return producer

        self._producer = self._runner.run(start())

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._do(lambda: self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def positions(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._do(lambda: self._producer.send_offsets_to_transaction({AioPartition(topic, partition): offset}, group))

    def commit(self) -> None:
        self._do(self._producer.commit_transaction)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction)

    def _do(self, act: Any) -> None:
        async def in_time() -> None:
            async with asyncio.timeout(PATIENCE):
                await act()

        try:
            self._runner.run(in_time())
        except AioError as failure:
            raise ClientError(repr(failure), getattr(failure, "errno", None)) from failure

    def close(self) -> None:
        self._runner.run(self._producer.stop())
        self._runner.close()


class KafkaJsMover:
    name, version = "kafkajs", 1

    def __init__(self, bootstrap: str, id: str) -> None:
        self._id = id
        (client,) = (one for one in CLIENTS if isinstance(one, KafkaJsClient))
        self._connected = client.connect(bootstrap)

    def begin(self) -> None:
        self._tell("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        self._tell("send", topic=topic, partition=partition, value=value)

    def positions(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._tell("positions", group=group, topic=topic, partition=partition, offset=offset)

    def commit(self) -> None:
        self._tell("commit")

    def abort(self) -> None:
        self._tell("abort")

    def _tell(self, step: str, **what: Any) -> None:
        self._connected.ask("transact", id=self._id, step=step, **what)

    def close(self) -> None:
        self._connected.close()


class JavaMover:
    """Kafka's own producer: tests/apache_kafka/java/Mover.java, told one step in each line."""

    name, version = "java", 2

    def __init__(self, bootstrap: str, id: str) -> None:
        from bench.kafka import Kafka
        from support.apache_kafka import QUICK_JVM, ROOT

        program = ROOT / "tests" / "apache_kafka" / "java" / "Mover.java"
        options = (*QUICK_JVM, "-Dlog4j2.level=OFF")
        self._process = subprocess.Popen(
            Kafka(ROOT).java(str(program), bootstrap, id, options=options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._heard()

    def begin(self) -> None:
        self._tell("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        self._tell("send", topic, partition, value)

    def positions(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._tell("positions", group, topic, partition, offset)

    def commit(self) -> None:
        self._tell("commit")

    def abort(self) -> None:
        self._tell("abort")

    def _tell(self, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        self._heard()

    def _heard(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != "ok":
            raise ClientError(line or f"ended with {self._process.wait()}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


MOVERS = [ConfluentMover, KafkaPythonMover, AioKafkaMover, KafkaJsMover, JavaMover]
