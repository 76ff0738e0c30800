"""The thread that keeps a store's file up to date with its topic.

An ordinary consumer of all partitions, without a group, reads committed records from the offsets that the file has,
else from the beginning. What it cannot go on from is built again from the beginning: a topic with another id,
offsets that the topic has no more (retention, truncation: which keys went with them nobody can tell), a damaged file.
While it builds again for one of the last two reasons, half of the rows would be a wrong answer: `rebuilding` is set.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla.pipelines.cluster import Cluster, NoAnswer, Partition, said
from ottla.pipelines.errors import PipelineError
from ottla.streams.store_file import Damaged, Place, StoreFile

Locate = Callable[[bytes | None, bytes | None], Place | None]

RECORDS_AT_ONCE = 10_000
POLL = 0.05  # seconds: how soon a stop is noticed
REFRESH = 5.0  # seconds: how soon new partitions, and a new topic of the same name, are noticed
RETRY = 0.5  # seconds between attempts to reach the broker or to find the topic
GONE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
PATIENCE = 10.0  # seconds for an answer
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
        self.rebuilding = False
        self._changed = threading.Condition()  # of that and of the next three
        self._topic_id: str | None = None  # of the topic that is followed
        self._positions: dict[int, int] = {}
        self._rebuilt: dict[int, int] = {}  # the positions at which it is rebuilt
        self._ends: dict[int, int] = {}
        self._last_end = 0  # of the newest window
        self._doubt, self._damaged, self._closing = threading.Event(), threading.Event(), threading.Event()
        self._cluster = Cluster(self._client, self._closing)
        self._thread = threading.Thread(target=self._run, name=f"store {name}", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Begin to stop, which takes a moment; close() waits for it."""
        self._closing.set()

    def close(self) -> None:
        self.leave()
        self._thread.join()

    def rebuild(self) -> None:
        """A reader has found the file damaged."""
        with self._changed:
            self.rebuilding = True
            self._damaged.set()

    def wait_until_rebuilt(self, timeout: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: not self.rebuilding or self._closing.is_set(), timeout):
                why = f": {self.trouble}" if self.trouble else ""
                raise StoreError(f"store {self.name} is being built again from {self.topic}{why}")

    @property
    def lag(self) -> int:
        """How many offsets are not in the file yet, as far as the consumer has heard."""
        return sum(max(0, end - self._positions.get(partition, 0)) for partition, end in self._ends.items())

    def wait_until_current(self, timeout: float) -> None:
        """Wait until all that was committed to the topic before this call is in the file."""
        deadline = monotonic() + timeout
        try:
            topic_id, partitions = self._cluster.topic(self.topic, timeout)
            ends = self._offsets(partitions, "latest", timeout)
        except NoAnswer as error:
            raise StoreError(f"store {self.name} cannot tell how far it is behind: {error}") from None
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
        return self._is_at(ends)

    def _is_at(self, ends: Mapping[int, int]) -> bool:
        return all(self._positions.get(partition, 0) >= end for partition, end in ends.items())

    def _offsets(self, partitions: list[int], which: Literal["earliest", "latest"], timeout: float) -> dict[int, int]:
        wanted = [Partition(self.topic, each) for each in partitions]
        found = self._cluster.offsets(wanted, which, timeout, committed=True)
        return {each.partition: offset for each, offset in found.items()}

    # the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._follow()
            except _LookAgain:
                continue
            except Damaged as damage:
                LOG.warning("store %s is damaged (%s) and is built again from %s", self.name, damage, self.topic)
                self.rebuild()
                continue
            except NoAnswer as error:
                self._has_trouble(str(error))
            except KafkaException as error:
                self._told(error.args[0])
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
        if self._damaged.is_set():
            self._file.remake()
            self._damaged.clear()  # only now: what readers have found meanwhile was the old file
        topic_id, partitions = self._cluster.topic(self.topic, PATIENCE)
        self.trouble = None
        offsets = self._file.begin(topic_id)
        self._last_end = self._file.last_end() or 0
        rebuilt = self._offsets(partitions, "latest", PATIENCE) if self.rebuilding else {}
        with self._changed:
            self._topic_id, self._positions, self._rebuilt = topic_id, dict(offsets), rebuilt
            self._reached({})
        starts = self._offsets([each for each in partitions if each not in offsets], "earliest", PATIENCE) | offsets
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
                    if self._cluster.topic(self.topic, PATIENCE) != (topic_id, partitions):
                        raise _LookAgain
                    self.trouble, looked = None, monotonic()
                self._hear_ends(consumer, assigned)
        finally:
            consumer.close()

    def _told(self, error: KafkaError) -> None:
        self._has_trouble(said(KafkaException(error), self._client["bootstrap.servers"], self.topic))

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
                self.rebuilding = True
                self._file.empty()
                raise _LookAgain
            else:
                raise KafkaException(error)
        expired = None if self._retention_ms is None else self._last_end - self._retention_ms
        self._file.apply(rows, offsets, expired)
        self.trouble = None
        with self._changed:
            self._reached(offsets)

    def _reached(self, offsets: Mapping[int, int]) -> None:
        self._positions.update(offsets)
        if self.rebuilding and not self._damaged.is_set() and self._is_at(self._rebuilt):
            self.rebuilding = False
        self._changed.notify_all()
