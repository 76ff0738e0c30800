"""Topics, queries and counts of one test with Spark and a broker."""

from __future__ import annotations

import datetime
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipelines import topics
from ottla.pipelines.serdes import Serde
from ottla.testing import BrokerProcess

NOON = datetime.datetime.now(datetime.UTC).replace(minute=0, second=0, microsecond=0)  # old records would be retired


class Place:
    """Its topics have its name before theirs; its queries keep their checkpoints in its directory."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, directory: Path) -> None:
        self.spark = spark
        self.bootstrap = broker.bootstrap
        self.directory = directory
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self.producer = Producer({"bootstrap.servers": self.bootstrap})
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.queries: list[StreamingQuery] = []

    def topic(self, name: str, partitions: int = 1) -> str:
        made = f"{self.name}-{name}"
        for future in self.admin.create_topics([NewTopic(made, partitions, 1)]).values():
            future.result()
        return made

    def send(
        self, topic: str, *records: tuple[Any, Any], headers: Any = None, seconds: list[int] | None = None
    ) -> None:
        for place, (key, value) in enumerate(records):
            at = NOON + datetime.timedelta(seconds=seconds[place] if seconds else place)
            moment = int(at.timestamp() * 1000)
            self.producer.produce(topic, value, key, partition=0, headers=headers, timestamp=moment)
        assert self.producer.flush(10) == 0

    def messages(self, topic: str) -> list[Any]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append(message)
        consumer.close()
        return found

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()
        while topic in self.admin.list_topics(timeout=10).topics:
            pass

    def delete_records(self, topic: str, before: int) -> None:
        place = TopicPartition(topic, 0, before)
        self.admin.delete_records([place])[place].result()

    def stream(self, topic: str, key: Serde, value: Serde, **options: Any) -> DataFrame:
        return topics.read(self.spark, self.bootstrap, topic, key, value, **options)

    def start(self, frame: DataFrame, mode: str = "append") -> StreamingQuery:
        name = f"{self.name}_{len(self.queries)}"
        writer = frame.writeStream.format("memory").queryName(name).outputMode(mode)
        self.queries.append(writer.option("checkpointLocation", str(self.directory / name)).start())
        return self.queries[-1]

    def rows(self, query: StreamingQuery) -> list[tuple[Any, ...]]:
        query.processAllAvailable()
        return [tuple(row) for row in self.spark.table(str(query.name)).collect()]
