"""Compaction leaves gaps in the offsets: inside segments, at their ends, and whole segments without a record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.scribe import Scribe


@pytest.fixture
def gapped(new_log: Callable[..., Scribe]) -> Scribe:
    """Segments [0 1 2] [3 4 5] [6 7 8] [9], of which 1, 5, 6, 7 and 8 were compacted away."""
    scribe = new_log()
    for value in range(10):
        if value in (3, 6, 9):
            scribe.log.roll()
        scribe.write(str(value))
    directory = scribe.log.directory
    scribe.log.close()
    one = (directory / f"{0:020}.log").stat().st_size // 3
    for base, kept in ((0, (0, 2)), (3, (0, 1)), (6, ())):
        path = directory / f"{base:020}.log"
        data = path.read_bytes()
        path.write_bytes(b"".join(data[at * one : (at + 1) * one] for at in kept))
        for suffix in (".index", ".timeindex"):
            path.with_suffix(suffix).unlink()
    return new_log(clean=True, cleanup_policy="compact")


@pytest.mark.parametrize(("offset", "found"), [(0, 0), (1, 2), (2, 2), (4, 4), (5, 9), (6, 9), (7, 9), (9, 9)])
def test_a_read_inside_a_gap_begins_at_the_next_record(gapped: Scribe, offset: int, found: int) -> None:
    assert gapped.read(offset)[0].offset == found


def test_a_reader_gets_over_all_gaps(gapped: Scribe) -> None:
    assert [record.offset for record in gapped.read_all()] == [0, 2, 3, 4, 9]


def test_a_read_over_a_gap_stops_below_the_high_watermark(gapped: Scribe) -> None:
    assert gapped.read(5, below=9) == []
    assert gapped.read(5, below=8) == []
    assert [record.offset for record in gapped.read(3, below=5)] == [3, 4]


def test_a_read_that_its_limit_ends_does_not_jump(gapped: Scribe) -> None:
    assert gapped.read(3, limit=10, at_least_one=False) == []
