"""What is left of a coordinator's log when it is read back."""

from __future__ import annotations

import pytest

from ottla.coordinators.loading import Survivors
from ottla.protocol.batch import CorruptBatch
from ottla.protocol.records import ABORT, COMMIT, Record, build_batch, control_batch

PRODUCER = 77


def written(survivors, offset, *pairs, producer=None):
    """Records of one batch, at `offset`."""
    records = [Record(offset + at, 0, key, value) for at, (key, value) in enumerate(pairs)]
    options = {} if producer is None else {"transactional": True, "producer_id": producer, "base_sequence": 0}
    survivors.take(memoryview(build_batch(records, base_offset=offset, producer_epoch=0, **options)))


def ended(survivors, offset, how, producer=PRODUCER):
    marker = control_batch(
        how, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=offset
    )
    survivors.take(memoryview(marker))


def values(survivors):
    return {key: value for key, (_, value) in survivors.records.items()}


@pytest.fixture
def survivors() -> Survivors:
    return Survivors()


def test_the_last_value_of_each_key_is_left_in_the_order_of_writing(survivors):
    written(survivors, 0, (b"a", b"1"), (b"b", b"2"))
    written(survivors, 2, (b"a", b"3"))
    assert list(values(survivors).items()) == [(b"b", b"2"), (b"a", b"3")]


def test_a_tombstone_leaves_nothing(survivors):
    written(survivors, 0, (b"a", b"1"), (b"b", b"2"), (b"a", None))
    assert values(survivors) == {b"b": b"2"}


def test_a_transaction_counts_when_it_is_committed(survivors):
    written(survivors, 0, (b"a", b"1"))
    written(survivors, 1, (b"a", b"2"), producer=PRODUCER)
    assert values(survivors) == {b"a": b"1"}
    assert list(survivors.held_back()) == [(PRODUCER, b"a", b"2")]
    ended(survivors, 2, COMMIT)
    assert values(survivors) == {b"a": b"2"}
    assert list(survivors.held_back()) == []


def test_an_aborted_transaction_never_counts(survivors):
    written(survivors, 0, (b"a", b"2"), producer=PRODUCER)
    ended(survivors, 1, ABORT)
    assert values(survivors) == {}


def test_what_was_committed_after_a_transaction_wrote_stays(survivors):
    written(survivors, 0, (b"a", b"old"), producer=PRODUCER)
    written(survivors, 1, (b"a", b"new"))
    ended(survivors, 2, COMMIT)
    assert values(survivors) == {b"a": b"new"}


def test_a_marker_ends_its_own_producers_transaction_only(survivors):
    written(survivors, 0, (b"a", b"1"), producer=PRODUCER)
    ended(survivors, 1, COMMIT, producer=PRODUCER + 1)
    assert values(survivors) == {}


def test_a_damaged_batch_is_found(survivors):
    batch = bytearray(build_batch([Record(0, 0, b"a", b"1")]))
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch):
        survivors.take(memoryview(batch))
