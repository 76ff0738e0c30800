"""The thread that keeps a store's file up to date with its topic.

An ordinary consumer of all partitions, without a group, reads committed records from the offsets that the file has,
else from the beginning. What it cannot go on from is built again from the beginning: a topic with another id,
offsets that the topic has no more (retention, truncation: which keys went with them nobody can tell), a damaged file.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from time import monotonic
from typing import Any, Literal

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ottla.pipelines.errors import PipelineError
from ottla.streams.store_file import Damaged, Place, StoreFile

Locate = Callable[[bytes | None, bytes | None], Place | None]

RECORDS_AT_ONCE = 10_000
POLL = 0.05  # seconds: how soon a stop is noticed
REFRESH = 5.0  # seconds: how soon new partitions, and a new topic of the same name, are noticed
RETRY = 0.5  # seconds between attempts to reach the broker or to find the topic
GONE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
AWAY = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
CONSUMER = {
    "group.id": "ottla-store",  # the client wants one; it is never joined, and nothing is committed
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,  # tells also of offsets that have no records: the ends of transactions
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 100,  # so soon an end is told
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 20,
}

LOG = logging.getLogger(__name__)


class StoreError(PipelineError):
    pass


class _LookAgain(Exception):
    """The topic is not (only) what is followed."""


class Follower:
    """`locate` says which row a record's key and value are for, None: for none. `retention_ms`: of windows."""

    def __init__(
        self,
        name: str,
        topic: str,
        file: StoreFile,
        client: Mapping[str, Any],
        locate: Locate,
        retention_ms: int | None,
    ) -> None:
        self.name, self.topic = name, topic
        self.rejected = 0  # records that belong to no row, since the start
        self.trouble: str | None = None  # why the topic cannot be followed at the moment
        self._file, self._locate, self._retention_ms = file, locate, retention_ms
        self._client = {**client, "log_level": 2}  # what goes wrong is told here, in words and once
        self._admin = AdminClient(dict(self._client))
        self._changed = threading.Condition()  # of the next two
        self._topic_id: str | None = None  # of the topic that is followed
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._last_end = 0  # of the newest window
        self._doubt, self._damaged, self._closing = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"store {name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def rebuild(self) -> None:
        """A reader has found the file damaged."""
        self._damaged.set()

    @property
    def lag(self) -> int:
        """How many offsets are not in the file yet, as far as the consumer has heard."""
        return sum(max(0, end - self._positions.get(partition, 0)) for partition, end in self._ends.items())

    def wait_until_current(self, timeout: float) -> None:
        """Wait until all that was committed to the topic before this call is in the file."""
        deadline = monotonic() + timeout
        try:
            topic_id, partitions = self._describe(timeout)
            ends = self._offsets(partitions, "latest", timeout)
        except (KafkaException, TimeoutError) as error:
            raise StoreError(f"store {self.name} cannot tell how far it is behind: {self._why(error)}") from None
        with self._changed:
            while not self._has(topic_id, ends):
                if topic_id != self._topic_id or not ends.keys() <= self._positions.keys():
                    self._doubt.set()
                if self._closing.is_set():
                    raise StoreError(f"store {self.name} is closed")
                if monotonic() >= deadline:
                    why = f": {self.trouble}" if self.trouble else ""
                    raise StoreError(f"store {self.name} is not current with {self.topic} after {timeout:g} s{why}")
                self._changed.wait(max(0.0, min(POLL, deadline - monotonic())))

    def _has(self, topic_id: str, ends: Mapping[int, int]) -> bool:
        if topic_id != self._topic_id or self._damaged.is_set():
            return False
        return all(self._positions.get(partition, 0) >= end for partition, end in ends.items())

    def _offsets(self, partitions: list[int], which: Literal["earliest", "latest"], timeout: float) -> dict[int, int]:
        wanted = {TopicPartition(self.topic, each): getattr(OffsetSpec, which)() for each in partitions}
        isolation = IsolationLevel.READ_COMMITTED
        found = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=timeout)
        return {where.partition: self._answer(asked, timeout).offset for where, asked in found.items()}

    def _describe(self, timeout: float) -> tuple[str, list[int]]:
        asked = self._admin.describe_topics(TopicCollection([self.topic]), request_timeout=timeout)
        found = self._answer(asked[self.topic], timeout)
        return str(found.topic_id), [each.id for each in found.partitions]

    def _answer(self, asked: Future[Any], timeout: float) -> Any:
        deadline = monotonic() + timeout
        while not wait([asked], POLL).done:
            if self._closing.is_set():
                raise StoreError(f"store {self.name} is closed")
            if monotonic() >= deadline:
                raise TimeoutError
        return asked.result()

    def _why(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"no broker answers at {self._client['bootstrap.servers']}"
        cause = error.args[0] if isinstance(error, KafkaException) and error.args else None
        if not isinstance(cause, KafkaError):
            return str(error) or type(error).__name__
        if cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return f"topic {self.topic} does not exist"
        if cause.code() in AWAY:
            return f"no broker answers at {self._client['bootstrap.servers']}"
        return cause.str()

    # the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._follow()
            except (_LookAgain, StoreError):
                continue
            except Damaged as damage:
                LOG.warning("store %s is damaged (%s) and is built again from %s", self.name, damage, self.topic)
                self._damaged.set()  # until the new file is there
                self._file.remake()
                self._damaged.clear()
                continue
            except (KafkaException, TimeoutError) as error:
                self._has_trouble(self._why(error))
            except Exception as error:  # a full disk, perhaps: look-ups go on, and so do we when we can
                LOG.exception("store %s", self.name)
                self._has_trouble(f"{type(error).__name__}: {error}")
            self._closing.wait(RETRY)

    def _has_trouble(self, why: str) -> None:
        if why != self.trouble:
            LOG.warning("store %s cannot follow %s: %s", self.name, self.topic, why)
        self.trouble = why

    def _follow(self) -> None:
        """Follow the topic until there is a reason to look at it again."""
        self._doubt.clear()
        topic_id, partitions = self._describe(10)
        offsets = self._file.begin(topic_id)
        self._last_end = self._file.last_end() or 0
        with self._changed:
            self._topic_id, self._positions = topic_id, dict(offsets)
            self._changed.notify_all()
        starts = self._offsets([each for each in partitions if each not in offsets], "earliest", 10) | offsets
        assigned = [TopicPartition(self.topic, each, starts[each]) for each in partitions]
        consumer = Consumer({**CONSUMER, **self._client, "error_cb": self._told})
        try:
            consumer.assign(assigned)
            looked = monotonic()
            while not self._closing.is_set():
                message = consumer.poll(POLL)
                if message is not None:
                    self._take([message, *consumer.consume(RECORDS_AT_ONCE, 0)])
                if self._damaged.is_set():
                    raise Damaged("found by a look-up")
                if self._doubt.is_set() or monotonic() - looked > REFRESH:
                    self._doubt.clear()
                    if self._describe(10) != (topic_id, partitions):
                        raise _LookAgain
                    looked = monotonic()
                self._hear_ends(consumer, assigned)
        finally:
            consumer.close()

    def _told(self, error: KafkaError) -> None:
        self._has_trouble(self._why(KafkaException(error)))

    def _hear_ends(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        heard = {each.partition: consumer.get_watermark_offsets(each, cached=True) for each in assigned}
        self._ends = {partition: known[1] for partition, known in heard.items() if known and known[1] >= 0}

    def _take(self, messages: list[Message]) -> None:
        """Put records into the file, in one transaction with the offsets behind them."""
        rows: dict[Place, tuple[bytes | None, int]] = {}
        offsets: dict[int, int] = {}
        for message in messages:
            error = message.error()
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            if error is None:
                offsets[partition] = offset + 1
                key, value = message.key(), message.value()
                place = self._locate(key, value)
                if place is None:
                    self.rejected += 1
                else:
                    rows[place] = value, message.timestamp()[1]
                    if place.end > self._last_end:
                        self._last_end = place.end
            elif error.code() == KafkaError._PARTITION_EOF:
                offsets[partition] = offset
            elif error.code() in GONE:
                LOG.warning("store %s is built again: its place in %s is gone", self.name, self.topic)
                self._file.empty()
                raise _LookAgain
            else:
                raise KafkaException(error)
        expired = None if self._retention_ms is None else self._last_end - self._retention_ms
        self._file.apply(rows, offsets, expired)
        self.trouble = None
        with self._changed:
            self._positions.update(offsets)
            self._changed.notify_all()
