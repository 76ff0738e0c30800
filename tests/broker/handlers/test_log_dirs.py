"""DescribeLogDirs through the wire, in every version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.requests import batch, produce


def describe(wire, topics=None, version=5):
    Topic = messages.DescribeLogDirsRequest.Topic
    named = None if topics is None else [Topic(topic=name, partitions=which) for name, which in topics]
    reply = wire.call(messages.DescribeLogDirsRequest(topics=named), version)
    assert reply.error_code == 0
    return {one.log_dir: one for one in reply.results}


def logs(directory):
    """(topic, partition): (size, lag, is_future)"""
    return {
        (topic.name, one.partition_index): (one.partition_size, one.offset_lag, one.is_future_key)
        for topic in directory.topics
        for one in topic.partitions
    }


@pytest.fixture
def disks(tmp_path):
    return [str(tmp_path / "disk-a"), str(tmp_path / "disk-b")]


@pytest.mark.parametrize("version", range(6))
def test_directories_tell_which_logs_they_have_and_how_large_they_are(serve, disks, version):
    wire = serve(log_dirs=disks).wire()
    wire.create("t", 2)
    wire.create("other", 2)
    data = batch("x" * 1000)
    for _ in range(3):
        produce(wire, "t", data, 0)
    found = describe(wire, version=version)
    assert list(found) == disks
    assert logs(found[disks[0]]) | logs(found[disks[1]]) == {
        ("t", 0): (3 * len(data), 0, False),
        ("t", 1): (0, 0, False),
        ("other", 0): (0, 0, False),
        ("other", 1): (0, 0, False),
    }
    assert logs(found[disks[0]]).keys() == {
        (path.name.rpartition("-")[0], int(path.name[-1])) for path in Path(disks[0]).glob("*-[01]")
    }
    for path, one in found.items():
        assert one.error_code == 0
        if version >= 4:
            total, _, free = shutil.disk_usage(path)
            assert one.total_bytes == total
            assert abs(one.usable_bytes - free) < total / 10
        else:
            assert (one.total_bytes, one.usable_bytes) == (-1, -1)
        assert one.is_cordoned is False


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([("t", [1])], {("t", 1)}),
        ([("t", [0, 1, 7]), ("no", [0])], {("t", 0), ("t", 1)}),
        ([("t", [])], set()),
        ([], set()),
    ],
)
def test_only_what_was_asked_for_is_told(wire, asked, told):
    wire.create("t", 2)
    (directory,) = describe(wire, asked).values()
    assert logs(directory).keys() == told


def test_a_directory_that_failed_says_so_and_the_other_goes_on(serve, disks):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 2)

    async def fail():
        served.broker.disks._fail(served.broker.logs.directories[1], OSError(5, "Input/output error"))

    served.run(fail())
    for version in range(6):
        found = describe(wire, version=version)
        assert [one.error_code for one in found.values()] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
        assert len(logs(found[disks[0]])) == 1
        assert logs(found[disks[1]]) == {}


def test_a_relative_directory_is_told_by_its_whole_path(serve, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert list(describe(serve(log_dirs=["here"]).wire())) == [str(tmp_path / "here")]
