"""Sparse indexes find the last entry not above a target, whether it is in memory or in the file."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.index import KEY, TAIL, VALUE, OffsetIndex, TimeIndex


@pytest.mark.parametrize("count", [0, 1, TAIL - 1, TAIL, TAIL + 1, 3 * TAIL + 7])
def test_entries_are_found_by_either_column(tmp_path: Path, count: int) -> None:
    index = OffsetIndex(tmp_path / "0.index")
    for number in range(count):
        index.append(number * 10, number * 4096)
    for number in (0, count // 2, count - 1):
        if count:
            assert index.floor(KEY, number * 10 + 9) == (number * 10, number * 4096)
            assert index.floor(VALUE, number * 4096) == (number * 10, number * 4096)
    assert index.floor(KEY, -1) is None
    assert len(index) == count


def test_what_was_flushed_is_there_after_opening_and_a_torn_entry_is_not(tmp_path: Path) -> None:
    path = tmp_path / "0.timeindex"
    index = TimeIndex(path)
    for number in range(700):
        index.append(1_700_000_000_000 + number, number)
    index.flush()
    assert path.stat().st_size == 700 * 12
    with path.open("ab") as file:
        file.write(b"\1\2\3")
    again = TimeIndex(path)
    again.open()
    assert again.last() == (1_700_000_000_699, 699)
    again.append(1_700_000_000_900, 900)
    assert again.floor(KEY, 1_700_000_000_899) == (1_700_000_000_699, 699)
    again.flush()
    assert path.stat().st_size == 701 * 12


def test_truncation_forgets_the_last_entries(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "0.index")
    for number in range(TAIL + 100):
        index.append(number, number)
    index.truncate(10)
    assert index.last() == (9, 9)
    assert index.last_key == 9
    index.append(50, 50)
    assert index.floor(KEY, 49) == (9, 9)


@settings(max_examples=50, deadline=None)
@given(
    keys=st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=60).map(sorted),
    flush_at=st.integers(0, 60),
    target=st.integers(-1, 2**31),
)
def test_a_search_agrees_with_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], flush_at: int, target: int
) -> None:
    index = OffsetIndex(tmp_path_factory.mktemp("index") / "0.index")
    for at, key in enumerate(keys):
        if at == flush_at:
            index.flush()
        index.append(key, at)
    at = bisect_right(keys, target) - 1
    assert index.floor(KEY, target) == ((keys[at], at) if at >= 0 else None)
    index.close()


def test_entries_that_the_disk_does_not_take_stay_in_memory_until_it_does(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "unplugged" / "0.index")
    for number in range(TAIL + 5):
        index.append(number, number * 10)
    assert index.floor(KEY, TAIL + 2) == (TAIL + 2, (TAIL + 2) * 10)
    index.path.parent.mkdir()
    index.append(TAIL + 5, (TAIL + 5) * 10)
    assert index.path.stat().st_size == (TAIL + 6) * 8
    assert index.floor(KEY, 3) == (3, 30)
