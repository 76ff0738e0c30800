"""Topics as typed streams, and what becomes of records that do not fit or come too late. Through a real broker."""

from __future__ import annotations

import datetime
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipelines import poison, sink, topics
from ottla.pipelines.explain import explain
from ottla.pipelines.serdes import Json, Long, Serde, Text
from ottla.testing import BrokerProcess

pytestmark = pytest.mark.xdist_group("spark")

QUOTE = Json("symbol string, ask double")
NOON = datetime.datetime.now(datetime.UTC).replace(minute=0, second=0, microsecond=0)  # old records would be retired


class Place:
    """Topics, queries and counts of one test."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, directory: Path) -> None:
        self.spark = spark
        self.bootstrap = broker.bootstrap
        self.directory = directory
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self.producer = Producer({"bootstrap.servers": self.bootstrap})
        self.queries: list[StreamingQuery] = []

    def topic(self, name: str, partitions: int = 1) -> str:
        made = f"{self.name}-{name}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(made, partitions, 1)]).values():
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


@pytest.fixture
def place(spark: SparkSession, ottla_shared_broker: BrokerProcess, tmp_path: Path) -> Iterator[Place]:
    made = Place(spark, ottla_shared_broker, tmp_path)
    yield made
    for query in made.queries:
        query.stop()


RECORDS = [
    (b"k1", b'{"symbol":"A","ask":1.5}'),
    (b"k2", b"{"),
    (b"k3", b'{"symbol":"B","ask":"x"}'),
    (b"\xff", b'{"symbol":"C"}'),
    (b"k5", None),
    (None, b'{"ask":2}'),
]
FINE = [("k1", ("A", 1.5), 0), ("k5", None, 4), (None, (None, 2.0), 5)]


def test_poison_is_left_out_and_counted(place: Place) -> None:
    topic = place.topic("in")
    place.send(topic, *RECORDS)
    frame = place.stream(topic, Text, QUOTE, poisoned=poison.skip, step=place.name)
    query = place.start(frame.select("key", "value", "offset"))
    assert place.rows(query) == FINE
    assert poison.rejected()[place.name] == 3


def test_poison_fails_the_query_in_one_line(place: Place) -> None:
    topic = place.topic("in")
    place.send(topic, *RECORDS)
    query = place.start(place.stream(topic, Text, QUOTE, step="prices").select("value"))
    with pytest.raises(Exception) as error:
        place.rows(query)
    assert str(explain(error.value)) == (
        f"step prices cannot take the record at topic {topic}, partition 0, offset 1: the value is no "
        "json(struct<symbol:string,ask:double>): Unexpected end-of-input: expected close marker for Object at byte 1"
    )


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_poison_goes_to_a_topic_with_where_from_and_why(place: Place, delivery: sink.Delivery) -> None:
    source, output, letters = place.topic("in"), place.topic("out"), place.topic("dead")
    place.send(source, *RECORDS, headers=[("trace", b"7")])
    policy = poison.DeadLetters(letters)
    frame = place.stream(source, Text, QUOTE, headers=True, poisoned=policy, step="prices")
    written = frame.select(
        F.lit(output).alias("topic"), Text.encode(F.col("key")).alias("key"), F.to_json("value").alias("value")
    )
    place.queries.append(
        sink.write(
            written,
            bootstrap=place.bootstrap,
            query=place.name,
            delivery=delivery,
            checkpoint=str(place.directory / "c"),
            trigger=sink.AvailableNow(),
        )
    )
    assert place.queries[0].awaitTermination(60)
    assert [message.key() for message in place.messages(output)] == [b"k1", b"k5", None]
    dead = place.messages(letters)
    assert [(message.key(), message.value()) for message in dead] == [RECORDS[1], RECORDS[2], RECORDS[3]]
    assert dead[1].timestamp() == (TIMESTAMP_CREATE_TIME, int(NOON.timestamp() + 2) * 1000)
    assert {name: value.decode() for name, value in dead[1].headers()} == {
        "trace": "7",
        "ottla.error.reason": 'the value is no json(struct<symbol:string,ask:double>): ask: "x" is no double',
        "ottla.error.exception": "Misfit",
        "ottla.error.step": "prices",
        "ottla.error.topic": source,
        "ottla.error.partition": "0",
        "ottla.error.offset": "2",
        "ottla.error.timestamp": str(int(NOON.timestamp() + 2) * 1000),
    }


def test_a_dead_letter_that_cannot_be_written_fails_the_query(place: Place) -> None:
    topic = place.topic("in")
    place.send(topic, *RECORDS)
    policy = poison.DeadLetters(place.topic("dead"), {"max.request.size": "10"})
    query = place.start(place.stream(topic, Text, QUOTE, poisoned=policy).select("value"))
    with pytest.raises(Exception) as error:
        place.rows(query)
    assert f"a record for topic {policy.topic} is too large" in str(explain(error.value))


def test_values_are_decoded_once_and_unused_columns_are_not_read(place: Place) -> None:
    frame = topics.read_all(place.spark, place.bootstrap, place.topic("in"), Text, QUOTE, poisoned=poison.skip)
    plan = frame.where("value.ask > 1").select("value.symbol")._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("read(") == 1, plan
    assert "timestamp" not in plan.partition("CASE WHEN")[0]


def test_late_rows_are_counted_one_by_one_and_none_is_dropped_unseen(place: Place) -> None:
    topic, letters = place.topic("in"), place.topic("dead")
    frame = place.stream(topic, Text, Long, headers=True)
    marked = frame.withWatermark("timestamp", "5 seconds").withColumn("window", F.window("timestamp", "10 seconds"))
    kept = poison.late(
        marked,
        F.col("window.end"),
        poison.DeadLetters(letters),
        step=place.name,
        bootstrap=place.bootstrap,
        record={"key": Text.encode(F.col("key")), "value": Long.encode(F.col("value"))},
    )
    counted = kept.groupBy("window", "key").agg(F.count("*").alias("n"))
    query = place.start(counted.select("key", F.unix_seconds("window.start") - int(NOON.timestamp()), "n"), "update")

    sent = 0
    for seconds in ([1, 2, 12, 3], [40, 41], [42], [1, 2, 29, 35, 43], [100], [101], [1, 42, 101]):
        place.send(topic, *[(b"k", Long.dumps(number)) for number in range(len(seconds))], seconds=list(seconds))
        sent += len(seconds)
        query.processAllAvailable()
    latest: dict[int, int] = {}
    for _, start, count in place.rows(query):
        latest[start] = count
    late = poison.rejected()[place.name]
    dropped = sum(state.numRowsDroppedByWatermark for p in query.recentProgress for state in p.stateOperators)
    assert dropped == 0
    assert late == len(place.messages(letters))
    assert late + sum(latest.values()) == sent
    assert latest == {0: 3, 10: 1, 30: 1, 40: 4, 100: 3}
    assert late == 5
    headers = dict(place.messages(letters)[0].headers())
    assert headers["ottla.error.exception"] == b"Late"
    ended = f"late: its window ended at {NOON:%F %H}:00:10.000 and the watermark is "
    assert headers["ottla.error.reason"].decode().startswith(ended)


def test_reading_starts_where_it_is_told_to(place: Place) -> None:
    topic = place.topic("in", partitions=2)
    place.send(topic, *[(None, str(number)) for number in range(5)])

    def read(**options: Any) -> list[str]:
        frame = topics.read_all(place.spark, place.bootstrap, [topic], value=Text, timestamp_type=True, **options)
        return [row.value for row in frame.orderBy("offset").collect()]

    assert read() == ["0", "1", "2", "3", "4"]
    assert read(starting={topic: {0: 3}}) == ["3", "4"]
    assert read(starting=NOON + datetime.timedelta(seconds=4)) == ["4"]


def test_a_stream_reads_topics_by_pattern_with_headers(place: Place) -> None:
    place.send(place.topic("a"), (b"1", b"x"), headers=[("h", b"\0"), ("n", None)])
    place.send(place.topic("b"), (b"2", b"y"))
    pattern = re.compile(f"{place.name}-.*")
    frame = topics.read(place.spark, place.bootstrap, pattern, Text, Text, headers=True, max_per_batch=1)
    query = place.start(frame.select("key", "value", "topic", F.to_json("headers")))
    rows = sorted(place.rows(query))
    assert [row[:3] for row in rows] == [("1", "x", f"{place.name}-a"), ("2", "y", f"{place.name}-b")]
    assert [header["key"] for header in json.loads(rows[0][3])] == ["h", "n"]
    assert rows[1][3] is None
