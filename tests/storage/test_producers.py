"""Sequence numbers of idempotent producers: what is new, what is a duplicate, what is out of order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.producers import CorruptSnapshot, InvalidProducerEpoch, OutOfOrderSequence, ProducerStates

LAST = 0x7FFFFFFF


@pytest.fixture
def states() -> ProducerStates:
    return ProducerStates()


def test_a_producer_of_whom_nothing_is_known_may_begin_anywhere(states: ProducerStates) -> None:
    assert states.check(1, 0, 42, 45) is None


def test_the_last_five_batches_are_recognised_and_older_ones_are_out_of_order(states: ProducerStates) -> None:
    for sequence in range(7):
        states.appended(1, 0, sequence, sequence, 100 + sequence, 1000)
    for sequence in range(2, 7):
        assert states.check(1, 0, sequence, sequence) == (100 + sequence, 1000)
    with pytest.raises(OutOfOrderSequence):
        states.check(1, 0, 1, 1)


def test_a_gap_is_out_of_order_and_so_is_an_overlap(states: ProducerStates) -> None:
    states.appended(1, 0, 0, 4, 0, 1000)
    assert states.check(1, 0, 5, 5) is None
    for first, last in ((6, 6), (3, 6), (0, 3)):
        with pytest.raises(OutOfOrderSequence):
            states.check(1, 0, first, last)


def test_sequences_wrap_around(states: ProducerStates) -> None:
    states.appended(1, 0, LAST - 1, LAST, 0, 1000)
    assert states.check(1, 0, 0, 3) is None
    states.appended(1, 0, 0, 3, 2, 1000)
    assert states.check(1, 0, LAST - 1, LAST) == (0, 1000)


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(states: ProducerStates) -> None:
    states.appended(1, 3, 0, 0, 0, 1000)
    with pytest.raises(OutOfOrderSequence):
        states.check(1, 4, 1, 1)
    assert states.check(1, 4, 0, 0) is None
    states.appended(1, 4, 0, 0, 1, 1000)
    with pytest.raises(InvalidProducerEpoch):
        states.check(1, 3, 1, 1)


def test_silent_producers_are_forgotten(states: ProducerStates) -> None:
    states.appended(1, 0, 0, 0, 0, 1000)
    states.appended(2, 0, 0, 0, 1, 5000)
    states.expire(older_than=2000)
    assert 1 not in states
    assert 2 in states


@given(
    st.dictionaries(
        st.integers(0, 2**62),
        st.tuples(st.integers(0, 2**15 - 1), st.integers(0, LAST), st.integers(0, 100), st.integers(0, 2**60)),
        max_size=20,
    )
)
def test_a_snapshot_keeps_the_last_batch_of_each_producer(producers: dict[int, tuple[int, int, int, int]]) -> None:
    states = ProducerStates()
    for producer_id, (epoch, first, count, offset) in producers.items():
        states.appended(producer_id, epoch, first, (first + count) & LAST, offset, 1234)
    again = ProducerStates()
    again.decode(states.encode())
    for producer_id, (epoch, first, count, offset) in producers.items():
        assert again.check(producer_id, epoch, first, (first + count) & LAST) == (offset, 1234)


@given(st.data())
def test_a_damaged_snapshot_is_recognised(data: st.DataObject) -> None:
    states = ProducerStates()
    states.appended(5, 0, 0, 9, 100, 1234)
    raw = bytearray(states.encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptSnapshot):
        ProducerStates().decode(bytes(raw))
    with pytest.raises(CorruptSnapshot):
        ProducerStates().decode(states.encode()[:at])
