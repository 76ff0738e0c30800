"""Partitions that move between disks under load, and through kills of their broker: nothing is lost, nothing left."""

from __future__ import annotations

from pathlib import Path
from random import Random
from time import sleep

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ottla.protocol.messages import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from ottla.storage.dump import Findings, Options, dump
from support.load import PARTITIONS, TOPIC, Writer, await_more, check, finish, wait_until
from support.requests import batch, fetch, produce, records_in
from support.wire import Wire

KILLS = 6


@pytest.fixture
def disks(tmp_path):
    return [str(tmp_path / "disk-a"), str(tmp_path / "disk-b")]


@pytest.fixture
def broker(ottla_broker_factory, disks):
    return ottla_broker_factory(
        overrides={
            "log.dirs": ",".join(disks),
            "log.segment.bytes": "1048576",
            "log.segment.delete.delay.ms": "0",
            "log.cleaner.backoff.ms": "50",
        }
    )


@pytest.fixture
def writers(broker):
    wire = Wire("127.0.0.1", broker.port)
    wire.create(TOPIC, PARTITIONS, {"file.delete.delay.ms": "0"})
    wire.close()
    made = [
        Writer("once-a", broker.bootstrap, idempotent=True, pause=0.01),
        Writer("once-b", broker.bootstrap, idempotent=True, partitions=[1], pause=0.01),
        Writer("plain", broker.bootstrap, idempotent=False, pause=0.01),
    ]
    yield made
    for writer in made:
        writer._stop.set()
        writer._thread.join()
        writer._producer.purge()


def move(broker, disk, topic=TOPIC, partitions=range(PARTITIONS)):
    wire = Wire("127.0.0.1", broker.port)
    Topic = AlterReplicaLogDirsRequest.Topic
    wanted = AlterReplicaLogDirsRequest.Dir(path=disk, topics=[Topic(name=topic, partitions=list(partitions))])
    (answer,) = wire.call(AlterReplicaLogDirsRequest(dirs=[wanted]), 2).results
    assert {one.error_code for one in answer.partitions} == {0}
    wire.close()


def lies_on(broker, disk, topic=TOPIC):
    """Whether the partitions of a topic are on that disk, and nowhere else."""
    wire = Wire("127.0.0.1", broker.port)
    found = [
        (one.log_dir, row.is_future_key)
        for one in wire.call(DescribeLogDirsRequest(topics=None), 5).results
        for named in one.topics
        for row in named.partitions
        if named.name == topic
    ]
    wire.close()
    return set(found) == {(disk, False)}


def tidy(disks, topic=TOPIC, partitions=PARTITIONS):
    """Each partition lies on one disk, and nothing else of the topic is there."""
    found = sorted(path.name for disk in disks for path in Path(disk).glob(f"{topic}-*"))
    marks = [path for disk in disks for path in Path(disk).glob("*/moved-from")]
    return found == [f"{topic}-{index}" for index in range(partitions)] and not marks


def test_partitions_move_while_they_are_written_and_read(broker, writers, disks):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    await_more(writers, 500)
    seen = []
    for turn in range(4):
        move(broker, disks[turn % 2])
        while not lies_on(broker, disks[turn % 2]):
            seen += consumer.consume(1000, 0.01)
        await_more(writers, 200)
    finish(broker, writers)
    total = sum(writer.sent for writer in writers)
    wait_until(lambda: seen.extend(consumer.consume(1000, 0.1)) or len(seen) >= total)
    consumer.close()
    assert not [message.error() for message in seen if message.error()]
    for index in range(PARTITIONS):
        offsets = [message.offset() for message in seen if message.partition() == index]
        assert offsets == list(range(len(offsets)))
    wait_until(lambda: tidy(disks))
    broker.stop()
    for path in Path(disks[1]).glob(f"{TOPIC}-*/*index"):  # they are whole, and fit the segments beside them
        findings = Findings()
        list(dump(path, Options(), findings))
        assert findings.damaged() == []


def test_a_broker_that_is_killed_while_partitions_move_loses_nothing(broker, writers, disks):
    chance = Random(7)
    await_more(writers, 500)
    for turn in range(KILLS):
        move(broker, disks[turn % 2])
        sleep(chance.random() * 0.06)  # any moment will do: this is no wait for something
        broker.kill()
        broker.start()
        await_more(writers, 20)
    check(broker, writers)
    move(broker, disks[KILLS % 2])  # undisturbed
    wait_until(lambda: lies_on(broker, disks[KILLS % 2]), 180)
    finish(broker, writers)
    wait_until(lambda: tidy(disks))


def test_a_compacted_topic_moves_with_what_is_left_of_it(broker, disks):
    wire = Wire("127.0.0.1", broker.port)
    settings = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01"}
    wire.create("c", 1, {**settings, "file.delete.delay.ms": "0"})
    written = {}
    for turn in range(6):
        move(broker, disks[turn % 2], "c", [0])
        for number in range(150):
            key = f"key-{number % 7}".encode()
            written[key] = f"{turn}-{number}"
            produce(wire, "c", batch(written[key].ljust(200), key=key))
        wait_until(lambda turn=turn: lies_on(broker, disks[turn % 2], "c"))

    def kept():
        found, offset = [], 0
        while records := records_in(fetch(wire, "c", offset, partition_max_bytes=1 << 24).records):
            found += [one for one in records if one.offset >= offset]
            offset = records[-1].offset + 1
        return found

    wait_until(lambda: len(kept()) < 400)  # compaction goes on where the log is now
    assert {one.key: one.value.decode().rstrip() for one in kept()} == written
    wire.close()
    broker.kill()
    broker.start()
    wire = Wire("127.0.0.1", broker.port)
    assert {one.key: one.value.decode().rstrip() for one in kept()} == written
    wait_until(lambda: tidy(disks, "c", 1))
    wire.close()
