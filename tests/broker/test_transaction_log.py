"""The log of the transaction coordinator: refused writes, failing disks, flushes that take their time, loading."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.controller.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.groups.records import Committed, offset_key, offset_value
from ottla.protocol import messages as m
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import TransactionLogValue
from ottla.protocol.records import Record, build_batch
from ottla.transactions import records
from ottla.transactions.states import EMPTY, PREPARE_COMMIT
from support.group_wire import fetch as fetch_offsets
from support.group_wire import find_coordinator as find_group_coordinator
from support.requests import batch, produce_request
from support.transaction_log import state, write_states
from support.transactional import (
    Producer,
    begun,
    configure,
    delete_topic,
    end_offset,
    listed,
    patiently,
    read_committed,
    state_of,
)

Serve = Callable[..., Any]
Until = Callable[[Callable[[], Any]], Any]

FEW = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}


# -- what cannot be written ----------------------------------------------------------------------------------------


def test_what_cannot_be_written_is_refused_and_forgotten(serve: Serve) -> None:
    wire = serve(**FEW).wire()
    wire.create("t")
    one = begun(wire)
    configure(wire, TRANSACTION_STATE, "min.insync.replicas", "2")
    assert one.send("t", "x") == "NOT_ENOUGH_REPLICAS"
    assert end_offset(wire, "t", committed=False) == 0
    patiently(lambda: state_of(wire, one.id), ("COORDINATOR_LOAD_IN_PROGRESS",))
    assert state_of(wire, one.id) == "Empty"
    configure(wire, TRANSACTION_STATE, "min.insync.replicas", None)
    assert patiently(lambda: one.send("t", "x")) == "NONE"
    configure(wire, TRANSACTION_STATE, "min.insync.replicas", "2")
    assert one.end() == "COORDINATOR_NOT_AVAILABLE"
    assert end_offset(wire, "t") == 0
    configure(wire, TRANSACTION_STATE, "min.insync.replicas", None)
    assert one.commit() == "NONE"
    assert read_committed(wire, "t") == (["x"], 2)


def test_a_coordinator_whose_end_cannot_be_written_does_not_keep_the_broker_busy(serve: Serve) -> None:
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t")
    one = begun(wire)
    assert one.send("t", "x") == "NONE"
    partitions = [TransactionLogValue.Partitions(topic="t", partition_ids=[0])]
    configure(wire, TRANSACTION_STATE, "min.insync.replicas", "2")

    async def prepare() -> None:
        value = state(one.pid, 1, PREPARE_COMMIT, transaction_partitions=partitions)
        partition = served.broker.partition(TRANSACTION_STATE, 0)
        data = build_batch([Record(0, 5, records.key_of("id"), records.value_of(value))])
        partition.append(memoryview(data), 5, all_replicas=False, zstd=True, by_broker=True)

    served.run(prepare())
    served.restart()
    wire = one.wire = served.wire()
    patiently(lambda: end_offset(wire, "t", committed=False) > 2, (False,))  # it has tried twice
    for _ in range(20):
        wire.call(m.MetadataRequest(topics=None), 12)
    assert end_offset(wire, "t", committed=False) < 8
    configure(wire, TRANSACTION_STATE, "min.insync.replicas", None)
    assert one.commit(epoch=0) == "NONE"
    assert read_committed(wire, "t")[0] == ["x"]


def break_file(served: Any, topic: str) -> None:
    """From now on the kernel answers EIO to every read and write of the last segment."""

    async def swap() -> None:
        fd = served.broker.partition(topic, 0).log.active.file.fd
        broken = os.open("/proc/self/mem", os.O_RDWR)
        os.dup2(broken, fd)
        os.close(broken)

    served.run(swap())


def test_a_disk_that_fails_under_the_coordinator_takes_its_ids_away_until_it_is_back(
    serve: Serve, tmp_path: Any
) -> None:
    served = serve(**FEW, log_dirs=[str(tmp_path / "a"), str(tmp_path / "b")])
    wire = served.wire()
    for name in ("t", "u"):
        wire.create(name)
    one = begun(wire)
    home = {path.name: path.parent.name for path in tmp_path.glob("[ab]/*-0")}
    data = next((topic for topic in ("t", "u") if home[f"{topic}-0"] != home[f"{TRANSACTION_STATE}-0"]), None)
    if data is None:
        pytest.skip("everything lies on the same disk")
    assert one.send(data, "x") == "NONE"
    break_file(served, TRANSACTION_STATE)
    assert one.end() == "NOT_COORDINATOR"
    assert one.end() == "NOT_COORDINATOR"
    assert one.add((data, 0)) == "NOT_COORDINATOR"
    assert one.send(data, "y") == "NONE"
    assert end_offset(wire, data) == 0
    assert listed(wire) == {}
    served.restart()
    one.wire = served.wire()
    assert one.commit() == "NONE"
    assert read_committed(one.wire, data) == (["x", "y"], 3)


def test_markers_wait_for_a_partition_whose_disk_has_failed(serve: Serve, tmp_path: Any, until: Until) -> None:
    served = serve(**FEW, log_dirs=[str(tmp_path / "a"), str(tmp_path / "b")])
    wire = served.wire()
    one = begun(wire)
    wire.create("t", 2)
    home = {path.name: path.parent.name for path in tmp_path.glob("[ab]/*-[01]")}
    lost = next(index for index in (0, 1) if home[f"t-{index}"] != home[f"{TRANSACTION_STATE}-0"])
    for index in (0, 1):
        assert one.send("t", "x", partition=index) == "NONE"

    async def swap() -> None:
        fd = served.broker.partition("t", lost).log.active.file.fd
        broken = os.open("/proc/self/mem", os.O_RDWR)
        os.dup2(broken, fd)
        os.close(broken)

    served.run(swap())
    assert one.end() == "NONE"
    assert state_of(wire, one.id) == "PrepareCommit"
    assert one.send("t", "y", partition=1 - lost) == "CONCURRENT_TRANSACTIONS"
    assert one.end(False) == "CONCURRENT_TRANSACTIONS"
    served.restart()
    one.wire = served.wire()
    until(lambda: state_of(one.wire, one.id) == "CompleteCommit")
    for index in (0, 1):
        assert read_committed(one.wire, "t", index)[0] == ["x"]


# -- the disk is waited for ----------------------------------------------------------------------------------------


def test_where_topics_ask_for_flushes_the_end_waits_for_them(serve: Serve) -> None:
    served = serve(**FEW, log_flush_interval_messages=1)
    wire = served.wire()
    wire.create("t", 2)
    find_group_coordinator(wire, "g")
    one = begun(wire)
    for number in range(3):
        for index in (0, 1):
            assert patiently(lambda n=number, i=index: one.send("t", f"{n}", partition=i)) == "NONE"
        assert patiently(lambda n=number: one.commit_offsets("g", {("t", 0): n})) == "NONE"
        assert one.commit() == "NONE"
    assert read_committed(wire, "t")[0] == ["0", "1", "2"]
    assert fetch_offsets(wire, "g", ("t", 0))[0][2] == 2


def test_no_batch_is_written_before_its_partition_is_known_to_be_in_the_transaction(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(**FEW, log_flush_interval_messages=1)
    wire = served.wire()
    wire.create("t", configs={"flush.messages": "1000000"})
    one = begun(wire)
    gate = threading.Event()
    synced = os.fdatasync

    def slow(fd: int) -> None:
        gate.wait(20)
        synced(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    monkeypatch.setattr(os, "fsync", slow)
    who = {"producer_id": one.pid, "producer_epoch": one.epoch, "transactional": True}
    hasty = [Producer(served.wire(), one.id) for _ in range(2)]
    sent = []
    for sequence, each in enumerate(hasty):
        request = produce_request(("t", 0, batch(f"{sequence}", base_sequence=sequence, **who)), acks=-1)
        request.transactional_id = one.id
        sent.append(each.wire.send(request, 12))
        patiently(lambda: state_of(wire, one.id), ("Empty",))
    assert wire.call(m.MetadataRequest(topics=None), 12).topics
    assert end_offset(wire, "t", committed=False) == 0
    gate.set()
    for each, id in zip(hasty, sent, strict=True):
        (answer,) = each.wire.receive("Produce", 12, id).responses[0].partition_responses
        assert answer.error_code == 0
    assert one.commit() == "NONE"
    assert read_committed(wire, "t")[0] == ["0", "1"]


def test_an_end_that_is_committed_late_is_carried_out_all_the_same(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(**FEW, log_flush_interval_messages=1, offsets_commit_timeout_ms=50)
    wire = served.wire()
    wire.create("t", configs={"flush.messages": "1000000"})
    one = begun(wire)
    assert one.send("t", "x") == "NONE"
    gate = threading.Event()
    synced = os.fdatasync

    def slow(fd: int) -> None:
        gate.wait(20)
        synced(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    monkeypatch.setattr(os, "fsync", slow)
    assert one.end() == "COORDINATOR_NOT_AVAILABLE"
    assert end_offset(wire, "t") == 0
    gate.set()
    patiently(lambda: end_offset(wire, "t"), (0,))
    assert one.commit() == "NONE"
    assert read_committed(wire, "t")[0] == ["x"]


def test_a_batch_that_waits_for_a_thread_is_asked_for_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """In version 1, nothing but the coordinator tells a batch that comes too late from one in time."""
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t", configs={"cleanup.policy": "compact"})
    one = begun(wire, version=1)
    one.begin(("t", 0))
    waits, gate = threading.Event(), threading.Event()
    partition = served.broker.partition("t", 0)
    prepare = type(partition).prepare

    def slow(self: Any, data: Any) -> Any:
        waits.set()
        gate.wait(20)
        return prepare(self, data)

    monkeypatch.setattr(type(partition), "prepare", slow)
    answers = []
    late = Producer(served.wire(), one.id, version=1)
    late.pid, late.epoch = one.pid, one.epoch
    large = threading.Thread(target=lambda: answers.append(late.send("t", "x" * 100_000)))
    large.start()
    assert waits.wait(20)
    assert one.commit() == "NONE"
    gate.set()
    large.join()
    assert answers == ["INVALID_TXN_STATE"]
    assert end_offset(wire, "t") == end_offset(wire, "t", committed=False) == 1


# -- loading -------------------------------------------------------------------------------------------------------


def test_while_the_log_is_read_back_producers_are_told_to_wait(serve: Serve) -> None:
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t")
    one = begun(wire)
    assert one.send("t", "x") == "NONE"
    write_states(served, *((f"id-{at}", state(10_000 + at, 0, EMPTY)) for at in range(5000)))
    served.stop()
    seen: list[Any] = []

    async def start() -> Any:
        made = await make()
        transactions = made.transactions
        seen.append(transactions.find(one.id))
        seen.append(transactions.verify(one.id, (one.pid, one.epoch), ("t", 0)))
        transactions.end(one.id, (one.pid, 0), commit=True, version=2, to=lambda answer: seen.append(answer.code))
        transactions.init(one.id, 1000, None, lambda answer: seen.append(answer.code))
        seen.append(transactions.shards.is_loading)
        return made

    make, served._make = served._make, start
    served.start()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert seen == [loading] * 4 + [True]
    one.wire = served.wire()
    assert patiently(lambda: one.end()) == "NONE"
    assert read_committed(one.wire, "t")[0] == ["x"]
    assert len(listed(one.wire)) == 5001


def test_offsets_of_a_transaction_that_ends_while_groups_are_loaded_are_not_forgotten(serve: Serve) -> None:
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t", 8)
    find_group_coordinator(wire, "g")
    one = begun(wire)
    assert one.commit_offsets("g", {("t", 7): 42}) == "NONE"

    async def fill() -> None:
        partition = served.broker.partition(CONSUMER_OFFSETS, 0)
        for start in range(0, 20_000, 5000):
            made = [
                Record(at, 5, offset_key(f"g-{start + at}", "t", 1), offset_value(Committed(1, -1, "", 1 << 50)))
                for at in range(5000)
            ]
            partition.append(memoryview(build_batch(made)), 5, all_replicas=True, zstd=True, by_broker=True)

    served.run(fill())
    served.stop()
    seen: list[str] = []

    async def start() -> Any:
        made = await make()
        shard = made.groups.shards.at(0)
        while made.transactions.shards.is_loading:  # noqa: ASYNC110  what is waited for has no event of its own
            await asyncio.sleep(0)
        while len(shard.groups) < 1000:  # noqa: ASYNC110  the log is read, and what was in it is being taken in
            await asyncio.sleep(0)
        seen.append(shard.state)
        made.transactions.end(one.id, (one.pid, one.epoch), commit=True, version=2, to=lambda answer: None)
        return made

    make, served._make = served._make, start
    served.start()
    assert seen == ["loading"]
    wire = served.wire()
    patiently(lambda: fetch_offsets(wire, "g", ("t", 7))[0], (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,))
    (answer,) = fetch_offsets(wire, "g", ("t", 7), version=9, require_stable=True)
    assert (answer[2], answer[5]) == (42, ErrorCode.NONE)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_that_are_held_back_outlive_a_restart(serve: Serve, commit: bool) -> None:
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t", 2)
    find_group_coordinator(wire, "g")
    one, two = begun(wire), begun(wire, "two")
    assert one.commit_offsets("g", {("t", 0): 1, ("t", 1): 1}) == "NONE"
    assert two.commit_offsets("g", {("t", 0): 2}) == "NONE"
    served.restart()
    one.wire = two.wire = wire = served.wire()
    (answer,) = patiently(
        lambda: fetch_offsets(wire, "g", ("t", 0), version=9, require_stable=True),
        ([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],),
    )
    assert answer[5] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert two.end(commit) == "NONE"
    assert one.end(True) == "NONE"
    wanted = [2 if commit else 1, 1]
    assert [one[2] for one in fetch_offsets(wire, "g", ("t", 0), ("t", 1))] == wanted
    served.restart()
    wire = served.wire()
    found = patiently(
        lambda: fetch_offsets(wire, "g", ("t", 0), ("t", 1), version=9, require_stable=True),
        ([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],),
    )
    assert [(one[2], one[5]) for one in found] == [(offset, ErrorCode.NONE) for offset in wanted]


def test_what_was_deleted_does_not_come_back_with_a_commit_after_a_restart(serve: Serve) -> None:
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t")
    wire.create("u")
    find_group_coordinator(wire, "g")
    one = begun(wire)
    assert one.commit_offsets("g", {("t", 0): 1, ("u", 0): 1}) == "NONE"
    delete_topic(wire, "u")
    assert wire.call(m.DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == 0
    served.restart()
    one.wire = served.wire()
    assert patiently(one.end) == "NONE"
    wire = served.wire()
    found = patiently(lambda: fetch_offsets(wire, "g"), ([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],))
    assert found == []
    served.restart()
    wire = served.wire()
    found = patiently(lambda: fetch_offsets(wire, "g"), ([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],))
    assert found == []
