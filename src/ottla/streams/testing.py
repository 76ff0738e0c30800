"""Tests of applications: records with timestamps in, results and stores out.

    def test_words_are_counted(streams):
        driver = streams(app)
        driver.send("wordcount-input", value="one two two", timestamp=1000)
        assert driver.read("wordcount-output") == [("one", "1"), ("two", "2")]
        assert driver.store("CountStore").get("two") == 2

The application runs as it is, on a real broker and in a real Spark session; both are shared by all cases of a run, so
that a case takes well under a second. A driver owns the topics of its application: it makes those that are missing,
and deletes all of them at the end.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ottla.pipelines import session as sessions
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.poison import DeadLetters
from ottla.pipelines.serdes import Serde
from ottla.streams import internal_topics
from ottla.streams import topology as T
from ottla.streams.running import Running
from ottla.streams.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams.app import App

TIMEOUT = 60.0
FOR_EVER = {"retention.ms": "-1"}  # records of a test may be of any age
# a client that connects when it must waits 50 ms before it does; what it logs goes on after the broker's end
CLIENT = {"enable.sparse.connections": "false", "log_level": "2"}
# to look for a first offset, and to be told of the end, takes the client half a second each if it is left to itself
READER: dict[str, Any] = {
    "group.id": "ottla-streams-test",  # never joined
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 5,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}


class Record(NamedTuple):
    """A record of an output; equal to (key, value) where only those are compared."""

    key: Any
    value: Any
    timestamp: int
    headers: dict[str, bytes | None]
    partition: int
    offset: int


def session() -> SparkSession:
    """The Spark session that all cases of a run share."""
    extra = {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.pollingDelay": "1"}
    return sessions.session(sessions.Settings(master="local[2]", name="tests", quick=True, extra=extra))


class Driver:
    def __init__(
        self,
        app: App,
        bootstrap: str,
        spark: SparkSession | None = None,
        *,
        partitions: int = 1,
        extra_topics: Sequence[str] = (),
    ) -> None:
        """`extra_topics`: further ones to make and delete, as those that the application finds by a pattern."""
        self.app = app
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-streams-"))
        self._client = {"bootstrap.servers": bootstrap, **CLIENT}
        self._admin = AdminClient(dict(self._client))
        self.session = spark or session()
        self._producer = Producer({**self._client, "linger.ms": 0})
        self._consumer = Consumer({**self._client, **READER})
        self._read: dict[str, dict[int, int]] = {}
        self._running: Running | None = None
        app.change(bootstrap=bootstrap, state_dir=self._directory, interval_ms=0)
        self._extra = list(extra_topics)
        self._make_topics(partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- in ------------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        timestamp: int | None = None,
        headers: dict[str, bytes] | None = None,
        partition: int | None = None,
    ) -> None:
        """A record to an input, written by the serdes of the source that reads the topic; bytes go as they are."""
        if timestamp is not None and timestamp < 1:
            raise PipelineError(f"the client has no timestamp {timestamp}: give one of 1 ms or more")
        source = self._source(topic)
        more: dict[str, Any] = {} if partition is None else {"partition": partition}
        if timestamp is not None:
            more["timestamp"] = timestamp
        self._producer.produce(
            topic,
            key=key if isinstance(key, bytes) else source.key.dumps(key),
            value=value if isinstance(value, bytes) else source.value.dumps(value),
            headers=list(headers.items()) if headers else None,
            **more,
        )

    def flush(self) -> None:
        """Wait until all that was sent is in its topics."""
        if self._producer.flush(TIMEOUT):
            raise PipelineError("the broker of the test did not take the records that were sent")

    def run(self) -> None:
        """Let the application take in all that was sent, and give out what it makes of it."""
        self.flush()
        self.start().process_all()

    def start(self) -> Running:
        if self._running is None:
            internal_topics.create(self.app.plan(), self._there(), self._client, FOR_EVER)
            self._running = self.app.start(self.session)
        return self._running

    def restart(self) -> None:
        """Stop the application; what comes next starts it again from its checkpoint."""
        self.run()
        self.app.stop()
        self._running = None

    # -- out -----------------------------------------------------------------------------------------------------

    def records(self, topic: str, *, key: Serde | None = None, value: Serde | None = None) -> list[Record]:
        """The records that came to a topic since it was last read, by partition and offset, after a run()."""
        self.run()
        return self._records(topic, key, value)

    def wait_for(self, topic: str, count: int) -> list[tuple[Any, Any]]:
        """Keys and values of the next records of a topic, as soon as there are so many; for real-time mode."""
        found: list[Record] = []
        deadline = time.monotonic() + TIMEOUT
        while len(found) < count:
            if time.monotonic() > deadline:
                raise PipelineError(f"{len(found)} of {count} records came to {topic} within {TIMEOUT:.0f} s: {found}")
            self.start().check()
            found += self._records(topic, None, None)
        return [(record.key, record.value) for record in found]

    def _records(self, topic: str, key: Serde | None, value: Serde | None) -> list[Record]:
        if key is None or value is None:
            of_key, of_value = self._serdes(topic)
            key, value = key or of_key, value or of_value
        found = [
            Record(
                key.loads(message.key()),
                value.loads(message.value()),
                message.timestamp()[1],
                dict(message.headers() or []),
                message.partition(),
                message.offset(),
            )
            for message in self._consume(topic)
        ]
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def read(self, topic: str, *, key: Serde | None = None, value: Serde | None = None) -> list[tuple[Any, Any]]:
        """Keys and values of the records that came to a topic since it was last read, after a run()."""
        return [(record.key, record.value) for record in self.records(topic, key=key, value=value)]

    def store(self, name: str) -> Store:
        """A store of the application, with all that was sent in it."""
        self.run()
        store = self.app.store(name)
        store.wait_until_current(TIMEOUT)
        return store

    def close(self) -> None:
        try:
            self.app.stop()
        finally:
            owned = [n for n in self._there() if n in self._topics() or n.startswith(f"{self.app.id}-")]
            for future in self._admin.delete_topics(owned).values() if owned else ():
                future.result(TIMEOUT)
            self._consumer.close()
            del self._admin, self._producer  # else they look for a broker that is gone until they are collected
            shutil.rmtree(self._directory, ignore_errors=True)

    # -- topics --------------------------------------------------------------------------------------------------

    def _topics(self) -> list[str]:
        nodes = self.app.topology.nodes
        named = [topic for node in nodes if isinstance(node, T.Source) for topic in node.topics]
        named += [node.topic for node in nodes if isinstance(node, T.Global)]
        named += [node.topic for node in nodes if isinstance(node, T.Sink) and isinstance(node.topic, str)]
        named += [node.topic for node in nodes if isinstance(node, T.Through) and node.topic is not None]
        for policy in (self.app.settings.on_error, self.app.settings.on_late):
            if isinstance(policy, DeadLetters):
                named.append(policy.topic)
        return list(dict.fromkeys([*named, *self._extra]))

    def _make_topics(self, partitions: int) -> None:
        there = self._there()
        new = [NewTopic(topic, partitions, config=FOR_EVER) for topic in self._topics() if topic not in there]
        for future in self._admin.create_topics(new).values() if new else ():
            future.result(TIMEOUT)

    def _there(self) -> dict[str, int]:
        """The topics that there are, each with how many partitions it has."""
        found = self._admin.list_topics(timeout=TIMEOUT).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def _source(self, topic: str) -> T.Source | T.Global:
        for node in self.app.topology.nodes:
            if isinstance(node, T.Global) and node.topic == topic:
                return node
            if isinstance(node, T.Source) and node.reads(topic):
                return node
        raise PipelineError(f"the application reads no topic {topic!r}; it reads {', '.join(self._topics())}")

    def _serdes(self, topic: str) -> tuple[Serde, Serde]:
        return self.start().serdes_of_topic(topic)

    def _consume(self, topic: str) -> list[Any]:
        """The records from where it was last read to the end."""
        places = self._read.setdefault(topic, {})
        there = self._consumer.list_topics(topic, TIMEOUT).topics[topic].partitions  # else it looks but once a second
        self._consumer.assign([TopicPartition(topic, number, places.get(number, 0)) for number in there])
        found: list[Any] = []
        ends: dict[int, int] = {}
        while len(ends) < len(there):
            message: Any
            for message in self._consumer.consume(1000, 0.01):
                if (error := message.error()) is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends[message.partition()] = message.offset()
                else:
                    raise KafkaException(error)
        self._consumer.unassign()
        places.update(ends)
        return found
