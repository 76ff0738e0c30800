"""Questions to a cluster by a program that runs for months: what topics are, and where they end.

Answers or raises within the time that is given. A client that had no answer is thrown away: librdkafka's may stay
without leaders for long after an outage ("No leaders found"). It is asked for topics only: its admin requests about
groups abort the whole process when one has timed out (librdkafka issue 4605).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future, wait
from time import monotonic
from typing import Any, Literal, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

AWAY = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._NOENT,
    KafkaError._WAIT_COORD,
}
STEP = 0.05  # seconds: how soon a stop is noticed


class Partition(NamedTuple):
    topic: str
    partition: int


class NoAnswer(Exception):
    """The cluster did not answer, or not what was asked; the message says why, in words for people."""


class Cluster:
    """`stopping`: a question that waits is given up when it is set."""

    def __init__(self, settings: Mapping[str, Any], stopping: threading.Event | None = None) -> None:
        self._settings = {**settings, "log_level": 2}  # what goes wrong is told by those who ask
        self._stopping = stopping or threading.Event()
        self._client: AdminClient | None = None

    def topic(self, name: str, timeout: float) -> tuple[str, list[int]]:
        """A topic's id and its partitions."""
        client = self._ask_by()
        asked = client.describe_topics(TopicCollection([name]), request_timeout=timeout)[name]
        (found,) = self._answers([asked], timeout, name)
        return str(found.topic_id), [each.id for each in found.partitions]

    def offsets(
        self,
        partitions: Collection[Partition],
        which: Literal["earliest", "latest"],
        timeout: float,
        *,
        committed: bool = False,
    ) -> dict[Partition, int]:
        """Where partitions begin or end; `committed`: where the open transactions begin."""
        if not partitions:
            return {}
        some = next(iter(partitions)).topic
        if self._client is None:
            self.topic(some, timeout)  # else one client in four needs 3 s to find leaders
        client = self._ask_by()
        wanted = {TopicPartition(*each): getattr(OffsetSpec, which)() for each in partitions}
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = client.list_offsets(wanted, isolation_level=isolation, request_timeout=timeout)
        answers = self._answers(list(asked.values()), timeout, some)
        return {Partition(each.topic, each.partition): found.offset for each, found in zip(asked, answers)}

    def _ask_by(self) -> AdminClient:
        if self._client is None:
            self._client = AdminClient(dict(self._settings))
        return self._client  # whoever waits for its answer keeps it: one that is let go answers no more

    def _answers(self, asked: list[Future[Any]], timeout: float, topic: str) -> list[Any]:
        deadline = monotonic() + timeout
        try:
            while wait(asked, STEP).not_done:
                if monotonic() >= deadline or self._stopping.is_set():
                    raise TimeoutError
            return [each.result() for each in asked]
        except (KafkaException, TimeoutError) as error:
            self._client = None
            raise NoAnswer(said(error, self._settings["bootstrap.servers"], topic)) from None


def said(error: Exception, bootstrap: str, topic: str) -> str:
    """What went wrong, in words for people."""
    if isinstance(error, TimeoutError):
        return f"no broker answers at {bootstrap}"
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else error
    if not isinstance(cause, KafkaError):
        return str(error) or type(error).__name__
    if cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return f"topic {topic} does not exist"
    if cause.code() in AWAY:
        return f"no broker answers at {bootstrap}"
    return cause.str()
