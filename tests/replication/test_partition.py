"""A partition's leader: what it takes and refuses, in which order it judges, and whom it wakes."""

import pytest

from ottla.protocol.batch import read_header
from ottla.protocol.compression import GZIP, ZSTD
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, build_batch
from ottla.replication.partition import NotLookedThrough, Partition, Refused
from ottla.replication.replicas import Replicas
from ottla.storage.errors import StorageError
from ottla.storage.log import Log
from support.scribe import NOW, topic_config

TOPIC_ID = b"i" * 16


@pytest.fixture
def partition_of(tmp_path):
    made = []

    def make(**config):
        log = Log(tmp_path / f"t-{len(made)}", topic_config(**config))
        log.create()
        made.append(log)
        return Partition("t", TOPIC_ID, 0, log, 4, is_internal=False)

    yield make
    for log in made:
        log.abandon()


def batch(*values, key=b"k", timestamp=NOW, **options):
    records = [Record(index, timestamp, key, value) for index, value in enumerate(values)]
    return memoryview(build_batch(records, **options))


def append(partition, data, *, all_replicas=False, zstd=True, now=NOW, **options):
    return partition.append(data, now, all_replicas=all_replicas, zstd=zstd, **options)


def code_of(partition, data, **options):
    with pytest.raises(Refused) as caught:
        append(partition, data, **options)
    return caught.value.code


def test_a_batch_gets_its_place_and_consumers_see_it(partition_of):
    partition = partition_of()
    assert append(partition, batch(b"a", b"b")) == (0, -1)
    data = batch(b"c")
    assert append(partition, data) == (2, -1)
    header = read_header(data)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 4)
    assert (partition.end_offset, partition.high_watermark, partition.last_stable_offset) == (3, 3, 3)
    assert partition.log.epochs.latest == 4


def test_waiters_are_told_how_much_there_is_more(partition_of):
    class Waiter:
        sizes = []

        def appended(self, size):
            self.sizes.append((size, partition.high_watermark))
            partition.waiters.discard(self)  # as one that has enough does

    partition = partition_of()
    partition.waiters.add(Waiter())
    data = batch(b"a")
    append(partition, data)
    append(partition, batch(b"b"))
    assert Waiter.sizes == [(len(data), 1)]


def test_a_refused_batch_and_a_duplicate_wake_nobody(partition_of):
    class Waiter:
        def appended(self, size):
            raise AssertionError

    partition = partition_of()
    again = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    append(partition, batch(b"a", **again))
    partition.waiters.add(Waiter())
    assert append(partition, batch(b"a", **again)) == (0, -1)
    assert code_of(partition, batch(b"a")[:-1]) is ErrorCode.CORRUPT_MESSAGE
    assert partition.end_offset == 1


def test_a_disk_that_refuses_changes_nothing(partition_of, monkeypatch):
    partition = partition_of()
    append(partition, batch(b"a"))
    for error in (StorageError("t-0: No space left on device"), OSError(24, "Too many open files")):

        def fail(*arguments, error=error):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", fail)
            assert code_of(partition, batch(b"b")) is ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.high_watermark == 1
    assert append(partition, batch(b"b")) == (1, -1)


def test_few_records_are_looked_through_at_once_and_many_are_not(partition_of):
    partition = partition_of(cleanup_policy="compact")
    small, large = [b"v"] * 10, [b"v" * 100] * 1000
    assert append(partition, batch(*small)) == (0, -1)
    assert append(partition, batch(*small, codec=GZIP)) == (10, -1)
    bomb = batch(*[b"v" * 1000] * 1000, codec=ZSTD)
    assert len(bomb) < 10_000
    for data in (batch(*large), bomb):
        with pytest.raises(NotLookedThrough):
            append(partition, data)
        append(partition, partition.prepare(data), prepared=True)
    assert partition.end_offset == 2020


def test_keys_are_not_asked_for_where_nothing_is_compacted(partition_of):
    assert append(partition_of(cleanup_policy="delete"), batch(b"v" * 100_000, key=None)) == (0, -1)
    both = partition_of(cleanup_policy="compact,delete")
    assert code_of(both, batch(b"v", key=None)) is ErrorCode.INVALID_RECORD


def test_replicas_are_asked_before_sequences(partition_of):
    """A producer that is told NOT_ENOUGH_REPLICAS sends the same batch again; it must not be a duplicate then."""
    partition = partition_of(min_insync_replicas=2)
    data = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    assert code_of(partition, batch(b"a", **data), all_replicas=True) is ErrorCode.NOT_ENOUGH_REPLICAS
    partition.isr_size = 2
    assert append(partition, batch(b"a", **data), all_replicas=True) == (0, -1)


def test_what_was_refused_leaves_no_trace_in_the_producers_sequence(partition_of):
    partition = partition_of(message_timestamp_after_max_ms=1000)
    data = {"producer_id": 1, "producer_epoch": 0}
    append(partition, batch(b"a", base_sequence=0, **data))
    late = batch(b"b", base_sequence=1, timestamp=NOW + 5000, **data)
    assert code_of(partition, late) is ErrorCode.INVALID_TIMESTAMP
    assert append(partition, batch(b"b", base_sequence=1, **data)) == (1, -1)


def test_a_topic_is_found_by_name_and_by_id_until_it_is_removed(partition_of):
    woken = []

    class Waiter:
        def appended(self, size):
            woken.append(size)

    replicas = Replicas()
    log = partition_of().log
    replicas.add("t", TOPIC_ID, [log, log], [0, 0], is_internal=False)
    assert replicas.find("t", 1) is replicas.by_id[TOPIC_ID][1] is replicas.by_name[b"t"][1]
    assert replicas.find("t", 2) is replicas.find("t", -1) is replicas.find("u", 0) is None
    assert len(list(replicas)) == 2
    replicas.find("t", 1).waiters.add(Waiter())
    assert len(replicas.remove("t")) == 2
    assert woken
    assert (replicas.by_name, replicas.by_id) == ({}, {})
    assert replicas.remove("t") == []
