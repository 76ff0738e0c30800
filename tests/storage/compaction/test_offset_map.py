"""The map of keys to offsets: what it holds, and in how much memory."""

from __future__ import annotations

import random

import pytest

from ottla.storage.compaction.offset_map import ENTRY, OffsetMap


def test_it_holds_what_a_dictionary_holds_up_to_its_limit() -> None:
    made = OffsetMap(ENTRY * 1000, 0.9)
    assert 880 < made.limit < 900
    expected: dict[bytes, int] = {}
    chance = random.Random(1)
    for offset in range(5000):
        key = chance.randbytes(chance.choice((0, 1, 3, 15, 16, 40)))
        if key in expected or len(made) < made.limit:
            made.put(key, offset)
            expected[key] = offset
    assert len(made) == len(expected) == made.limit
    assert {key: made.get(key) for key in expected} == expected
    assert all(made.get(chance.randbytes(20)) == -1 for _ in range(1000))


@pytest.mark.parametrize("memory", [0, 24, 48, 100])
def test_the_smallest_maps_end_their_searches(memory: int) -> None:
    made = OffsetMap(memory, 0.9)
    for number in range(made.limit):
        made.put(str(number).encode(), number)
    assert made.get(b"none") == -1


def test_it_takes_no_more_memory_than_there_can_be_keys() -> None:
    small = OffsetMap(1 << 40, 0.9, keys=100)
    assert 100 <= small.limit < 120
