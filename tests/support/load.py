"""Producers that write under load, each thing numbered, and what must be there of it in the end."""

from __future__ import annotations

import threading
from collections import Counter

from confluent_kafka import KafkaError, Producer

from ottla.protocol.errors import ErrorCode
from support.requests import fetch, records_in
from support.waiting import wait_until
from support.wire import Wire

PARTITIONS = 3
TOPIC = "t"
BATCH = 20  # records


class Writer:
    """A producer on a thread of its own that writes numbered values as fast as they are taken, until told to stop."""

    def __init__(self, name, bootstrap, *, idempotent, partitions=range(PARTITIONS), pause=0.001):
        self.name = name
        self.partitions = list(partitions)  # in turn
        self.is_idempotent = idempotent
        self.pause = pause
        self.sent = 0
        self.acknowledged = {}  # (partition, offset) -> value
        self.errors = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": BATCH,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 1000,
                "queue.buffering.max.messages": 1000,
                "error_cb": self._on_error,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def partition_of(self, number):
        return self.partitions[number % len(self.partitions)]

    def _run(self):
        while not self._stop.is_set():
            value = f"{self.name}-{self.sent}".ljust(300, ".")
            try:
                self._producer.produce(
                    TOPIC, value, partition=self.partition_of(self.sent), on_delivery=self._on_delivery
                )
                self.sent += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)
            if self.sent % 20 == 0:
                self._producer.poll(self.pause)  # leaves the processor to the broker

    def _on_delivery(self, error, message):
        if error is not None:
            self.errors.append(f"{message.value()}: {error}")
        elif message.offset() >= 0:
            self.acknowledged[message.partition(), message.offset()] = message.value().rstrip(b".")

    def _on_error(self, error):
        if error.fatal() or error.code() == KafkaError._FATAL:
            self.errors.append(f"fatal: {error}")

    def stop(self):
        """Stop writing; returns when everything that was sent is acknowledged."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(60)
        assert not left, f"{self.name}: {left} records never acknowledged; {self.errors[:3]}"


def await_more(writers, count):
    """Wait until so many more records of each writer are acknowledged."""
    enough = [len(writer.acknowledged) + count for writer in writers]
    wait_until(lambda: all(len(writer.acknowledged) > most for writer, most in zip(writers, enough)))


def stored(broker):
    """Every record of the topic, as (partition, offset) -> value; offsets must have no gaps."""
    wire = Wire("127.0.0.1", broker.port)
    found = {}
    for partition in range(PARTITIONS):
        offset = 0
        while True:
            answer = fetch(wire, TOPIC, offset, partition, partition_max_bytes=1 << 24)
            assert answer.error_code == 0, ErrorCode(answer.error_code)
            records = [one for one in records_in(answer.records) if one.offset >= offset]
            if not records:
                assert offset == answer.high_watermark
                break
            assert [one.offset for one in records] == list(range(offset, offset + len(records))), "offsets have gaps"
            found.update({(partition, one.offset): one.value.rstrip(b".") for one in records})
            offset = records[-1].offset + 1
    wire.close()
    return found


def check(broker, writers):
    """What was acknowledged is where it was said to be; nothing is there that was not sent, nor twice."""
    told = {where: value for writer in writers for where, value in writer.acknowledged.copy().items()}
    found = stored(broker)
    lost = {where: value for where, value in told.items() if found.get(where) != value}
    assert not lost, f"{len(lost)} acknowledged records are lost or moved, such as {list(lost.items())[:3]}"
    counts = Counter(found.values())
    for writer in writers:
        mine = [value for value in counts if value.startswith(writer.name.encode() + b"-")]
        numbers = {int(value.rpartition(b"-")[2]) for value in mine}
        assert not numbers or max(numbers) < writer.sent + 1
        if writer.is_idempotent:
            twice = [value for value in mine if counts[value] > 1]
            assert not twice, f"{len(twice)} records are there twice, such as {twice[:3]}"
            check_order(found, writer)
    assert all(value.startswith((b"once-a-", b"once-b-", b"plain-")) for value in counts)
    return found


def check_order(found, writer):
    """What is there of an idempotent producer's records has no gaps and is in order."""
    prefix = writer.name.encode() + b"-"
    for partition in range(PARTITIONS):
        offsets = sorted(offset for at, offset in found if at == partition)
        mine = [found[partition, offset] for offset in offsets if found[partition, offset].startswith(prefix)]
        numbers = [int(value.rpartition(b"-")[2]) for value in mine]
        sent = [number for number in range(writer.sent + 1) if writer.partition_of(number) == partition]
        assert numbers == sent[: len(numbers)]


def finish(broker, writers):
    """At rest, everything that was sent is there, exactly once from idempotent producers."""
    for writer in writers:
        writer.stop()
    found = check(broker, writers)
    for writer in writers:
        assert not writer.errors, writer.errors[:3]
        values = Counter(value for value in found.values() if value.startswith(writer.name.encode() + b"-"))
        assert len(values) == writer.sent
    assert "Traceback" not in broker.stderr
