"""A broker that dies, stops or freezes under load: what it acknowledged is there, and nothing else."""

import os
import signal
import threading
from collections import Counter
from time import monotonic, sleep

import pytest
from confluent_kafka import KafkaError, Producer

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import CreateTopicsRequest, MetadataRequest
from support.proxy import proxy
from support.requests import batch, fetch, produce, records_in
from support.wire import Wire

PARTITIONS = 3
TOPIC = "t"
KILLS = 8
BATCH = 20  # records


def wait_until(ask, seconds=60):
    deadline = monotonic() + seconds
    while not ask():
        assert monotonic() < deadline, "it did not come true in time"
        sleep(0.002)


class Writer:
    """A producer on a thread of its own that writes numbered values as fast as they are taken, until told to stop."""

    def __init__(self, name, bootstrap, *, idempotent, partitions=range(PARTITIONS)):
        self.name = name
        self.partitions = list(partitions)  # in turn
        self.is_idempotent = idempotent
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
                self._producer.poll(0.001)  # leaves the processor to the broker

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


@pytest.fixture
def way():
    with proxy() as made:
        yield made


@pytest.fixture
def broker(ottla_broker_factory, way):
    """A broker to which clients come through the proxy."""
    broker = ottla_broker_factory(
        overrides={
            "log.segment.bytes": "1048576",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{way.port}",
        }
    )
    way.broker_port = broker.port
    return broker


@pytest.fixture
def writers(broker, way):
    bootstrap = f"127.0.0.1:{way.port}"
    wire = Wire("127.0.0.1", broker.port)
    wire.create(TOPIC, PARTITIONS)
    wire.close()
    made = [
        Writer("once-a", bootstrap, idempotent=True),
        Writer("once-b", bootstrap, idempotent=True, partitions=[1]),
        Writer("plain", bootstrap, idempotent=False),
    ]
    yield made
    for writer in made:
        writer._stop.set()
        writer._thread.join()
        writer._producer.purge()


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


def begin_topics(broker, names):
    """Ask for topics, and do not wait for the answer."""
    wire = Wire("127.0.0.1", broker.port)
    for name in names:
        topic = CreateTopicsRequest.Topic(name=name, num_partitions=5, replication_factor=1)
        wire.send(CreateTopicsRequest(topics=[topic]), 7)
    return wire


def check_topics(broker, names):
    """Each is whole or absent; those that are there can be used."""
    wire = Wire("127.0.0.1", broker.port)
    known = {topic.name: topic for topic in wire.call(MetadataRequest(topics=None), 12).topics}
    for name in names:
        if name in known:
            assert len(known[name].partitions) == 5
            for partition in range(5):
                assert produce(wire, name, batch("x"), partition).base_offset >= 0
        else:
            assert not list(broker.data_dir.glob(f"{name}-*")), "something is left of a topic that was never made"
            wire.create(name, 5)
    wire.close()


def lose_replies(way, broker, writers):
    """From now on replies get lost; returns when an idempotent producer has a batch written and does not know."""
    way.loses_replies = True
    writer = next(writer for writer in writers if writer.partitions == [1])
    name = writer.name.encode() + b"-"

    def written():
        return sum(path.read_bytes().count(name) for path in broker.data_dir.glob(f"{TOPIC}-1/*.log"))

    wait_until(lambda: written() > len(writer.acknowledged))


def test_kill_minus_9_under_load_again_and_again(broker, way, writers):
    for kill in range(KILLS):
        await_more(writers, 300)
        names = [f"made-{kill}-{number}" for number in range(4)]
        asking = begin_topics(broker, names)
        if kill % 2:
            wait_until(lambda first=names[kill % 4]: list(broker.data_dir.glob(f"{first}-*")))
        lose_replies(way, broker, writers)
        broker.kill()
        asking.close()
        way.loses_replies = False
        broker.start()
        check_topics(broker, names)
        check(broker, writers)
    finish(broker, writers)


def test_sigterm_under_load_ends_with_status_0_and_loses_nothing(broker, way, writers):
    for _ in range(3):
        await_more(writers, 300)
        lose_replies(way, broker, writers)
        assert broker.stop() == 0
        assert "Traceback" not in broker.stderr
        way.loses_replies = False
        broker.start()
        check(broker, writers)
    finish(broker, writers)


def test_a_broker_that_freezes_goes_on_where_it_was(broker, writers):
    for _ in range(2):
        await_more(writers, 200)
        os.kill(broker.pid, signal.SIGSTOP)
        enough = sum(writer.sent for writer in writers) + 500
        wait_until(lambda enough=enough: sum(writer.sent for writer in writers) > enough)
        os.kill(broker.pid, signal.SIGCONT)
    finish(broker, writers)
