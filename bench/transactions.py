"""Transactions: how many a second one producer makes, and what it costs a consumer to read only what is committed.

The producer is confluent-kafka's, the one program of the bench that is not its own: the librdkafka of distributions is
older, and waits for timers of its own between the steps of a transaction.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import machine
from bench.process import BenchError, Broker
from bench.workloads import Figure, Scene, Values, Workload, measure

SIZE = 100
PATIENCE = 30.0


class Transactor:
    """A producer that has made its first transaction: whatever is done once is behind it."""

    def __init__(self, port: int, topic: str) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise BenchError(
                "transactions need confluent-kafka: run make test, or pip install confluent-kafka"
            ) from None
        self._failure = confluent_kafka.KafkaException
        self._topic = topic
        settings = {"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": topic, "log_level": 0}
        self._producer: Any = confluent_kafka.Producer(settings)
        self._guarded(self._producer.init_transactions, PATIENCE)
        self.transact(1)

    def _guarded(self, call: Any, *arguments: object) -> None:
        try:
            call(*arguments)
        except (self._failure, BufferError) as error:
            raise BenchError(f"{call.__name__}: {error}") from None

    def transact(self, records: int, *, commit: bool = True) -> None:
        producer, topic, value = self._producer, self._topic, b"x" * SIZE
        self._guarded(producer.begin_transaction)
        for _ in range(records):
            producer.produce(topic, value)
        if commit:
            self._guarded(producer.commit_transaction, PATIENCE)
        else:
            self._guarded(producer.flush, PATIENCE)  # an abort drops what the broker has not got yet
            self._guarded(producer.abort_transaction, PATIENCE)


def check_end(broker: Broker, topic: str, expected: int, patience: float = 5.0) -> None:
    """The log ends where it should: a marker takes an offset too. Kafka writes the last one after its answer."""
    deadline = time.monotonic() + patience
    with broker.admin() as admin:
        while (found := admin.records(topic, 1)) != expected:
            if time.monotonic() > deadline:
                raise BenchError(f"{broker.system.label}: {topic} ends at {found}, not at {expected}")
            time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Transactions:
    """One producer, one transaction after the other."""

    name: str
    records: int
    seconds: float
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        label = f"transactions of {self.records} record" + ("s" if self.records > 1 else "") + ", one producer"
        return (
            Figure(f"{self.name}.rate", "transactions", label, "per s", "higher"),
            Figure(f"{self.name}.p50", "transactions", f"{label}, p50", "ms", "lower"),
            Figure(f"{self.name}.p99", "transactions", f"{label}, p99", "ms", "lower"),
            Figure(f"{self.name}.cpu", "transactions", f"{label}, broker CPU", "ms each", "lower"),
        )

    def run(self, scene: Scene) -> Values:
        topic = f"{self.name}-{scene.tag}"
        scene.broker.create_topic(topic, 1)
        transactor = Transactor(scene.broker.port, topic)
        latencies: list[float] = []
        cpu, own, busy = scene.broker.cpu_seconds(), time.process_time(), machine.busy_seconds()
        began = now = time.monotonic()
        end = began + max(0.3, self.seconds * scene.scale)
        while now < end:
            transactor.transact(self.records)
            before, now = now, time.monotonic()
            latencies.append(now - before)
        cpu, passed = scene.broker.cpu_seconds() - cpu, now - began
        others = machine.busy_seconds() - busy - cpu - (time.process_time() - own)
        check_end(scene.broker, topic, len(latencies) * (self.records + 1) + 2)
        return {
            f"{self.name}.rate": len(latencies) / passed,
            f"{self.name}.p50": statistics.median(latencies) * 1e3,
            f"{self.name}.p99": sorted(latencies)[len(latencies) * 99 // 100] * 1e3,
            f"{self.name}.cpu": cpu / len(latencies) * 1e3,
            "traffic": len(latencies) * self.records * SIZE,
            "others": max(0.0, others / passed),
        }


@dataclass(frozen=True, slots=True)
class Isolation:
    """The same log read twice, with and without what transactions ask of a reader: every tenth one is aborted."""

    name: str
    transactions: int
    records: int
    passes: int = 5
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        label = f"consume {SIZE} B in transactions of {self.records:,}, every tenth aborted"
        return (
            Figure(f"{self.name}.rate", "transactions", f"{label}, read_committed", "k msg/s", "higher"),
            Figure(f"{self.name}.cpu", "transactions", f"{label}, read_committed, broker CPU", "s/GB", "lower"),
            Figure(f"{self.name}.time", "transactions", f"{label}: time over that of read_uncommitted", "x", "lower"),
        )

    def run(self, scene: Scene) -> Values:
        topic, transactions = f"{self.name}-{scene.tag}", max(20, int(self.transactions * scene.scale))
        scene.broker.create_topic(topic, 1)
        transactor = Transactor(scene.broker.port, topic)
        for number in range(transactions):
            transactor.transact(self.records, commit=number % 10 != 9)
        check_end(scene.broker, topic, transactions * (self.records + 1) + 2)
        written, aborted = transactions * self.records + 1, transactions // 10 * self.records
        counts = {"read_uncommitted": written, "read_committed": written - aborted}
        seconds = dict.fromkeys(counts, 0.0)
        cpu = dict.fromkeys(counts, 0.0)
        others = []
        for _ in range(self.passes):
            for isolation, count in counts.items():
                load = measure(scene, "consume", topic=topic, size=SIZE, count=count, isolation=isolation)
                seconds[isolation] += load.printed["consume_seconds"]
                cpu[isolation] += load.cpu
                others.append(load.others)
        total = counts["read_committed"] * self.passes
        return {
            f"{self.name}.rate": total / seconds["read_committed"] / 1e3,
            f"{self.name}.cpu": cpu["read_committed"] / (total * SIZE / 1e9),
            f"{self.name}.time": seconds["read_committed"] / seconds["read_uncommitted"],
            "traffic": (sum(counts.values()) * self.passes + written) * SIZE,
            "others": statistics.mean(others),
        }


def transactions() -> list[Workload]:
    return [
        Transactions("transactions-1", records=1, seconds=4),
        Transactions("transactions-100", records=100, seconds=4),
        Isolation("read-committed", transactions=300, records=2000),
    ]
