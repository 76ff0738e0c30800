"""Partitions that move between disks under load, and through kills of their broker: nothing is lost, nothing left."""

from __future__ import annotations

from pathlib import Path
from random import Random
from time import sleep

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ottla.protocol.messages import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from ottla.storage.dump import Findings, Options, dump
from ottla.testing.process import BrokerFailed
from support.load import PARTITIONS, TOPIC, Writer, await_more, check, finish
from support.mortal import await_death, dying
from support.requests import batch, fetch, produce, records_in
from support.waiting import wait_until
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


def everything(wire, topic):
    found, offset = [], 0
    while records := records_in(fetch(wire, topic, offset, partition_max_bytes=1 << 24).records):
        found += [one for one in records if one.offset >= offset]
        offset = records[-1].offset + 1
    return found


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


def test_a_broker_that_is_killed_while_partitions_move_loses_nothing_and_forgets_no_move(broker, writers, disks):
    """Each move was answered, and so it, not the one before, is carried out by the start after the kill: the directory
    of its copy is there before the answer, that of a move which it replaces is not, and a start takes up what it finds.
    """
    chance = Random(7)
    await_more(writers, 500)
    for turn in range(KILLS):
        move(broker, disks[turn % 2])
        sleep(chance.random() * 0.06)  # any moment will do: this is no wait for something
        broker.kill()
        broker.start()
        await_more(writers, 20)
    check(broker, writers)
    wait_until(lambda: lies_on(broker, disks[(KILLS - 1) % 2]), 180)
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
    wait_until(lambda: len(everything(wire, "c")) < 400)  # compaction goes on where the log is now
    assert {one.key: one.value.decode().rstrip() for one in everything(wire, "c")} == written
    wire.close()
    broker.kill()
    broker.start()
    wire = Wire("127.0.0.1", broker.port)
    assert {one.key: one.value.decode().rstrip() for one in everything(wire, "c")} == written
    wait_until(lambda: tidy(disks, "c", 1))
    wire.close()


FUTURE, ASIDE = "ottla.storage.relocation:FutureLog.", "ottla.storage.directory:DataDirectory.set_aside"
STEPS = {  # of a move, where the broker is killed: before a function, or after it
    "before the copy is begun": (FUTURE + "begin", False),
    "when it is begun": (FUTURE + "begin", True),
    "while it grows": (FUTURE + "_copy_segment", True),
    "when it is on disk": (FUTURE + "put_on_disk", True),
    "before it takes over": (FUTURE + "take_over", False),
    "when it has the name of the log": ("ottla.storage.log:Log.relocate", False),
    "when it has taken over": (FUTURE + "take_over", True),
    "before the old files go": (ASIDE, False),
    "when they are out of sight": (ASIDE, True),
    "when the old place is forgotten": ("ottla.broker.moves:forget_source", True),
}


@pytest.fixture
def partition(broker, disks):
    """A partition with some segments: its values, and the disk where it is not."""
    wire = Wire("127.0.0.1", broker.port)
    wire.create("o", 1, {"segment.bytes": "5000", "file.delete.delay.ms": "0"})
    values = [f"{number}".ljust(500, ".") for number in range(40)]
    for value in values:
        produce(wire, "o", batch(value))
    wire.close()
    return values, disks[1] if lies_on(broker, disks[0], "o") else disks[0]


def check_moved(broker, disks, values, there):
    wait_until(lambda: lies_on(broker, there, "o"))
    wait_until(lambda: tidy(disks, "o", 1))
    wire = Wire("127.0.0.1", broker.port)
    assert [one.value.decode() for one in everything(wire, "o")] == values
    wire.close()


@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_was_answered_is_carried_out_wherever_a_kill_cuts_it_short(
    broker, disks, partition, tmp_path, step
):
    """As with Kafka, which makes the directory of the copy before it answers, and takes up what it finds at a start."""
    values, there = partition
    place, after = STEPS[step]
    broker.stop()
    with dying(place, tmp_path, after=after):
        broker.start()
    move(broker, there, "o", [0])
    await_death(broker)
    broker.start()
    check_moved(broker, disks, values, there)


@pytest.mark.parametrize(
    ("place", "after"),
    [
        (FUTURE + "reserve", False),
        (FUTURE + "reserve", True),
        (ASIDE, True),
        (FUTURE + "begin", False),
    ],
)
def test_a_move_is_carried_out_when_the_start_that_takes_it_up_is_killed_too(
    broker, disks, partition, tmp_path, place, after
):
    values, there = partition
    broker.stop()
    with dying(FUTURE + "put_on_disk", tmp_path):
        broker.start()
    move(broker, there, "o", [0])
    await_death(broker)
    with dying(place, tmp_path, after=after):
        try:
            broker.start()
        except BrokerFailed:  # it died before it said that it was ready
            pass
        else:
            await_death(broker)
    broker.start()
    check_moved(broker, disks, values, there)
