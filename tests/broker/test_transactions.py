"""Transactions in a broker: time that is up, epochs that run out, requests that come again, topics that go away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.names import TRANSACTION_STATE
from ottla.protocol import messages as m
from ottla.protocol.messages import TransactionLogValue
from ottla.transactions.states import COMPLETE_COMMIT, EMPTY, PREPARE_COMMIT
from support.group_wire import fetch as fetch_offsets
from support.group_wire import find_coordinator as find_group_coordinator
from support.requests import batch, fetch_request, now_ms
from support.transaction_log import state, write_states
from support.transactional import (
    READ_COMMITTED,
    Producer,
    begun,
    delete_topic,
    describe,
    end_offset,
    find_coordinator,
    listed,
    patiently,
    producers,
    read_committed,
    state_of,
    visible,
    write_marker,
)
from support.wire import Wire

Serve = Callable[..., Any]
Until = Callable[[Callable[[], Any]], Any]

FEW = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}
LAST_EPOCH = 32_766


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


# -- requests that come again or late ------------------------------------------------------------------------------


class Repeating(Wire):
    """Every request is sent twice, as if the first answer had been lost."""

    def call(self, request: Any, version: int) -> Any:
        super().call(request, version)
        return super().call(request, version)


@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_that_says_everything_twice_does_everything_once(serve: Serve, version: int) -> None:
    served = serve(**FEW)
    wire = served.wire()
    wire.create("t", 2)
    find_group_coordinator(wire, "g")
    find_coordinator(wire, "id")
    one = Producer(Repeating("127.0.0.1", served.port()), "id", version=version)
    assert one.init() == "NONE"
    for number, commit in enumerate((True, False, True)):
        if version == 1:
            one.begin(("t", 0), ("t", 1))
            assert one.add_offsets("g") == "NONE"
        for index in (0, 1):
            assert one.send("t", f"{number}", partition=index) == "NONE"
        assert one.commit_offsets("g", {("t", 0): number}, 5 if version == 2 else 3) == "NONE"
        assert one.end(commit) == "NONE"
    one.wire.close()
    assert read_committed(wire, "t", 0) == (["0", "2"], 6)
    assert read_committed(wire, "t", 1) == (["0", "2"], 6)
    assert fetch_offsets(wire, "g", ("t", 0))[0][2] == 2


class Remembering(Wire):
    """Sends old requests again, at moments that it is told: `late` are pairs of a request and an older one."""

    def __init__(self, port: int, late: set[tuple[int, int]]) -> None:
        super().__init__("127.0.0.1", port)
        self._late = late
        self._sent: list[tuple[Any, int]] = []

    def call(self, request: Any, version: int) -> Any:
        for now, older in sorted(self._late):
            if now == len(self._sent) and older < now:
                super().call(*self._sent[older])
        self._sent.append((request, version))
        return super().call(request, version)


@settings(max_examples=60)
@given(st.sets(st.tuples(st.integers(1, 14), st.integers(0, 13)), max_size=8))
def test_in_version_2_no_late_request_changes_anything(served_transactions: Any, late: set[tuple[int, int]]) -> None:
    wire = served_transactions.wire()
    topic = id = f"late-{uuid4().hex}"
    wire.create(topic, 2)
    find_group_coordinator(wire, id)
    one = begun(wire, id)
    one.wire = Remembering(served_transactions.port(), late)
    for number, commit in enumerate((True, False, True)):
        for index in (0, 1):
            assert one.send(topic, f"{number}", partition=index) == "NONE"
        assert one.commit_offsets(id, {(topic, 0): number}) == "NONE"
        assert one.end(commit) == "NONE"
    one.wire.close()
    for index in (0, 1):
        assert read_committed(wire, topic, index) == (["0", "2"], 6)
    assert fetch_offsets(wire, id, (topic, 0))[0][2] == 2
    assert state_of(wire, id) == "CompleteCommit"
    wire.close()


def test_positions_can_be_committed_before_any_group_was_there(serve: Serve) -> None:
    wire = serve(**FEW).wire()
    wire.create("t")
    one = begun(wire, version=1)
    assert one.add_offsets("g") == "NONE"
    find_group_coordinator(wire, "g")
    assert one.commit_offsets("g", {("t", 0): 5}, 3) == "NONE"
    assert one.commit() == "NONE"
    assert fetch_offsets(wire, "g", ("t", 0))[0][2] == 5


def test_two_phase_commit_is_not_offered(serve: Serve) -> None:
    wire = serve(**FEW).wire()
    find_coordinator(wire, "id")
    one = Producer(wire, "id")
    assert one.init(6, enable_2pc=True) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert one.init(6, keep_prepared_txn=True) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert one.init(6) == "NONE"


# -- topics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_deleted_in_a_transaction_does_not_keep_it_from_ending(serve: Serve, again: bool) -> None:
    wire = serve(**FEW).wire()
    wire.create("t")
    wire.create("u")
    one = begun(wire)
    assert one.send("t", "gone") == "NONE"
    assert one.send("u", "kept") == "NONE"
    delete_topic(wire, "t")
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
    delete_topic(wire, TRANSACTION_STATE)
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


# -- readers that wait ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_reader_of_committed_records_waits_for_the_end_of_the_transaction(serve: Serve, commit: bool) -> None:
    served = serve(**FEW)
    wire, reader = served.wire(), served.wire()
    wire.create("t")
    one = begun(wire)
    assert one.send("t", "a") == "NONE"
    waiting = reader.send(fetch_request(("t", 0, 0), max_wait_ms=15_000, isolation=READ_COMMITTED), 12)
    assert one.send("t", "b") == "NONE"
    assert wire.call(m.MetadataRequest(topics=None), 12).topics
    assert one.end(commit) == "NONE"
    (answer,) = reader.receive("Fetch", 12, waiting).responses[0].partitions
    assert visible(answer) == (["a", "b"] if commit else [])
    assert answer.last_stable_offset == 3
