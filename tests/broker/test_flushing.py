"""What `flush.messages` and `flush.ms` promise, on a disk that tells what was really put on it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, build_batch, iter_records
from ottla.storage.checkpoints import RECOVERY_POINT
from ottla.storage.directory import CLEAN_SHUTDOWN
from support.wire import TIMEOUT, Wire

EACH = {"flush.messages": "1"}


class Disk:
    """Stands in for os.fsync: keeps what files held when they were put on disk; can be slow, or broken."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._lock = threading.Lock()
        self.turning = threading.Event()
        self.turning.set()
        self.broken = 0  # the number of the error
        self.waiting = 0
        self.synced: list[Path] = []  # one entry for each fsync
        self.platter: dict[Path, bytes] = {}

    def fsync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        content = b"" if path.is_dir() else path.read_bytes()
        if path.suffix == ".log":
            with self._lock:
                self.waiting += 1
            assert self.turning.wait(TIMEOUT)
            with self._lock:
                self.waiting -= 1
        if self.broken and path.suffix == ".log":
            raise OSError(self.broken, os.strerror(self.broken))
        self._real(fd)
        with self._lock:
            self.synced.append(path)
            self.platter[path] = content

    def logs(self) -> int:
        """How often a segment was put on disk."""
        return sum(path.suffix == ".log" for path in self.synced)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(os.fsync)
    monkeypatch.setattr(os, "fsync", disk.fsync)
    yield disk
    disk.turning.set()
    disk.broken = 0


def request(*partitions: int, topic: str = "t", acks: int = 1, value: bytes = b"v") -> messages.ProduceRequest:
    return messages.ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            messages.ProduceRequest.Topic(
                name=topic,
                partition_data=[
                    messages.ProduceRequest.Partition(index=index, records=build_batch([Record(0, 0, b"k", value)]))
                    for index in partitions
                ],
            )
        ],
    )


def answers(wire: Wire, correlation_id: int, version: int = 9) -> list[tuple[int, int]]:
    """Error and offset of each partition."""
    (topic,) = wire.receive("Produce", version, correlation_id).responses
    return [(answer.error_code, answer.base_offset) for answer in topic.partition_responses]


def latest(wire: Wire, partition: int = 0) -> int:
    asked = messages.ListOffsetsRequest.Partition(partition_index=partition, timestamp=-1)
    topics = [messages.ListOffsetsRequest.Topic(name="t", partitions=[asked])]
    return int(wire.call(messages.ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics[0].partitions[0].offset)


def fetched(wire: Wire, partition: int = 0) -> list[bytes]:
    asked = messages.FetchRequest.Partition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [messages.FetchRequest.Topic(topic="t", partitions=[asked])]
    body = messages.FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
    (answer,) = wire.call(body, 11).responses[0].partitions
    assert answer.error_code == 0
    data, found, at = bytes(answer.records or b""), [], 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found += [record.value for record in iter_records(data[at:end], 1 << 20)]
        at = end
    return found


def test_nobody_sees_a_record_and_nobody_is_told_of_it_before_it_is_on_disk(served, wire, disk, until):
    other = served.wire()
    wire.create("t", configs=EACH)
    disk.turning.clear()
    sent = wire.send(request(0), 9)
    until(lambda: disk.waiting)
    assert served.broker.partition("t", 0).log.end_offset == 1
    assert (latest(other), fetched(other)) == (0, [])
    disk.turning.set()
    assert answers(wire, sent) == [(0, 0)]
    assert (latest(other), fetched(other)) == (1, [b"v"])


def test_a_consumer_that_waits_gets_the_record_when_it_is_on_disk(served, wire, disk, until):
    consumer = served.wire()
    wire.create("t", configs=EACH)
    asked = messages.FetchRequest.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [messages.FetchRequest.Topic(topic="t", partitions=[asked])]
    poll = consumer.send(messages.FetchRequest(max_wait_ms=15_000, min_bytes=1, topics=topics), 11)
    partition = served.broker.partition("t", 0)
    until(lambda: partition.waiters)
    disk.turning.clear()
    sent = wire.send(request(0), 9)
    until(lambda: disk.waiting)
    assert partition.waiters
    disk.turning.set()
    assert answers(wire, sent) == [(0, 0)]
    (answer,) = consumer.receive("Fetch", 11, poll).responses[0].partitions
    assert (answer.high_watermark, len(answer.records) > 0) == (1, True)


def test_many_requests_share_one_fsync(served, wire, disk, until):
    wire.create("t", configs=EACH)
    producers = [served.wire() for _ in range(20)]
    disk.turning.clear()
    first = wire.send(request(0), 9)
    until(lambda: disk.waiting)
    sent = [producer.send(request(0), 9) for producer in producers]
    until(lambda: served.broker.partition("t", 0).log.end_offset == 21)
    disk.turning.set()
    assert answers(wire, first) == [(0, 0)]
    offsets = [answers(producer, one)[0] for producer, one in zip(producers, sent)]
    assert sorted(offsets) == [(0, offset) for offset in range(1, 21)]
    assert disk.logs() == 2


def test_a_topic_without_flush_settings_is_never_waited_for(wire, disk):
    wire.create("t")
    disk.turning.clear()
    for number in range(50):
        assert answers(wire, wire.send(request(0), 9)) == [(0, number)]
    assert (disk.waiting, disk.logs()) == (0, 0)


def test_records_fewer_than_flush_messages_are_committed_without_the_disk(served, wire, disk, until):
    wire.create("t", configs={"flush.messages": "5"})
    disk.turning.clear()
    for number in range(4):
        assert answers(wire, wire.send(request(0), 9)) == [(0, number)]
    assert latest(wire) == 4
    sent = wire.send(request(0), 9)
    until(lambda: disk.waiting)
    late = served.wire()
    behind = late.send(request(0), 9)  # has to wait with the one before it: a high watermark leaves no gaps
    until(lambda: served.broker.partition("t", 0).log.end_offset == 6)
    assert latest(served.wire()) == 4
    disk.turning.set()
    assert answers(wire, sent) == [(0, 4)]
    assert answers(late, behind) == [(0, 5)]
    assert latest(wire) == 6
    assert disk.logs() == 1


@pytest.mark.parametrize("version", [1, 3, 9, 12])
def test_old_and_new_requests_wait_alike(served, wire, disk, until, version):
    from ottla.protocol.legacy import downconvert

    wire.create("t", configs=EACH)
    body = request(0)
    if version < 3:
        partition = body.topic_data[0].partition_data[0]
        partition.records = downconvert(bytes(partition.records), 1, limit=1 << 20)
    disk.turning.clear()
    sent = wire.send(body, version)
    until(lambda: disk.waiting)
    assert latest(served.wire()) == 0
    disk.turning.set()
    assert answers(wire, sent, version) == [(0, 0)]


def test_a_request_to_several_partitions_waits_for_all_of_them(served, wire, disk, until):
    wire.create("t", partitions=3, configs=EACH)
    disk.turning.clear()
    sent = wire.send(request(0, 1, 2), 9)
    until(lambda: disk.waiting == 3)  # at once, not one after the other
    disk.turning.set()
    assert answers(wire, sent) == [(0, 0)] * 3
    assert disk.logs() == 3


def test_without_acks_nobody_waits_and_the_record_gets_to_disk_all_the_same(wire, disk, until):
    wire.create("t", configs=EACH)
    wire.send(request(0, acks=0), 9)
    until(lambda: disk.logs() == 1)
    until(lambda: latest(wire) == 1)


def test_a_retried_batch_waits_as_the_first_one_does(served, wire, disk, until):
    wire.create("t", configs=EACH)
    body = request(0)
    body.topic_data[0].partition_data[0].records = build_batch(
        [Record(0, 0, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0
    )
    disk.turning.clear()
    first = wire.send(body, 9)
    until(lambda: disk.waiting)
    again = served.wire()
    second = again.send(body, 9)
    third = served.wire()
    assert latest(third) == 0
    disk.turning.set()
    assert answers(wire, first) == answers(again, second) == [(0, 0)]


@pytest.mark.parametrize(("fault", "others"), [(errno.ENOSPC, 0), (errno.EIO, ErrorCode.KAFKA_STORAGE_ERROR)])
def test_what_cannot_be_put_on_disk_is_refused_and_its_partition_goes_offline(served, wire, disk, fault, others):
    """And all others of the directory where its disk is at fault. Trying again could only seem to help."""
    wire.create("t", partitions=2, configs=EACH)
    assert answers(wire, wire.send(request(0), 9)) == [(0, 0)]
    disk.broken = fault
    assert answers(wire, wire.send(request(0), 9)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    disk.broken = 0
    assert answers(wire, wire.send(request(0), 9)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert answers(wire, wire.send(request(1), 9)) == [(others, -1 if others else 0)]
    wire = served.restart().wire()
    assert fetched(wire)[:1] == [b"v"]
    assert answers(wire, wire.send(request(0, 1), 9))[0][0] == 0


def test_a_segment_that_cannot_be_put_on_disk_when_it_is_full_takes_its_partition_offline(wire, disk, until):
    wire.create("t", configs={"segment.bytes": "100"})
    disk.broken = errno.ENOSPC
    assert answers(wire, wire.send(request(0), 9)) == [(0, 0)]
    until(lambda: answers(wire, wire.send(request(0), 9)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)])


def test_a_topic_deleted_while_a_producer_waits_is_unknown_to_it(served, wire, disk, until):
    wire.create("t", configs=EACH)
    disk.turning.clear()
    sent = wire.send(request(0), 9)
    until(lambda: disk.waiting)
    body = messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000)
    assert served.wire().call(body, 5).responses[0].error_code == 0
    assert answers(wire, sent) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    disk.turning.set()


def test_flush_ms_puts_a_log_on_disk_when_its_time_is_over(served, wire, disk, until):
    wire.create("t", configs={"flush.ms": "20"})
    assert answers(wire, wire.send(request(0), 9)) == [(0, 0)]
    until(lambda: served.broker.partition("t", 0).log.recovery_point == 1)
    assert answers(wire, wire.send(request(0), 9)) == [(0, 1)]
    until(lambda: served.broker.partition("t", 0).log.recovery_point == 2)
    assert disk.logs() == 2


def test_the_brokers_settings_hold_for_topics_that_say_nothing(serve, disk, until):
    served = serve(log_flush_interval_messages=2, log_flush_interval_ms=20)
    wire = served.wire()
    wire.create("t")
    wire.create("u", configs={"flush.ms": str(2**63 - 1)})
    wire.produce("u", [Record(0, 0, None, b"v")])
    wire.produce("t", [Record(0, 0, None, b"v")])
    until(lambda: served.broker.partition("t", 0).log.recovery_point == 1)
    assert served.broker.partition("u", 0).log.recovery_point == 0
    wire.produce("u", [Record(0, 0, None, b"v")])
    assert served.broker.partition("u", 0).log.recovery_point == 2


def test_the_names_of_new_files_are_put_on_disk_with_them(served, wire, disk, tmp_path):
    wire.create("t", configs={**EACH, "segment.bytes": "200"})
    directory = tmp_path / "data-0" / "t-0"
    wire.produce("t", [Record(0, 0, None, b"v")])
    assert {directory, directory.parent, directory / "partition.metadata"} <= set(disk.synced)
    disk.synced.clear()
    wire.produce("t", [Record(0, 0, None, b"v")])
    assert directory not in disk.synced
    wire.produce("t", [Record(0, 0, None, b"v" * 60)])
    assert len(list(directory.glob("*.log"))) == 2
    assert directory in disk.synced


def test_after_a_power_cut_every_acknowledged_record_is_there(serve, disk, tmp_path):
    """Files are put back to what they held at their last fsync; what was never flushed is gone."""
    served = serve()
    wire = served.wire()
    wire.create("t", configs={**EACH, "segment.bytes": "1000"})
    producers = [served.wire() for _ in range(4)]
    acknowledged = set()
    for turn in range(25):
        values = [b"%d-%d" % (turn, number) for number in range(len(producers))]
        sent = [producer.send(request(0, value=value), 9) for producer, value in zip(producers, values)]
        for producer, one, value in zip(producers, sent, values):
            assert answers(producer, one)[0][0] == 0
            acknowledged.add(value)
    platter = dict(disk.platter)
    served.stop()
    data = tmp_path / "data-0"
    for path in [*data.glob("t-0/*"), data / CLEAN_SHUTDOWN, data / RECOVERY_POINT]:
        if path in platter:
            path.write_bytes(platter[path])
        else:
            path.unlink()
    served.start()
    assert set(fetched_all(served.wire())) == acknowledged


def fetched_all(wire: Wire) -> list[bytes]:
    found: list[bytes] = []
    end = latest(wire)
    while len(found) < end:
        asked = messages.FetchRequest.Partition(partition=0, fetch_offset=len(found), partition_max_bytes=1 << 20)
        topics = [messages.FetchRequest.Topic(topic="t", partitions=[asked])]
        body = messages.FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
        data = bytes(wire.call(body, 11).responses[0].partitions[0].records)
        size = int.from_bytes(data[8:12], "big") + 12
        found += [record.value for record in iter_records(data[:size], 1 << 20)]
    return found
