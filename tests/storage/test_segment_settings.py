"""Settings that shape segments, each seen at work: preallocate, segment.jitter.ms, the two of the index."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.storage import log as log_module
from support.scribe import NOW, Scribe

NewLog = Callable[..., Scribe]
HOUR = 3_600_000


def test_a_preallocated_segment_takes_its_size_at_once_and_gives_back_the_rest(new_log: NewLog) -> None:
    scribe = new_log(preallocate="true", segment_bytes=100_000)
    first = scribe.log.active.file.path
    scribe.write("a")
    assert first.stat().st_size == 100_000
    assert scribe.log.size < 200
    scribe.log.roll()
    assert first.stat().st_size < 200
    second = scribe.log.active.file.path
    scribe.write("b")
    assert second.stat().st_size == 100_000
    scribe.log.close()
    assert second.stat().st_size < 200
    assert [record.value for record in new_log(preallocate="true").read_all()] == [b"a", b"b"]


def test_what_a_crash_leaves_of_a_preallocated_segment_is_no_records(new_log: NewLog) -> None:
    scribe = new_log(preallocate="true", segment_bytes=100_000)
    scribe.write("a")
    scribe.write("b")
    scribe.log.abandon()
    again = new_log(clean=False, preallocate="true", segment_bytes=100_000)
    assert again.log.end_offset == 2
    assert again.write("c") == 2
    assert [record.value for record in again.read_all()] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(("drawn", "rolls"), [(0, False), (HOUR, True)])
def test_jitter_takes_a_random_part_off_the_age_at_which_a_segment_ends(
    new_log: NewLog, monkeypatch: pytest.MonkeyPatch, drawn: int, rolls: bool
) -> None:
    bounds = []

    def draw(bound: int) -> int:
        bounds.append(bound)
        return drawn

    monkeypatch.setattr(log_module.random, "randrange", draw)
    scribe = new_log(segment_ms=10 * HOUR, segment_jitter_ms=2 * HOUR)
    scribe.write("a", timestamp=NOW)
    scribe.write("b", timestamp=NOW + 9 * HOUR + 1)
    assert (len(scribe.log.segments) == 2) == rolls
    assert set(bounds) == {2 * HOUR}


def test_jitter_never_takes_more_than_the_whole_age(new_log: NewLog) -> None:
    scribe = new_log(segment_ms=HOUR, segment_jitter_ms=1000 * HOUR)
    assert 0 <= scribe.log._jitter < HOUR


@pytest.mark.parametrize(("interval", "entries"), [(0, 19), (500, 3), (100_000, 0)])
def test_index_entries_are_that_many_bytes_apart(new_log: NewLog, interval: int, entries: int) -> None:
    scribe = new_log(index_interval_bytes=interval)
    for _ in range(20):
        scribe.write("x" * 30)
    assert len(scribe.log.active.index) == entries


def test_a_full_index_ends_its_segment(new_log: NewLog) -> None:
    scribe = new_log(index_interval_bytes=0, segment_index_bytes=48)
    for _ in range(20):
        scribe.write("x")
    assert len(scribe.log.segments) == 3
    assert all(len(segment.index) * 8 <= 48 for segment in scribe.log.segments)
