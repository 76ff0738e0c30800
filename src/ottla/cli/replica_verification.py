"""`ottla replica-verification`: reads all replicas of partitions, and tells where they differ (A3 L10-L12).

In rounds: every broker is asked at once for what comes next in the partitions of which it has a replica, as Kafka's
tool asks, by Fetch with the replica id of a debugging consumer, which followers answer too. Batches up to the high
watermark are compared by last offset and CRC; as far as all replicas agree, the next round goes on behind them. A
broker that does not answer holds up its partitions until it is back.

Every --report-interval-ms a line says how far the comparison lies behind the high watermark where it is furthest
behind. The lines are the texts'; Kafka 4 writes a partition as `my-topic-7`, and no full stop.

Status 1 when replicas differed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

import click

from ottla.cli.common import reach
from ottla.cli.common.events import Stop
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, int32, int64
from ottla.cli.common.requests import TIMEOUT_SECONDS, Cluster, Connection, error_text
from ottla.cli.common.topic_filter import TopicFilter
from ottla.protocol.batch import iter_batches
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages import FetchRequest, FetchResponse, ListOffsetsRequest, MetadataResponse

DEBUGGING_CONSUMER = -2
LATEST, EARLIEST = -1, -2
PAUSE_SECONDS = 0.2  # after a round in which nobody answered


class Partition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"[{self.topic},{self.number}]"


class Batch(NamedTuple):
    last_offset: int
    crc: int


class Answer(NamedTuple):
    """What one replica has: its high watermark and the batches that came."""

    high_watermark: int
    batches: list[Batch]


@click.command("replica-verification", cls=Tool, short_help="Compare all replicas of partitions.")
@click.option("--broker-list", "--bootstrap-server", "servers", required=True, metavar="HOST:PORT,...", help="Brokers.")
@click.option(
    "--topics-include",
    "--topic-white-list",
    "pattern",
    default=".*",
    metavar="REGEX",
    help="Which topics: all where none is named.",
)
@click.option("--fetch-size", type=int32(1), default=1024 * 1024, show_default=True, help="Bytes per fetch.")
@click.option("--max-wait-ms", type=int32(0), default=1000, show_default=True, help="How long a fetch waits.")
@click.option("--report-interval-ms", type=int64(0), default=30_000, show_default=True, help="Between reports.")
@click.option(
    "--time",
    "timestamp",
    type=int64(-2),
    default=LATEST,
    show_default=True,
    help="Where to begin: a timestamp, -1 (what comes from now on) or -2 (the oldest record).",
)
def command(
    servers: str, pattern: str, fetch_size: int, max_wait_ms: int, report_interval_ms: int, timestamp: int
) -> None:
    """Compare all replicas of partitions, until Ctrl-C.

    With --time -2 everything is read from the oldest record on, from all brokers at once: that is heavy work for them.
    """
    wanted = TopicFilter(pattern)
    with reach.find(servers).cluster(max_wait_ms / 1000 + TIMEOUT_SECONDS) as cluster:
        topics = [one for one in cluster.topics() if one.name is not None and wanted.allows(one.name)]
        if not topics:
            raise Failure(f"No topics found. --topics-include {pattern} filters out all topics, or there is none.")
        verification = Verification(topics, fetch_size, max_wait_ms)
        verification.begin(cluster, timestamp)
        _tell("verification process is started.")
        stop = Stop()
        with stop.on_signals():
            _verify(verification, cluster, stop, report_interval_ms / 1000)
    if verification.differences:
        raise Failure(f"replicas differed in {verification.differences} places")


def _verify(verification: Verification, cluster: Cluster, stop: Stop, interval: float) -> None:
    reported = time.monotonic()
    with ThreadPoolExecutor(len(verification.replicas)) as pool:
        while not stop():
            answered = verification.round(cluster, pool)
            now = time.monotonic()
            if now - reported >= interval:
                verification.report()
                reported = now
            if not answered and not stop():
                time.sleep(PAUSE_SECONDS)


class Verification:
    """How far the replicas of each partition have been found equal."""

    def __init__(self, topics: Iterable[MetadataResponse.Topic], fetch_size: int, max_wait_ms: int) -> None:
        self._fetch_size = fetch_size
        self._max_wait_ms = max_wait_ms
        self._ids = {one.name: one.topic_id for one in topics if one.name is not None}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}
        self._leaders: dict[Partition, int] = {}
        self._watermarks: dict[Partition, int] = {}
        self._problems: dict[tuple[int, Partition], str] = {}
        self.replicas: dict[int, list[Partition]] = {}  # by broker
        self.offsets: dict[Partition, int] = {}
        self.differences = 0
        self._copies: dict[Partition, int] = {}
        for topic in topics:
            for one in topic.partitions or []:
                partition = Partition(topic.name or "", one.partition_index)
                self._leaders[partition] = one.leader_id
                self._copies[partition] = len(one.replica_nodes or [])
                for broker in one.replica_nodes or []:
                    self.replicas.setdefault(broker, []).append(partition)

    def begin(self, cluster: Cluster, timestamp: int) -> None:
        """Where the comparison starts, as the leaders say."""
        for leader in sorted(set(self._leaders.values())):
            if leader < 0:
                continue
            mine = [partition for partition, one in self._leaders.items() if one == leader]
            found = list(_list_offsets(cluster.broker(leader), mine, timestamp))
            late = [partition for partition, offset in found if offset < 0]  # nothing is as new as that
            self.offsets.update(found)
            self.offsets.update(_list_offsets(cluster.broker(leader), late, LATEST) if late else ())
        self._watermarks = dict(self.offsets)

    def round(self, cluster: Cluster, pool: ThreadPoolExecutor) -> bool:
        """Ask every broker once and compare; whether all have answered."""
        asked = {broker: pool.submit(self._fetch, cluster, broker, mine) for broker, mine in self.replicas.items()}
        answers: dict[Partition, dict[int, Answer]] = {}
        complete = True
        for broker, future in asked.items():
            try:
                for partition, answer in future.result():
                    answers.setdefault(partition, {})[broker] = answer
            except Failure as error:
                complete = False
                self._complain(broker, Partition("", -1), error.message)
        for partition, by_broker in answers.items():
            if len(by_broker) == self._copies[partition]:
                self._compare(partition, by_broker)
        return complete

    def _fetch(self, cluster: Cluster, broker: int, partitions: list[Partition]) -> list[tuple[Partition, Answer]]:
        connection = cluster.broker(broker)
        topics: dict[str, list[FetchRequest.Partition]] = {}
        for partition in partitions:
            if partition in self.offsets:
                asked = FetchRequest.Partition(
                    partition=partition.number,
                    fetch_offset=self.offsets[partition],
                    partition_max_bytes=self._fetch_size,
                    log_start_offset=0,
                )
                topics.setdefault(partition.topic, []).append(asked)
        request = FetchRequest(
            replica_id=DEBUGGING_CONSUMER,
            replica_state=FetchRequest.ReplicaState(replica_id=DEBUGGING_CONSUMER, replica_epoch=-1),
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            topics=[
                FetchRequest.Topic(topic=name, topic_id=self._ids[name], partitions=asked)
                for name, asked in topics.items()
            ],
        )
        try:
            reply: FetchResponse = connection.call(request)
        except Failure:
            cluster.forget(broker)
            raise
        if reply.error_code:
            raise Failure(error_text(reply.error_code))
        return list(self._answers(broker, reply))

    def _answers(self, broker: int, reply: FetchResponse) -> Iterator[tuple[Partition, Answer]]:
        for topic in reply.responses or []:
            for one in topic.partitions or []:
                partition = Partition(topic.topic or self._names[topic.topic_id], one.partition_index)
                if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and one.log_start_offset > self.offsets[partition]:
                    self.offsets[partition] = one.log_start_offset  # deleted meanwhile
                elif one.error_code:
                    self._complain(broker, partition, error_text(one.error_code))
                else:
                    try:
                        found = iter_batches(one.records or b"", partial=True)
                        batches = [Batch(header.last_offset, header.crc) for _, header in found]
                    except ProtocolError as error:
                        self._complain(broker, partition, f"what it sends are no batches: {error}")
                        continue
                    self._problems.pop((broker, partition), None)
                    yield partition, Answer(one.high_watermark, batches)

    def _compare(self, partition: Partition, answers: dict[int, Answer]) -> None:
        """Go through the batches of all replicas side by side, as far as all have them below the high watermark."""
        self._watermarks[partition] = max(answer.high_watermark for answer in answers.values())
        start = self.offsets[partition]
        sides = {
            broker: [batch for batch in answer.batches if start <= batch.last_offset < answer.high_watermark]
            for broker, answer in answers.items()
        }
        (first, expected), *others = sides.items()
        for at in range(min(map(len, sides.values()))):
            batch = expected[at]
            for broker, batches in others:
                if batches[at].last_offset != batch.last_offset:
                    self._differ(
                        f"partition {partition}: replica {first}'s offset {batch.last_offset} doesn't match "
                        f"replica {broker}'s offset {batches[at].last_offset}"
                    )
                    self.offsets[partition] = max(batch.last_offset, batches[at].last_offset) + 1
                    return
                if batches[at].crc != batch.crc:
                    self._differ(
                        f"partition {partition} has unmatched checksum at offset {batch.last_offset}; "
                        f"replica {first}'s checksum {batch.crc}; replica {broker}'s checksum {batches[at].crc}"
                    )
            self.offsets[partition] = batch.last_offset + 1

    def _differ(self, text: str) -> None:
        self.differences += 1
        _tell(text)

    def _complain(self, broker: int, partition: Partition, problem: str) -> None:
        """Of a problem that lasts, once."""
        if self._problems.get((broker, partition)) != problem:
            self._problems[broker, partition] = problem
            where = f"broker {broker}" + (f", partition {partition}" if partition.topic else "")
            click.echo(f"{_now()}: {where}: {problem}", err=True)

    def report(self) -> None:
        lags = {one: self._watermarks[one] - offset for one, offset in self.offsets.items()}
        if lags:
            worst = max(lags, key=lambda one: lags[one])
            _tell(
                f"max lag is {lags[worst]} for partition {worst} at offset {self.offsets[worst]} "
                f"among {len(lags)} partitions"
            )


def _list_offsets(
    leader: Connection, partitions: Iterable[Partition], timestamp: int
) -> Iterator[tuple[Partition, int]]:
    topics: dict[str, list[ListOffsetsRequest.Partition]] = {}
    for topic, index in partitions:
        asked = ListOffsetsRequest.Partition(partition_index=index, timestamp=timestamp, max_num_offsets=1)
        topics.setdefault(topic, []).append(asked)
    reply = leader.call(
        ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsRequest.Topic(name=name, partitions=asked) for name, asked in topics.items()],
        )
    )
    for topic in reply.topics:
        for one in topic.partitions:
            if one.error_code:
                raise Failure(f"[{topic.name},{one.partition_index}]: {error_text(one.error_code)}")
            yield Partition(topic.name, one.partition_index), one.offset


def _now() -> str:
    return datetime.now().isoformat(" ", "milliseconds").replace(".", ",")


def _tell(text: str) -> None:
    sys.stdout.write(f"{_now()}: {text}\n")
    sys.stdout.flush()
