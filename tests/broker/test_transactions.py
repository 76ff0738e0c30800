"""Transactions in a broker: time, restarts, loading, refused writes, disks, compaction, epochs that run out."""

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
from ottla.protocol.batch import iter_batches
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import TransactionLogValue
from ottla.protocol.records import Record, build_batch, iter_records
from ottla.transactions import records
from ottla.transactions.states import COMPLETE_COMMIT, EMPTY, PREPARE_COMMIT
from support.group_wire import fetch as fetch_offsets
from support.group_wire import find_coordinator as find_group_coordinator
from support.requests import batch, now_ms
from support.requests import fetch as fetch_records
from support.transactional import (
    Producer,
    describe,
    end_offset,
    find_coordinator,
    listed,
    patiently,
    producers,
    read_committed,
    state_of,
    write_marker,
)

Serve = Callable[..., Any]
Until = Callable[[Callable[[], Any]], Any]

FEW = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}
LAST_EPOCH = 32_766


def begun(wire: Any, id: str = "id", **options: Any) -> Producer:
    one = Producer(wire, id, **options)
    find_coordinator(wire, id)
    assert one.init() == "NONE"
    return one


def configure(wire: Any, topic: str, key: str, value: str | None) -> None:
    """Give a topic a setting of its own, or take it away."""
    change = m.IncrementalAlterConfigsRequest.Config(name=key, config_operation=0 if value else 1, value=value)
    resource = m.IncrementalAlterConfigsRequest.Resource(resource_type=2, resource_name=topic, configs=[change])
    (answer,) = wire.call(m.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def delete(wire: Any, topic: str) -> None:
    topics = [m.DeleteTopicsRequest.Topic(name=topic)]
    (answer,) = wire.call(m.DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6).responses
    assert answer.error_code == 0, answer


def write_states(served: Any, *values: tuple[str, TransactionLogValue]) -> None:
    """Put records into the log of the coordinator, as another broker would have left them, and start anew."""

    async def append() -> None:
        made = [Record(at, 5, records.key_of(id), records.value_of(value)) for at, (id, value) in enumerate(values)]
        partition = served.broker.partition(TRANSACTION_STATE, 0)
        partition.append(memoryview(build_batch(made)), 5, all_replicas=True, zstd=True, by_broker=True)

    served.run(append())
    served.restart()


def state(producer_id: int, epoch: int, status: int, **more: Any) -> TransactionLogValue:
    return TransactionLogValue(
        **{
            "producer_id": producer_id,
            "previous_producer_id": -1,
            "next_producer_id": -1,
            "producer_epoch": epoch,
            "transaction_timeout_ms": 60_000,
            "transaction_status": status,
            "transaction_partitions": [],
            "transaction_last_update_timestamp_ms": 5,
            "transaction_start_timestamp_ms": 5,
            "client_transaction_version": 2,
            **more,
        }
    )


# -- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(serve: Serve, version: int) -> None:
    served = serve(**FEW, transaction_abort_timed_out_transaction_cleanup_interval_ms=20)
    wire = served.wire()
    wire.create("t")
    one = begun(wire, version=version)
    one.init(timeout_ms=100)
    patient = begun(wire, "patient")
    patient.send("t", "patient")
    one.begin(("t", 0))
    assert one.send("t", "lost") == "NONE"
    patiently(lambda: state_of(wire, one.id), ("Ongoing", "PrepareAbort"))
    assert state_of(wire, one.id) == "CompleteAbort"
    assert one.send("t", "late") == "INVALID_PRODUCER_EPOCH"
    assert one.add(("t", 0)) == "PRODUCER_FENCED"
    assert one.end() == "PRODUCER_FENCED"
    assert state_of(wire, patient.id) == "Ongoing"
    assert patient.commit() == "NONE"
    again = Producer(wire, one.id)
    assert again.init() == "NONE"
    assert again.send("t", "kept") == "NONE"
    assert again.commit() == "NONE"
    assert read_committed(wire, "t")[0] == ["patient", "kept"]


def test_an_id_that_nobody_uses_is_forgotten_and_begins_anew(serve: Serve, until: Until) -> None:
    settings = {
        "transactional_id_expiration_ms": 150,
        "transaction_remove_expired_transaction_cleanup_interval_ms": 20,
    }
    served = serve(**FEW, **settings)
    wire = served.wire()
    wire.create("t")
    open_one = begun(wire, "open")
    open_one.send("t", "x")
    one = begun(wire)
    until(lambda: state_of(wire, one.id) == "TRANSACTIONAL_ID_NOT_FOUND")
    assert one.send("t", "x") == "INVALID_PRODUCER_ID_MAPPING"
    assert one.end(False) == "INVALID_PRODUCER_ID_MAPPING"
    was = one.pid
    assert one.init(expected=(one.pid, one.epoch)) == "NONE"
    assert one.pid != was
    assert one.epoch == 0
    assert state_of(wire, "open") == "Ongoing"
    until(lambda: listed(wire) == {"open": "Ongoing"})
    served.restart()
    assert listed(served.wire()) == {"open": "Ongoing"}


# -- epochs --------------------------------------------------------------------------------------------------------


def test_when_epochs_run_out_the_end_brings_a_new_producer_id(serve: Serve) -> None:
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t")
    begun(wire)
    write_states(served, ("id", state(4711, LAST_EPOCH, COMPLETE_COMMIT)))
    one = Producer(served.wire(), "id")
    one.pid, one.epoch = 4711, LAST_EPOCH
    assert patiently(lambda: one.send("t", "last")) == "NONE"
    assert one.commit() == "NONE"
    assert (one.pid != 4711, one.epoch) == (True, 0)
    fresh = one.pid
    assert one.commit(pid=4711, epoch=LAST_EPOCH) == "NONE", "the answer was lost"
    assert (one.pid, one.epoch) == (fresh, 0)
    assert one.send("t", "late", pid=4711, epoch=LAST_EPOCH, sequence=1) == "INVALID_PRODUCER_ID_MAPPING"
    assert one.send("t", "first") == "NONE"
    assert one.abort() == "NONE"
    assert (one.pid, one.epoch) == (fresh, 1)
    assert read_committed(served.wire(), "t") == (["last"], 4)
    known = producers(served.wire(), "t")
    assert known[4711].producer_epoch == 32_767


def test_a_crash_while_epochs_run_out_ends_with_the_same_new_producer_id(serve: Serve) -> None:
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t")
    begun(wire)
    partitions = [TransactionLogValue.Partitions(topic="t", partition_ids=[0])]
    prepared = state(4711, 32_767, PREPARE_COMMIT, next_producer_id=5000, transaction_partitions=partitions)
    write_states(served, ("id", prepared))
    one = Producer(served.wire(), "id")
    one.pid, one.epoch = 4711, LAST_EPOCH
    assert one.commit() == "NONE"
    assert (one.pid, one.epoch) == (5000, 0)
    assert end_offset(one.wire, "t") == 1


def test_a_producer_that_comes_with_the_last_epoch_gets_a_new_producer_id(serve: Serve) -> None:
    served = serve(**FEW)
    begun(served.wire())
    values = {f"id-{at}": state(4000 + at, LAST_EPOCH, EMPTY) for at in range(3)}
    write_states(served, *values.items())
    plain, knowing, open_one = (Producer(served.wire(), id) for id in values)
    served.wire().create("t")
    assert plain.init() == "NONE"
    assert (plain.pid not in (4000, 4001, 4002), plain.epoch) == (True, 0)
    assert knowing.init(expected=(4001, LAST_EPOCH)) == "NONE"
    given = knowing.pid, knowing.epoch
    assert (given[0] != 4001, given[1]) == (True, 0)
    assert knowing.init(expected=(4001, LAST_EPOCH)) == "NONE", "the answer was lost"
    assert (knowing.pid, knowing.epoch) == given
    open_one.pid, open_one.epoch = 4002, LAST_EPOCH
    assert open_one.send("t", "x") == "NONE"
    assert Producer(served.wire(), open_one.id).init() == "NONE"
    assert open_one.end() == "INVALID_PRODUCER_ID_MAPPING"
    assert read_committed(served.wire(), "t") == ([], 2)


# -- topics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_deleted_in_a_transaction_does_not_keep_it_from_ending(serve: Serve, again: bool) -> None:
    wire = serve(**FEW).wire()
    wire.create("t")
    wire.create("u")
    one = begun(wire)
    assert one.send("t", "gone") == "NONE"
    assert one.send("u", "kept") == "NONE"
    delete(wire, "t")
    assert one.send("t", "x") == "UNKNOWN_TOPIC_OR_PARTITION"
    if again:
        wire.create("t")
    assert one.commit() == "NONE"
    assert read_committed(wire, "u") == (["kept"], 2)
    assert one.send("u", "next") == "NONE"
    assert one.commit() == "NONE"
    if again:
        assert read_committed(wire, "t")[0] == []
        assert one.send("t", "new") == "NONE"
        assert one.commit() == "NONE"
        assert read_committed(wire, "t")[0] == ["new"]


def test_when_the_transaction_topic_is_deleted_ids_begin_anew(serve: Serve) -> None:
    wire = serve(**FEW).wire()
    wire.create("t")
    one = begun(wire)
    assert one.send("t", "x") == "NONE"
    delete(wire, TRANSACTION_STATE)
    assert one.end() == "NOT_COORDINATOR"
    assert one.send("t", "y") == "NONE", "its transaction is open there"
    find_coordinator(wire, one.id)
    assert one.end() == "INVALID_PRODUCER_ID_MAPPING"
    # what hangs can be seen, and ended by hand
    assert producers(wire, "t")[one.pid].current_txn_start_offset == 0
    assert state_of(wire, one.id) == "TRANSACTIONAL_ID_NOT_FOUND"
    assert write_marker(wire, "t", (one.pid, one.epoch)) == "NONE"
    assert read_committed(wire, "t") == ([], 3)


def test_a_transaction_that_hangs_can_be_found_and_ended(serve: Serve) -> None:
    """As the tools do it: producers of a partition, whose transactions no coordinator knows."""
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t")
    one = begun(wire)
    assert one.send("t", "fine") == "NONE"

    async def hang() -> None:
        lost = batch("hangs", producer_id=99, producer_epoch=3, base_sequence=0, transactional=True)
        served.broker.partition("t", 0).append(
            memoryview(bytearray(lost)), now_ms(), all_replicas=True, zstd=True, in_transaction=True
        )

    served.run(hang())
    running = {id: known for id, known in producers(wire, "t").items() if known.current_txn_start_offset >= 0}
    assert set(running) == {one.pid, 99}
    known_ids = {describe(wire, id).producer_id for id in listed(wire, producer_id_filters=list(running))}
    (hanging,) = set(running) - known_ids
    assert hanging == 99
    (mine,) = listed(wire, producer_id_filters=[one.pid])
    assert [(t.topic, list(t.partitions)) for t in describe(wire, mine).topics] == [("t", [0])]
    assert one.commit() == "NONE"
    assert end_offset(wire, "t") == 1
    known = running[99]
    assert write_marker(wire, "t", (99, known.producer_epoch), coordinator_epoch=known.coordinator_epoch) == "NONE"
    assert read_committed(wire, "t") == (["fine"], 4)


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
    delete(wire, "u")
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


# -- compaction and retention --------------------------------------------------------------------------------------


def contents(wire: Any, topic: str) -> list[tuple[str, str | None, str]]:
    """Kind, key and value of what lies in a log."""
    found, offset = [], 0
    while True:
        answer = fetch_records(wire, topic, offset)
        data = bytes(answer.records or b"")
        if not data:
            return found
        for position, header in iter_batches(data, partial=True):
            offset = header.next_offset
            for record in iter_records(data[position : position + header.size], 1 << 30):
                if header.is_control:
                    found.append(("marker", None, ""))
                else:
                    found.append(("data", (record.key or b"").decode(), (record.value or b"").decode()))


def test_compaction_leaves_committed_values_only_and_keeps_away_from_what_is_open(serve: Serve, until: Until) -> None:
    served = serve(**FEW, log_cleaner_backoff_ms=50, log_roll_ms=100)
    wire = served.wire()
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": "50",
        "file.delete.delay.ms": "0",
        "delete.retention.ms": "0",
    }
    wire.create("t", configs=configs)
    one, other = begun(wire), begun(wire, "other")

    def put(producer: Producer, key: str, value: str) -> None:
        assert patiently(lambda: producer.send("t", value, key=key.encode())) == "NONE"

    def write(key: str, value: str) -> None:
        wire.produce_batch("t", batch(value, key=key.encode()))

    def kept(key: str) -> list[str]:
        write("tick", "")  # rolls the segment
        return [value for kind, name, value in contents(wire, "t") if kind == "data" and name == key]

    put(one, "a", "old")
    one.commit()
    put(one, "a", "committed")
    put(one, "b", "committed")
    one.commit()
    put(one, "a", "aborted")
    put(one, "c", "aborted")
    one.abort()
    until(lambda: kept("a") == ["committed"] and kept("c") == [] and kept("b") == ["committed"])
    put(other, "a", "undecided")
    for number in range(20):
        put(one, "d", f"aborted {number}")
        one.abort()
    assert kept("a")[:1] == ["committed"], "the transaction that would replace it is open"
    assert [value for value in read_committed(wire, "t")[0] if value] == ["committed", "committed"]
    other.abort()
    until(lambda: kept("a") == ["committed"] and kept("d") == [])
    served.restart()
    wire = one.wire = other.wire = served.wire()
    values = [value for value in read_committed(wire, "t")[0] if value]
    assert values == ["committed", "committed"]
    put(other, "a", "newest")
    other.commit()
    until(lambda: kept("a") == ["newest"])
    # markers of transactions that nothing is left of go too
    until(lambda: (write("tick", ""), sum(kind == "marker" for kind, _, _ in contents(wire, "t")) < 10)[1])


def test_retention_takes_old_transactions_and_leaves_an_open_one_to_its_end(serve: Serve, until: Until) -> None:
    served = serve(**FEW, log_retention_check_interval_ms=50, log_initial_task_delay_ms=10)
    wire = served.wire()
    wire.create("t", configs={"segment.bytes": "1000", "retention.bytes": "3000", "file.delete.delay.ms": "0"})
    open_one, one = begun(wire, "open"), begun(wire)
    assert open_one.send("t", "open") == "NONE"
    for number in range(20):
        assert one.send("t", "x" * 400) == "NONE"
        assert one.end(number % 2 == 0) == "NONE"
    until(lambda: served.broker.partition("t", 0).log.start_offset > 5)
    start = served.broker.partition("t", 0).log.start_offset
    assert open_one.send("t", "late") == "NONE"
    assert open_one.commit() == "NONE"
    values, stable = read_committed(wire, "t", offset=start)
    assert values[-1] == "late"
    assert stable == end_offset(wire, "t", committed=False)
    served.restart()
    wire = served.wire()
    start = served.broker.partition("t", 0).log.start_offset
    assert read_committed(wire, "t", offset=start)[0][-1] == "late"
