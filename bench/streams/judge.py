"""Fills input topics, watches output topics and checks what they hold, without costing the engines much meanwhile.

The whole input is written before an engine starts: a first part, committed, that warms the engine up, and the main part
in a transaction that stays open. Both engines read committed records only. When the result of the first part is
complete and the engine idle, the transaction is committed: the main part is there at once, and the clock starts.

While the engine works nobody reads its output; only the topic's end offsets are asked for, every 20 ms. When they have
stood still for a while and the engine is idle too (one that writes in large transactions works in silence), the new
part is read and checked. The offset of the record that made the result complete then tells, by the noted ends, when
that was.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from bench.process import BenchError
from bench.streams.inputs import PARTITIONS, Expected, Record
from bench.wire import Admin

INTERVAL = 0.02  # s between two looks at the end offsets
QUIET = 0.4  # s without a change before the output is read
READ_SIZE = 10_000
PATIENCE = 300.0


def clients() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise BenchError("streams need confluent-kafka: run make test, or pip install confluent-kafka") from None
    return confluent_kafka


class Filler:
    """Writes records in transactions of its own; `commit` shows them to readers."""

    def __init__(self, port: int) -> None:
        kafka = clients()
        settings = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "transactional.id": "bench-filler",
            "transaction.timeout.ms": 900_000,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "log_level": 0,
        }
        self._failure = kafka.KafkaException
        self._producer: Any = kafka.Producer(settings)
        self._guarded(self._producer.init_transactions, 30)

    def _guarded(self, call: Any, *arguments: object) -> None:
        try:
            call(*arguments)
        except self._failure as error:
            raise BenchError(f"{call.__name__}: {error}") from None

    def write(self, topic: str, records: Iterable[Record]) -> None:
        """In a new transaction, which stays open; all records are with the broker then."""
        producer = self._producer
        self._guarded(producer.begin_transaction)
        for partition, key, value, timestamp in records:
            while True:
                try:
                    producer.produce(topic, value, key, partition, timestamp=timestamp)
                    break
                except BufferError:
                    producer.poll(0.05)
        self._guarded(producer.flush, 60)

    def commit(self) -> None:
        self._guarded(self._producer.commit_transaction, 60)


class Check:
    """Takes output records as they are read; says when the expected result is complete and where that was."""

    def __init__(self) -> None:
        self.marks: dict[int, int] = {}  # partition -> offset of the record that completed its part of the result
        self._expected = Expected()
        self._records = 0
        self._checksum = 0
        self._values: dict[bytes, int] = {}
        self._missing: set[bytes] = set()

    def expect(self, expected: Expected) -> None:
        """From now on; what was taken so far counts."""
        self._expected = expected
        self._missing = {key for key, value in expected.finals.items() if self._values.get(key) != value}
        self.marks.clear()

    @property
    def complete(self) -> bool:
        return self._records >= self._expected.records if self._expected.records else not self._missing

    def take(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        finals = self._expected.finals
        if not finals:
            self._records += 1
            self._checksum += zlib.crc32(value)
            self.marks[partition] = offset
            return
        (count,) = struct.unpack(">q", value)
        self._values[key] = count
        if finals.get(key) == count:
            if key in self._missing:
                self._missing.remove(key)
                self.marks[partition] = offset
        elif key not in self._missing:
            raise BenchError(f"a wrong result: {key!r} is counted {count} times, and not {finals.get(key, 0)}")

    def verify(self) -> None:
        if not self.complete or self._records != self._expected.records or self._checksum != self._expected.checksum:
            raise BenchError(f"a wrong result: {self.state()}, checksum {self._checksum:#x}")

    def state(self) -> str:
        if self._expected.records:
            return f"{self._records:,} records of {self._expected.records:,}"
        return f"{len(self._missing):,} counts of {len(self._expected.finals):,} are missing"


class Watch:
    """Notes the ends of an output topic (those for readers of committed records) and when they were seen."""

    def __init__(self, port: int, topic: str, check: Check) -> None:
        self._port = port
        self._topic = topic
        self._check = check
        self._admin = Admin(port)
        self._ends = [0] * PARTITIONS
        self._history: list[tuple[float, list[int]]] = []
        self._next = [0] * PARTITIONS  # offsets to read from

    def close(self) -> None:
        self._admin.close()

    def look(self) -> bool:
        """Whether the ends have moved."""
        ends = [offset for _, offset in self._admin.offsets(self._topic, PARTITIONS, committed=True)]
        if ends == self._ends:
            return False
        self._ends = ends
        self._history.append((time.monotonic(), ends))
        return True

    def first(self, is_running: Callable[[], bool], interval: float = 0.005, patience: float = PATIENCE) -> float:
        """When the first record was there."""
        deadline = time.monotonic() + patience
        while not self.look():
            if not is_running():
                raise BenchError("the application has ended without output")
            if time.monotonic() > deadline:
                raise BenchError(f"no output within {patience:.0f} s")
            time.sleep(interval)
        return time.monotonic()

    def completed(
        self, is_running: Callable[[], bool], is_idle: Callable[[], bool], patience: float = PATIENCE
    ) -> float:
        """Waits until the result is complete; returns when it was."""
        moved, unread = time.monotonic(), True
        while not self._check.complete:
            now = time.monotonic()
            if self.look():
                moved, unread = now, True
            elif unread and now - moved > QUIET and is_idle():
                self._read()
                unread = False
            elif not is_running():
                raise BenchError(f"the application has ended: {self._check.state()}")
            elif now - moved > patience:
                raise BenchError(f"no output for {patience:.0f} s: {self._check.state()}")
            else:
                time.sleep(INTERVAL)
        time.sleep(QUIET)
        self.look()
        self._read()  # nothing more may have come
        self._check.verify()
        return max(self._seen(partition, offset) for partition, offset in self._check.marks.items())

    def _seen(self, partition: int, offset: int) -> float:
        return next(when for when, ends in self._history if ends[partition] > offset)

    def _read(self) -> None:
        """What is new since the last time, up to the present end."""
        kafka = clients()
        settings = {
            "bootstrap.servers": f"127.0.0.1:{self._port}",
            "group.id": "bench-judge",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "log_level": 0,
        }
        consumer = kafka.Consumer(settings)
        try:
            starts = enumerate(self._next)
            consumer.assign([kafka.TopicPartition(self._topic, partition, offset) for partition, offset in starts])
            open_ones = set(range(PARTITIONS))
            while open_ones:
                for message in consumer.consume(READ_SIZE, 0.2):
                    partition, error = message.partition(), message.error()
                    if error is None:
                        self._check.take(partition, message.offset(), message.key(), message.value())
                        self._next[partition] = message.offset() + 1
                    elif error.code() == kafka.KafkaError._PARTITION_EOF:
                        open_ones.discard(partition)
                    else:
                        raise BenchError(f"reading {self._topic}: {error}")
        finally:
            consumer.close()
