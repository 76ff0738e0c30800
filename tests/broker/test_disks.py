"""Disks that fail, fill up or come back: only what lies on them suffers, and nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.config.broker import BrokerConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import CreateTopicsRequest, ListOffsetsRequest, MetadataRequest
from ottla.storage.errors import DamagedDirectory
from support.requests import batch, fetch, fetch_request, produce, values_in
from support.wire import Wire

Serve = Callable[..., Any]

LATEST = -1


@pytest.fixture
def disks(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "disk-a"), str(tmp_path / "disk-b")]


def end_offset(wire: Wire, topic: str, partition: int) -> tuple[int, int]:
    """(error code, offset)"""
    asked = ListOffsetsRequest.Partition(partition_index=partition, timestamp=LATEST)
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=topic, partitions=[asked])])
    (answer,) = wire.call(request, 7).topics[0].partitions
    return answer.error_code, answer.offset


def metadata(wire: Wire, topic: str, version: int = 12) -> list[Any]:
    asked = MetadataRequest.Topic(name=topic)
    return list(wire.call(MetadataRequest(topics=[asked]), version).topics[0].partitions)


def homes(disks: list[str], topic: str) -> dict[int, int]:
    """Which disk each partition lies on."""
    return {
        int(path.name.rpartition("-")[2]): at for at, disk in enumerate(disks) for path in Path(disk).glob(f"{topic}-*")
    }


def break_file(served: Any, topic: str, partition: int) -> None:
    """From now on the kernel answers EIO to every read and write of the partition's segment."""

    async def swap() -> None:
        fd = served.broker.partition(topic, partition).log.active.file.fd
        broken = os.open("/proc/self/mem", os.O_RDWR)
        os.dup2(broken, fd)
        os.close(broken)

    served.run(swap())


def assert_is_offline(wire: Wire, topic: str, partition: int) -> None:
    assert produce(wire, topic, batch("x"), partition).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert fetch(wire, topic, 0, partition).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert end_offset(wire, topic, partition)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    shown = metadata(wire, topic)[partition]
    assert (shown.error_code, shown.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert shown.offline_replicas == shown.replica_nodes


def assert_works(wire: Wire, topic: str, partition: int) -> None:
    answer = produce(wire, topic, batch("works"), partition)
    assert answer.error_code == ErrorCode.NONE
    assert values_in(fetch(wire, topic, answer.base_offset, partition).records) == ["works"]
    assert end_offset(wire, topic, partition) == (ErrorCode.NONE, answer.base_offset + 1)
    assert metadata(wire, topic)[partition].error_code == ErrorCode.NONE


def test_a_disk_that_fails_takes_its_partitions_offline_and_the_broker_goes_on_with_the_others(
    serve: Serve, disks: list[str]
) -> None:
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 4)
    home = homes(disks, "t")
    lost, kept = ([index for index in range(4) if home[index] == disk] for disk in (1, 0))
    assert (len(lost), len(kept)) == (2, 2)
    for index in range(4):
        assert_works(wire, "t", index)
    break_file(served, "t", lost[0])
    assert produce(wire, "t", batch("x"), lost[0]).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    for index in lost:
        assert_is_offline(wire, "t", index)
    for index in kept:
        assert_works(wire, "t", index)
    wire.create("new", 2)
    assert set(homes(disks, "new").values()) == {0}
    served.restart()
    wire = served.wire()
    for index in range(4):
        assert end_offset(wire, "t", index)[1] == (1 if index in lost else 2)
        assert_works(wire, "t", index)


def test_when_the_last_disk_fails_the_broker_is_told_to_stop(serve: Serve) -> None:
    served = serve()
    wire = served.wire()
    wire.create("t", 1)
    assert_works(wire, "t", 0)
    told: list[bool] = []
    served.broker.disks.on_last_failure = lambda: told.append(True)
    break_file(served, "t", 0)
    assert_is_offline(wire, "t", 0)
    assert told
    assert served.broker.disks.all_failed


def test_a_reader_that_waits_learns_at_once_that_its_partition_is_offline(
    serve: Serve, disks: list[str], until: Callable[..., Any]
) -> None:
    served = serve(log_dirs=disks)
    wire, other = served.wire(), served.wire()
    wire.create("t", 1)
    assert_works(wire, "t", 0)
    asked = wire.send(fetch_request(("t", 0, 1), max_wait_ms=15_000), 12)
    until(lambda: served.broker.partition("t", 0).waiters)
    break_file(served, "t", 0)
    assert produce(other, "t", batch("x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (response,) = wire.receive("Fetch", 12, asked).responses
    assert response.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_disk_that_is_bad_at_start_is_left_out_and_its_partitions_come_back_with_it(
    serve: Serve, disks: list[str]
) -> None:
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 2)
    for index in range(2):
        assert_works(wire, "t", index)
    home = homes(disks, "t")
    served.stop()
    hidden = Path(disks[1]).rename(disks[1] + "-unplugged")
    Path(disks[1]).write_text("not a directory")
    served.start()
    wire = served.wire()
    for index in range(2):
        (assert_is_offline if home[index] == 1 else assert_works)(wire, "t", index)
    served.stop()
    Path(disks[1]).unlink()
    hidden.rename(disks[1])
    served.start()
    for index in range(2):
        assert_works(served.wire(), "t", index)


@pytest.mark.parametrize("text", [b"", b"\xff\xfe\x00garbage", b"hello = world\n"], ids=["empty", "bytes", "other"])
def test_a_directory_that_does_not_say_whose_it_is_is_not_used(serve: Serve, disks: list[str], text: bytes) -> None:
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 2)
    home = homes(disks, "t")
    served.stop()
    meta = Path(disks[1]) / "meta.properties"
    kept = meta.read_bytes()
    meta.write_bytes(text)
    served.start()
    wire = served.wire()
    for index in range(2):
        (assert_is_offline if home[index] == 1 else assert_works)(wire, "t", index)
    served.stop()
    meta.write_bytes(kept)
    served.start()


def test_a_broker_does_not_start_without_its_first_directory(disks: list[str]) -> None:
    Path(disks[0]).mkdir()
    (Path(disks[0]) / "meta.properties").write_text("nothing")
    broker = Broker(BrokerConfig(log_dirs=disks, listeners=["PLAINTEXT://127.0.0.1:0"]))
    with pytest.raises(DamagedDirectory, match="does not say whose directory it is"):
        broker.logs.lock(None, 1)


def test_damage_of_flushed_records_takes_one_partition_offline_and_nothing_else(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    wire = served.wire()
    wire.create("t", 2)
    for index in range(2):
        for _ in range(3):
            assert_works(wire, "t", index)
    served.stop()
    path = tmp_path / "data-0" / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[16] = 9  # the first batch's format
    path.write_bytes(data)
    served.start()
    wire = served.wire()
    assert_is_offline(wire, "t", 0)
    assert_works(wire, "t", 1)
    assert path.read_bytes() == data
    served.stop()
    data[16] = 2  # repaired by hand
    path.write_bytes(data)
    served.start()
    assert_works(served.wire(), "t", 0)


# -- a full disk -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(directory: Path) -> Path:
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass
    return ballast


def test_a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself(small_disk: Path, serve: Serve) -> None:
    served = serve(log_dirs=[str(small_disk)], log_segment_bytes=100_000)
    wire = served.wire()
    wire.create("t", 2)
    acknowledged: list[str] = []

    def send(partition: int = 0) -> int:
        value = f"{len(acknowledged):05}" * 800
        answer = produce(wire, "t", batch(value, producer_id=-1), partition)
        if answer.error_code == ErrorCode.NONE and partition == 0:
            acknowledged.append(value)
        return int(answer.error_code)

    for _ in range(60):  # through two rolls
        assert send() == ErrorCode.NONE
    for _ in range(3):
        ballast = fill(small_disk)
        codes = [send() for _ in range(30)]
        assert codes[-1] == ErrorCode.KAFKA_STORAGE_ERROR
        assert set(codes) <= {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
        for write in (served.broker.logs.write_recovery_points, served.broker.logs.write_high_watermarks):
            try:
                write()
            except OSError:
                pass
        new = CreateTopicsRequest.Topic(name="more", num_partitions=9, replication_factor=1)
        (made,) = wire.call(CreateTopicsRequest(topics=[new]), 7).topics
        assert made.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert everything(wire) == acknowledged
        assert end_offset(wire, "t", 0) == (ErrorCode.NONE, len(acknowledged))
        ballast.unlink()
        for _ in range(40):
            assert send() == ErrorCode.NONE
        assert everything(wire) == acknowledged
        assert metadata(wire, "t")[0].error_code == ErrorCode.NONE
    wire.create("later", 1)
    assert_works(wire, "later", 0)
    served.restart()
    assert everything(served.wire()) == acknowledged
    ballast = fill(small_disk)
    served.stop()
    ballast.unlink()
    wire = served.start().wire()
    assert everything(wire) == acknowledged
    assert_works(wire, "t", 1)


def everything(wire: Wire) -> list[str]:
    found: list[str] = []
    while values := values_in(fetch(wire, "t", len(found)).records):
        found += values
    return found
