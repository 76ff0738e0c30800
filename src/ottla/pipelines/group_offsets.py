"""The offsets of an application's queries, committed as those of an ordinary consumer group, so that tools see its lag.

Spark goes on from its checkpoints; these offsets are for the eyes of lag tools and consoles, so:
- Where two queries read the same partition, the smaller offset counts. Nothing is committed before each has told where
  it is, or has had ten seconds to.
- A committed offset never goes back, but for queries that start from the beginning with a new checkpoint.
- A broker that is away, or a group that others are members of, is logged once and tried again: no query fails of it.

A consumer that joins nothing commits: see cluster.py for why not the admin client.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ottla.pipelines.batches import Batch
from ottla.pipelines.cluster import Cluster, NoAnswer, Partition, said

PATIENCE = 10.0  # seconds for a query's first batch
TIMEOUT = 3.0  # seconds for the broker
STEP = 0.005  # seconds: how soon its answer is noticed; a poll that brings one goes on to its end

LOG = logging.getLogger(__name__)


class GroupOffsets:
    def __init__(self, group: str, bootstrap: str, client: Mapping[str, Any] | None = None) -> None:
        self.group = group
        self._settings = {**(client or {}), "bootstrap.servers": bootstrap}
        self._cluster = Cluster(self._settings)
        self._consumer: Consumer | None = None
        self._answer: list[KafkaError | None] = []  # to a commit
        self._lock = threading.Lock()  # over the next three
        self._silent: dict[str, float] = {}  # queries that have not told anything yet, and since when
        self._queries: dict[str, dict[Partition, int]] = {}
        self._anew: set[Partition] = set()  # those that may go back
        self._committed: dict[Partition, int] = {}
        self._trouble: str | None = None

    def expect(self, query: str) -> None:
        """A query has been started."""
        with self._lock:
            self._silent[query] = monotonic()
            self._queries.pop(query, None)

    def done(self, query: str, batch: Batch | None) -> None:
        """A query has done a batch; None: it will not do any."""
        with self._lock:
            self._silent.pop(query, None)
            if batch is not None:
                if batch.first:
                    self._anew |= batch.offsets.keys()
                self._queries.setdefault(query, {}).update(batch.offsets)

    @property
    def offsets(self) -> dict[Partition, int]:
        """How far all queries are."""
        found: dict[Partition, int] = {}
        with self._lock:
            for offsets in self._queries.values():
                for partition, offset in offsets.items():
                    found[partition] = min(offset, found.get(partition, offset))
        return found

    def commit(self, *, last: bool = False) -> bool:
        """Commit what has changed. Whether all that should be committed is. `last`: wait for nobody's first batch."""
        with self._lock:
            waiting = any(monotonic() - since < PATIENCE for since in self._silent.values())
            anew = set(self._anew)
        offsets = self.offsets
        if waiting and not last:
            return False
        if not offsets:
            return True
        try:
            before = self._before(offsets)
            new = {
                partition: offset
                for partition, offset in offsets.items()
                if offset > before.get(partition, -1) or (partition in anew and offset != before[partition])
            }
            if new:
                self._send(new)
        except (KafkaException, TimeoutError) as error:
            self._consumer = None
            why = said(error, self._settings["bootstrap.servers"], self.group)
            if why != self._trouble:
                LOG.warning("the offsets of %s are not committed at the moment: %s", self.group, why)
            self._trouble = why
            return False
        before.update(new)
        with self._lock:
            self._anew -= anew
        self._trouble = None
        return True

    def lag(self) -> dict[Partition, int] | None:
        """How many records each partition has beyond the offsets; None: there are none yet, or no broker answers."""
        offsets = self.offsets
        try:
            ends = self._cluster.offsets(offsets.keys(), "latest", TIMEOUT)
        except NoAnswer:
            return None
        return {partition: max(0, end - offsets[partition]) for partition, end in ends.items()} or None

    def _before(self, offsets: Collection[Partition]) -> dict[Partition, int]:
        """What is committed. Asked for once: nobody else commits for this group."""
        unknown = [TopicPartition(*partition) for partition in offsets if partition not in self._committed]
        if unknown:
            for one in self._commits_by().committed(unknown, timeout=TIMEOUT):
                if one.error is not None:
                    raise KafkaException(one.error)
                self._committed[Partition(one.topic, one.partition)] = max(-1, one.offset)
        return self._committed

    def _send(self, offsets: Mapping[Partition, int]) -> None:
        consumer = self._commits_by()
        self._answer.clear()
        consumer.commit(offsets=[TopicPartition(*each, offset) for each, offset in offsets.items()], asynchronous=True)
        deadline = monotonic() + TIMEOUT
        while not self._answer:
            consumer.poll(STEP)
            if monotonic() >= deadline:
                raise TimeoutError
        if self._answer[0] is not None:
            raise KafkaException(self._answer[0])

    def _commits_by(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    **self._settings,
                    "group.id": self.group,
                    "enable.auto.commit": False,
                    "on_commit": self._answered,
                    "log_level": 2,
                    "socket.timeout.ms": 2000,
                    "session.timeout.ms": 1000,  # of no session: so long its end waits for a commit without an answer
                    "heartbeat.interval.ms": 300,
                }
            )
        return self._consumer

    def _answered(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        errors = [error, *(one.error for one in partitions)]
        self._answer.append(next((each for each in errors if each is not None), None))
