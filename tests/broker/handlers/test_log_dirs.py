"""DescribeLogDirs and AlterReplicaLogDirs through the wire, in every version."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from ottla.broker import moves
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.storage.relocation import FutureLog
from support.requests import batch, fetch, produce, values_in
from support.settings import BROKER, SET, alter


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


# -- AlterReplicaLogDirs


def move(wire, *asked, version=2):
    """`asked`: (directory, topic, partitions); returns the errors by topic and partition."""
    Request = messages.AlterReplicaLogDirsRequest
    reply = wire.call(
        Request(
            dirs=[
                Request.Dir(path=path, topics=[Request.Topic(name=topic, partitions=which)])
                for path, topic, which in asked
            ]
        ),
        version,
    )
    return {
        (topic.topic_name, one.partition_index): ErrorCode(one.error_code).name
        for topic in reply.results
        for one in topic.partitions
    }


def place_of(disks, topic, index=0):
    """Which disk a partition's directory lies on; None while it lies on both."""
    found = [at for at, disk in enumerate(disks) if (Path(disk) / f"{topic}-{index}").is_dir()]
    return found[0] if len(found) == 1 else None


def other(disks, topic, index=0):
    return disks[1 - place_of(disks, topic, index)]


def leftovers(disks):
    return [path.name for disk in disks for path in Path(disk).glob("*-*[ey]") if not path.name.endswith("-delete")] + [
        str(path)
        for disk in disks
        for path in Path(disk).glob("*[!e]/moved-from")  # but not in what is being deleted
    ]


def is_idle(served):
    return not served.broker.moves._moves


@pytest.mark.parametrize("version", range(3))
def test_a_partition_moves_and_goes_on_there(serve, disks, until, version):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 1, {"file.delete.delay.ms": "0"})
    for value in ("a", "b"):
        produce(wire, "t", batch(value))
    there = other(disks, "t")
    assert move(wire, (there, "t", [0]), version=version) == {("t", 0): "NONE"}
    until(lambda: is_idle(served))
    assert other(disks, "t") != there
    found = describe(wire)
    assert [logs(found[disk]) for disk in disks if disk != there] == [{}]
    assert logs(found[there])["t", 0][1:] == (0, False)
    assert produce(wire, "t", batch("c")).base_offset == 2
    assert values_in(fetch(wire, "t", 0).records) == ["a", "b", "c"]
    assert leftovers(disks) == []
    served.restart()
    assert values_in(fetch(served.wire(), "t", 0).records) == ["a", "b", "c"]
    assert other(disks, "t") != there
    until(lambda: [path.name for disk in disks for path in Path(disk).glob("t-*")] == ["t-0"])


def test_what_cannot_be_moved_is_refused(serve, disks, tmp_path):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 2)
    here = disks[place_of(disks, "t")]
    long = "x" * 240
    wire.create(long)
    assert move(
        wire,
        (here, "t", [0, 5, -1]),
        (disks[0] + "/", "no", [0]),
        (str(tmp_path / "elsewhere"), "t", [1]),
        ("", "u", [0]),
        (disks[1], long, [0]),
    ) == {
        ("t", 0): "NONE",  # it is there
        ("t", 5): "UNKNOWN_TOPIC_OR_PARTITION",
        ("t", -1): "UNKNOWN_TOPIC_OR_PARTITION",
        ("no", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        ("t", 1): "LOG_DIR_NOT_FOUND",
        ("u", 0): "LOG_DIR_NOT_FOUND",
        (long, 0): "INVALID_TOPIC_EXCEPTION",
    }
    assert is_idle(served)
    assert leftovers(disks) == []


def test_nothing_moves_while_a_directory_is_missing(serve, disks, tmp_path):
    served = serve(log_dirs=[*disks, str(tmp_path / "disk-c")])
    wire = served.wire()
    wire.create("t", 3)

    async def fail():
        served.broker.disks._fail(served.broker.logs.directories[2], OSError(5, "Input/output error"))

    served.run(fail())
    (lost,) = [index for index in range(3) if place_of(disks, "t", index) is None]
    safe = (lost + 1) % 3
    assert move(wire, (disks[0], "t", [lost])) == {("t", lost): "KAFKA_STORAGE_ERROR"}
    assert move(wire, (str(tmp_path / "disk-c"), "t", [safe])) == {("t", safe): "KAFKA_STORAGE_ERROR"}
    assert move(wire, (other(disks, "t", safe), "t", [safe])) == {("t", safe): "KAFKA_STORAGE_ERROR"}


def test_a_partition_that_is_not_there_yet_is_made_where_it_was_wished(serve, disks):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wishes = [(disks[1], "t", [0, 1, 2]), (disks[0], "u", [0])]
    assert set(move(wire, *wishes).values()) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    wire.create("t", 3)
    wire.create("u", 1)
    assert [place_of(disks, "t", index) for index in range(3)] == [1, 1, 1]
    assert place_of(disks, "u") == 0


@pytest.fixture
def slow(serve, disks, until):
    """A broker that moves at most 100 kB per second, and a topic with far more."""
    served = serve(log_dirs=disks, replica_alter_log_dirs_io_max_bytes_per_second=100_000)
    wire = served.wire()
    wire.create("t", 1, {"segment.bytes": "200000", "file.delete.delay.ms": "0"})
    for _ in range(20):
        produce(wire, "t", batch(*["x" * 1000] * 50))
    return served


def futures(wire):
    return {path: found for path, one in describe(wire).items() if (found := [r for r in logs(one).values() if r[2]])}


def test_a_move_that_is_under_way_is_shown_with_its_lag(slow, disks, until):
    wire = slow.wire()
    there = other(disks, "t")
    move(wire, (there, "t", [0]))
    ((size, lag, _),) = futures(wire)[there]
    assert size < 1_000_000
    assert 0 < lag <= 1000
    assert move(wire, (there, "t", [0])) == {("t", 0): "NONE"}  # once more changes nothing
    until(lambda: futures(wire)[there][0][0] > 0 and futures(wire)[there][0][1] < 1000)
    assert [path.name[:4] for path in Path(there).glob("*-future")] == ["t-0."]


def test_a_wish_for_the_present_place_ends_a_move_without_a_trace(slow, disks, until):
    wire = slow.wire()
    there, here = other(disks, "t"), disks[place_of(disks, "t")]
    move(wire, (there, "t", [0]))
    until(lambda: list(Path(there).glob("*-future")))
    assert move(wire, (here, "t", [0])) == {("t", 0): "NONE"}
    until(lambda: is_idle(slow))
    assert futures(wire) == {}
    assert leftovers(disks) == []
    assert disks[place_of(disks, "t")] == here


@pytest.fixture
def held(slow):
    """The same broker, of which no thread is free to work on moves until the test is over."""
    slow.broker.moves._threads = ThreadPoolExecutor(1)
    over = Event()
    slow.broker.moves._threads.submit(over.wait)
    yield slow
    over.set()


def test_what_was_answered_is_on_disk_before_anything_is_copied(held, disks):
    wire = held.wire()
    there, here = other(disks, "t"), disks[place_of(disks, "t")]
    assert move(wire, (there, "t", [0])) == {("t", 0): "NONE"}
    assert [path.name[:4] for path in Path(there).glob("*-future")] == ["t-0."]
    assert list(futures(wire)) == [there]
    assert move(wire, (here, "t", [0])) == {("t", 0): "NONE"}
    assert list(Path(there).glob("*-future")) == []
    assert futures(wire) == {}
    assert move(wire, (there, "t", [0])) == {("t", 0): "NONE"}
    assert [path.name[:4] for path in Path(there).glob("*-future")] == ["t-0."]


def test_a_directory_that_takes_no_copy_is_told_at_once(serve, disks, until, monkeypatch):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 1)
    there = other(disks, "t")
    make = Path.mkdir

    def refuse(path, *arguments, **named):
        if path.name.endswith("-future"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        make(path, *arguments, **named)

    with monkeypatch.context() as full:
        full.setattr(Path, "mkdir", refuse)
        assert move(wire, (there, "t", [0])) == {("t", 0): "KAFKA_STORAGE_ERROR"}
    assert is_idle(served)
    assert futures(wire) == {}
    assert move(wire, (there, "t", [0])) == {("t", 0): "NONE"}
    until(lambda: is_idle(served) and other(disks, "t") != there)


def test_a_move_waits_for_a_start_that_finds_all_directories(slow, disks, until, tmp_path):
    there = other(disks, "t")
    away = str(tmp_path / "away")
    move(slow.wire(), (there, "t", [0]))
    slow.settings["log_dirs"] = [*disks, away]
    Path(away).write_text("not a directory")
    slow.restart()
    assert [path.name[:4] for path in Path(there).glob("*-future")] == ["t-0."]
    assert is_idle(slow)
    Path(away).unlink()
    slow.settings["replica_alter_log_dirs_io_max_bytes_per_second"] = 10**12
    slow.restart()
    until(lambda: is_idle(slow) and other(disks, "t") != there)
    assert leftovers(disks) == []


def test_a_copy_of_a_topic_that_is_gone_is_not_taken_for_one_of_its_namesake(slow, disks, until):
    there = other(disks, "t")
    slow.stop()
    stale = Path(there) / f"t-0.{'0' * 32}-future"
    stale.mkdir()
    (stale / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    slow.start()
    until(lambda: not list(Path(there).glob("t-0*")))
    assert is_idle(slow)


def test_a_topic_that_is_deleted_takes_its_copy_along(slow, disks, until):
    wire = slow.wire()
    there = other(disks, "t")
    move(wire, (there, "t", [0]))
    until(lambda: list(Path(there).glob("*-future")))
    reply = wire.call(messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
    assert reply.responses[0].error_code == 0
    until(lambda: not [path for disk in disks for path in Path(disk).glob("t-*")])
    assert leftovers(disks) == []


def test_a_move_that_a_stop_cut_short_begins_again(slow, disks, until):
    there = other(disks, "t")
    move(slow.wire(), (there, "t", [0]))
    until(lambda: list(Path(there).glob("*-future")))
    slow.settings["replica_alter_log_dirs_io_max_bytes_per_second"] = 10**12
    slow.restart()
    until(lambda: is_idle(slow) and other(disks, "t") != there)
    assert leftovers(disks) == []
    assert len(values_in(fetch(slow.wire(), "t", 0, partition_max_bytes=1 << 24).records)) >= 50


def test_a_new_limit_holds_at_once(slow, disks, until):
    wire = slow.wire()
    there = other(disks, "t")
    move(wire, (there, "t", [0]))
    until(lambda: list(Path(there).glob("*-future")))
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    assert alter(wire, BROKER, "0", (SET, key, "1000000000000")) == (0, None)
    until(lambda: is_idle(slow))
    assert other(disks, "t") != there


def test_another_destination_replaces_the_first(serve, disks, tmp_path, until):
    three = [*disks, str(tmp_path / "disk-c")]
    served = serve(log_dirs=three, replica_alter_log_dirs_io_max_bytes_per_second=50_000)
    wire = served.wire()
    wire.create("t", 1, {"segment.bytes": "100000"})
    for _ in range(10):
        produce(wire, "t", batch(*["x" * 1000] * 50))
    home = place_of(three, "t")
    first, second = (disk for at, disk in enumerate(three) if at != home)
    move(wire, (first, "t", [0]))
    until(lambda: list(Path(first).glob("*-future")))
    assert move(wire, (second, "t", [0])) == {("t", 0): "NONE"}
    assert list(futures(wire)) == [second]
    until(lambda: not list(Path(first).glob("t-*")))
    until(lambda: list(Path(second).glob("*-future")))


def test_a_log_that_grows_faster_than_its_copy_moves_nevertheless(serve, disks, until, monkeypatch):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 1, {"segment.bytes": "1000"})
    put_on_disk, rounds = FutureLog.put_on_disk, []

    def slowly(future, wanted):
        """So slowly that segments are complete again which the copy has not."""
        put_on_disk(future, wanted)
        rounds.append(len(wanted))
        for _ in range(3):
            produce(wire, "t", batch("x" * 600))

    monkeypatch.setattr(FutureLog, "put_on_disk", slowly)
    monkeypatch.setattr(moves, "PATIENCE", 5)
    there = other(disks, "t")
    assert move(served.wire(), (there, "t", [0])) == {("t", 0): "NONE"}
    until(lambda: is_idle(served))
    assert other(disks, "t") != there
    assert len(rounds) == 6
    assert produce(wire, "t", batch("last")).base_offset == 18


@pytest.mark.parametrize("flush_messages", ["1", "3"])
def test_a_topic_that_is_flushed_goes_on_being_flushed_where_it_went(serve, disks, until, flush_messages):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 1, {"flush.messages": flush_messages})
    for turn in range(4):
        move(wire, (disks[turn % 2], "t", [0]))
        while not is_idle(served):
            assert produce(wire, "t", batch("x"), acks=-1).error_code == 0
    end = produce(wire, "t", batch("last"), acks=-1).base_offset + 1
    assert served.broker.partition("t", 0).high_watermark == end
    assert served.broker.partition("t", 0).log.recovery_point > end - int(flush_messages)
    assert len(values_in(fetch(wire, "t", 0, partition_max_bytes=1 << 24).records)) == end


def test_a_deleted_beginning_stays_deleted_after_a_move_and_a_crash(serve, disks, until, tmp_path):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 1)
    for value in ("a", "b", "c"):
        produce(wire, "t", batch(value))
    Request = messages.DeleteRecordsRequest
    partition = Request.Partition(partition_index=0, offset=2)
    wire.call(Request(topics=[Request.Topic(name="t", partitions=[partition])], timeout_ms=10_000), 2)
    move(wire, (other(disks, "t"), "t", [0]))
    until(lambda: is_idle(served))
    copies = [str(tmp_path / "copy-a"), str(tmp_path / "copy-b")]  # as a killed broker would have left them
    for disk, copy in zip(disks, copies, strict=True):
        shutil.copytree(disk, copy)
    again = serve(log_dirs=copies)
    assert again.broker.partition("t", 0).log_start_offset == 2
    assert values_in(fetch(again.wire(), "t", 2).records) == ["c"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_destination_that_is_full_ends_the_move_and_takes_nothing_offline(serve, disks, until, monkeypatch, code):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 1)
    wire.create("neighbour", 2)
    produce(wire, "t", batch("x"))
    there = other(disks, "t")
    write = os.pwrite

    def refuse(fd, data, at):
        if "-future" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(code, os.strerror(code))
        return write(fd, data, at)

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", refuse)
        assert move(wire, (there, "t", [0])) == {("t", 0): "NONE"}
        until(lambda: is_idle(served))
    assert futures(wire) == {}
    assert leftovers(disks) == []
    assert all(one.error_code == 0 for one in describe(wire).values())
    assert produce(wire, "t", batch("y")).error_code == 0
    assert move(wire, (there, "t", [0])) == {("t", 0): "NONE"}
    until(lambda: is_idle(served) and other(disks, "t") != there)
    assert values_in(fetch(wire, "t", 0).records) == ["x", "y"]


def test_a_destination_that_breaks_fails_and_the_partition_stays(serve, disks, until, monkeypatch):
    served = serve(log_dirs=disks)
    wire = served.wire()
    wire.create("t", 2)
    mine = next(index for index in range(2) if place_of(disks, "t", index) == 0)
    write = os.pwrite

    def refuse(fd, data, at):
        if "-future" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return write(fd, data, at)

    produce(wire, "t", batch("x"), mine)
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", refuse)
        move(wire, (disks[1], "t", [mine]))
        until(lambda: served.broker.logs.directories[1].failure)
    until(lambda: is_idle(served))
    assert produce(wire, "t", batch("y"), mine).error_code == 0
    assert produce(wire, "t", batch("y"), 1 - mine).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values_in(fetch(wire, "t", 0, mine).records) == ["x", "y"]
