"""Transactions in a log: what is decided, what was aborted, and that a restart of any kind knows both."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.protocol.batch import HEADER
from ottla.protocol.records import Record, build_batch
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.storage.producers import CoordinatorFenced, InvalidProducerEpoch, OutOfOrderSequence
from ottla.storage.transactions import AbortedTransaction, TransactionIndex, encode_txn_index, read_txn_index
from support.scribe import NOW, topic_config

EVERYTHING = 1 << 40


class Writer:
    """Producers with transactions on one log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.sequences: dict[int, int] = {}

    def write(self, producer_id: int, count: int = 1, epoch: int = 0, size: int = 10) -> int:
        first = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = first + count
        batch = build_batch(
            [Record(at, NOW, None, b"v" * size) for at in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=first,
            transactional=True,
        )
        assert self.log.producers.check(producer_id, epoch, first, first + count - 1) is None
        return self.log.append(batch, 0, HEADER.unpack_from(batch), NOW)

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        return self.log.append_marker(producer_id, epoch, 0, 0, commit=commit, now_ms=NOW)

    @property
    def stable(self) -> int:
        return self.log.producers.stable_below(self.log.end_offset)


@pytest.fixture
def log(tmp_path):
    made = Log(tmp_path / "t-0", topic_config())
    made.create()
    yield made
    made.abandon()


def reopened(log: Log, *, clean: bool) -> Log:
    if clean:
        log.close()
    else:
        log.abandon()
    again = Log(log.directory, log.config)
    again.open(clean=clean)
    return again


def aborted(log: Log, offset: int = 0, size: int = EVERYTHING) -> list[tuple[int, int, int]]:
    return [(one.producer_id, one.first_offset, one.last_offset) for one in log.aborted(offset, size)]


def end_of_segment(log: Log, offset: int) -> int:
    """No read goes beyond it."""
    return min((base for base in log.segment_base_offsets() if base > offset), default=log.end_offset)


def test_what_lies_behind_the_oldest_open_transaction_is_not_stable(log):
    writer = Writer(log)
    writer.write(1, 2)  # 0, 1
    writer.write(2)  # 2
    assert writer.stable == 0
    writer.end(1, commit=True)  # 3
    assert writer.stable == 2
    writer.write(1)  # 4
    writer.end(2, commit=False)  # 5
    assert writer.stable == 4
    writer.end(1, commit=True)
    assert writer.stable == log.end_offset == 7
    assert aborted(log) == [(2, 2, 5)]


def test_a_marker_counts_when_it_is_committed_itself(log):
    writer = Writer(log)
    writer.write(1)
    writer.end(1, commit=True)
    assert log.producers.stable_below(0) == 0
    assert log.producers.stable_below(1) == 0
    assert log.producers.stable_below(2) == 2


def test_a_marker_for_a_producer_without_a_transaction_changes_nothing_but_its_epoch(log):
    writer = Writer(log)
    writer.end(9, commit=False, epoch=3)
    assert writer.stable == 1
    assert aborted(log) == []
    with pytest.raises(InvalidProducerEpoch):
        log.producers.check(9, 2, 0, 0)
    with pytest.raises(OutOfOrderSequence):
        log.producers.check(9, 3, 5, 5)
    assert log.producers.check(9, 3, 0, 0) is None


def test_a_marker_with_a_newer_epoch_begins_sequences_anew_and_fences_the_old(log):
    writer = Writer(log)
    writer.write(1, 5)
    writer.end(1, commit=True, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        log.producers.check(1, 0, 5, 5)
    with pytest.raises(OutOfOrderSequence):
        log.producers.check(1, 1, 5, 5)
    writer.sequences[1] = 0
    assert writer.write(1, epoch=1) == 6


def test_markers_of_fenced_coordinators_and_producers_are_refused(log):
    writer = Writer(log)
    writer.write(1, epoch=4)
    log.append_marker(1, 4, 7, 0, commit=True, now_ms=NOW)
    log.producers.check_marker(1, 4, 7)
    with pytest.raises(CoordinatorFenced):
        log.producers.check_marker(1, 4, 6)
    with pytest.raises(InvalidProducerEpoch):
        log.producers.check_marker(1, 3, 7)
    log.producers.check_marker(2, 0, 0)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_knows_open_and_aborted_transactions(log, clean):
    writer = Writer(log)
    writer.write(1)  # 0
    writer.write(2)  # 1
    writer.end(1, commit=False)  # 2
    log.roll()
    writer.write(3)  # 3
    writer.end(3, commit=False)  # 4
    again = reopened(log, clean=clean)
    try:
        assert Writer(again).stable == 1
        assert aborted(again) == [(1, 0, 2)]
        assert aborted(again, 3) == [(3, 3, 4)]
        Writer(again).end(2, commit=True)
        assert Writer(again).stable == again.end_offset
    finally:
        again.abandon()


def test_an_index_of_aborted_transactions_that_is_lost_or_wrong_is_made_anew_after_a_crash(log):
    writer = Writer(log)
    writer.write(1)
    writer.end(1, commit=False)
    (path,) = log.directory.glob("*.txnindex")
    good = path.read_bytes()
    for damage in (b"", good + good, good[:10], good + b"torn"):
        path.write_bytes(damage)
        again = reopened(log, clean=False)
        assert aborted(again) == [(1, 0, 1)]
        again.abandon()
        assert path.read_bytes() == good
        log = again


def test_truncation_opens_a_transaction_again_whose_marker_goes(log):
    writer = Writer(log)
    writer.write(1)  # 0
    writer.end(1, commit=False)  # 1
    writer.write(1)  # 2
    writer.end(1, commit=False)  # 3
    log.truncate_to(3)
    assert writer.stable == 2
    assert aborted(log) == [(1, 0, 1)]
    log.truncate_to(1)
    assert writer.stable == 0
    assert aborted(log) == []
    assert not list(log.directory.glob("*.txnindex"))


def test_only_aborted_transactions_that_reach_into_what_is_read_are_told(tmp_path):
    log = Log(tmp_path / "t-0", topic_config(index_interval_bytes=1))
    log.create()
    writer = Writer(log)
    for _ in range(50):
        writer.write(1, size=100)
        writer.end(1, commit=False)
    size = len(log.read(40, 200, 1 << 62, True)[0])
    told = aborted(log, 40, size)
    assert (1, 40, 41) in told
    assert len(told) <= 4
    assert aborted(log, 41, size)[0] == (1, 40, 41)
    log.abandon()


def test_a_torn_entry_is_passed_over_and_written_over(tmp_path):
    path = tmp_path / "0.txnindex"
    one, two = AbortedTransaction(1, 2, 3, 4), AbortedTransaction(5, 6, 7, 8)
    path.write_bytes(encode_txn_index([one]) + b"torn")
    index = TransactionIndex(path)
    assert index.entries == [one]
    index.append(two)
    assert read_txn_index(path) == [one, two]
    assert path.stat().st_size == 68


class Transactions(RuleBasedStateMachine):
    """Any mix of transactions, rolls, stops and crashes, beside a model that is two lists."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log = Log(self.directory / "t-0", topic_config(index_interval_bytes=64))
        self.log.create()
        self.writer = Writer(self.log)
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []

    @rule(producer=st.integers(1, 4), count=st.integers(1, 3))
    def write(self, producer, count):
        offset = self.writer.write(producer, count)
        self.open.setdefault(producer, offset)

    @precondition(lambda self: self.open)
    @rule(commit=st.booleans(), data=st.data())
    def end(self, commit, data):
        producer = data.draw(st.sampled_from(sorted(self.open)))
        offset = self.writer.end(producer, commit=commit)
        first = self.open.pop(producer)
        if not commit:
            self.aborted.append((producer, first, offset))

    @rule()
    def roll(self):
        self.log.roll()

    @rule(clean=st.booleans())
    def restart(self, clean):
        self.log = reopened(self.log, clean=clean)
        self.writer.log = self.log

    @rule(data=st.data())
    def read(self, data):
        offset = data.draw(st.integers(0, self.log.end_offset))
        below = end_of_segment(self.log, offset)
        expected = [one for one in self.aborted if one[2] >= offset and one[1] < below]
        assert aborted(self.log, offset) == expected

    @invariant()
    def the_stable_offset_is_where_the_oldest_open_one_begins(self):
        assert self.writer.stable == min(self.open.values(), default=self.log.end_offset)

    def teardown(self):
        self.log.abandon()
        shutil.rmtree(self.directory)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_a_partition_shows_committed_readers_what_is_decided(log):
    partition = Partition("t", b"i" * 16, 0, log, 0, is_internal=False)

    def append(transactional: bool, sequence: int) -> None:
        records = [Record(0, NOW, None, b"v")]
        options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence, "transactional": transactional}
        batch = memoryview(build_batch(records, **options))
        partition.append(batch, NOW, all_replicas=True, zstd=True, in_transaction=True)

    append(True, 0)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    with pytest.raises(Exception, match="has a transaction open here"):
        append(False, 1)
    assert partition.end_transaction(5, 1, 0, commit=False, now_ms=NOW) == 2
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)
    with pytest.raises(Exception, match="epoch 0, the current one is 1"):
        partition.end_transaction(5, 0, 0, commit=True, now_ms=NOW)


def test_records_deleted_under_an_open_transaction_are_decided(log):
    partition = Partition("t", b"i" * 16, 0, log, 0, is_internal=False)
    Writer(log).write(1, 3)
    partition.advance(log.end_offset)
    assert partition.last_stable_offset == 0
    partition.delete_records(2)
    assert partition.last_stable_offset == 2
