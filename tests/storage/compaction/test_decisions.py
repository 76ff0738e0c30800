"""When a log is compacted, how far, which one first, and which segments become one."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.compaction.decisions import (
    GROUP,
    Dirt,
    Files,
    Row,
    filthiest,
    first_dirty_offset,
    groups,
    judge,
    should_roll,
)
from support.scribe import topic_config

NOW = 1_000_000

# Four segments: [0 100) [100 200) [200 300) and the active one from 300; each as old as its place
ROWS = [Row(0, 10, 100, 199), Row(100, 20, 200, 299), Row(200, 30, 300, 399), Row(300, 40, 400, 499)]


def judged(rows: list[Row] | None = None, **given: Any) -> Dirt:
    settings: dict[str, Any] = {
        "checkpoint": None,
        "start_offset": 0,
        "end_offset": 400,
        "stable_offset": 400,
        "flushed_offset": 400,
        "config": config(),
        "now_ms": NOW,
    } | given
    return judge(rows or ROWS, **settings)


def config(**overrides: object) -> TopicConfig:
    return topic_config(cleanup_policy="compact", **overrides)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0, 300, 0, 60)),
        ({"checkpoint": 100}, (100, 300, 10, 50)),
        ({"checkpoint": 300}, (300, 300, 60, 0)),
        ({"checkpoint": 150}, (150, 300, 10, 50)),  # a segment that was cleaned in part is dirty
        ({"checkpoint": 50, "start_offset": 100}, (100, 300, 10, 50)),
        ({"stable_offset": 300}, (0, 300, 0, 60)),
        ({"stable_offset": 299}, (0, 200, 0, 30)),  # a transaction is open in the third
        ({"stable_offset": 250, "checkpoint": 200}, (200, 200, 30, 0)),
        ({"flushed_offset": 200}, (0, 200, 0, 30)),
        ({"checkpoint": 150, "stable_offset": 160}, (150, 100, 10, 0)),
        ({"config": config(min_compaction_lag_ms=1000), "now_ms": 1500}, (0, 300, 0, 60)),
        ({"config": config(min_compaction_lag_ms=1000), "now_ms": 1350}, (0, 200, 0, 30)),
        ({"config": config(min_compaction_lag_ms=1000), "now_ms": 1198}, (0, 0, 0, 0)),
        ({"config": config(min_compaction_lag_ms=1000), "now_ms": 1350, "checkpoint": 300}, (300, 300, 60, 0)),
    ],
)
def test_the_dirty_part(given: dict[str, Any], expected: tuple[int, int, int, int]) -> None:
    dirt = judged(**given)
    assert (dirt.first_dirty, dirt.end, dirt.clean_bytes, dirt.dirty_bytes) == expected


def test_a_young_segment_keeps_those_behind_it_dirty_too() -> None:
    rows = [Row(0, 10, 1, 9_999), Row(100, 20, 1, 1), Row(200, 0)]
    dirt = judged(rows, end_offset=200, config=config(min_compaction_lag_ms=1000), now_ms=10_000)
    assert (dirt.end, dirt.dirty_bytes) == (0, 0)


@pytest.mark.parametrize(("checkpoint", "found"), [(None, 10), (5, 10), (10, 10), (20, 20), (100, 100), (101, 10)])
def test_a_checkpoint_is_believed_where_it_lies_in_the_log(checkpoint: int | None, found: int) -> None:
    offset, lost = first_dirty_offset(checkpoint, 10, 100)
    assert offset == found
    assert bool(lost) == (checkpoint == 101)


@pytest.mark.parametrize(
    ("clean", "dirty", "overdue", "ratio", "due"),
    [
        (50, 50, 0, 0.5, False),  # above, not at
        (49, 51, 0, 0.5, True),
        (99, 1, 0, 0, True),
        (100, 0, 0, 0, False),
        (0, 0, 0, 0, False),
        (0, 10, 0, 1, False),
        (99, 1, 1, 0.5, True),
        (100, 0, 1, 0.5, False),
    ],
)
def test_a_log_is_due_by_its_share_of_dirt_or_when_it_has_waited_too_long(
    clean: int, dirty: int, overdue: int, ratio: float, due: bool
) -> None:
    dirt = Dirt(0, 1, clean, dirty, overdue)
    assert dirt.is_due(config(min_cleanable_dirty_ratio=ratio)) is due


@pytest.mark.parametrize(
    ("checkpoint", "now_ms", "overdue"), [(None, 600, 0), (None, 601, 1), (100, 601, 0), (300, 10_000, 0)]
)
def test_waiting_counts_from_the_oldest_dirty_segment(checkpoint: int | None, now_ms: int, overdue: int) -> None:
    dirt = judged(config=config(max_compaction_lag_ms=500), checkpoint=checkpoint, now_ms=now_ms)
    assert dirt.overdue_ms == overdue


def test_logs_that_waited_too_long_come_first_then_the_dirtiest() -> None:
    found = [("little", Dirt(0, 1, 9, 1)), ("much", Dirt(0, 1, 1, 9)), ("late", Dirt(0, 1, 99, 1, 5))]
    order = []
    while found:
        best = filthiest(found)
        assert best is not None
        order.append(best[0])
        found.remove(best)
    assert order == ["late", "much", "little"]
    assert filthiest([]) is None


@pytest.mark.parametrize(
    ("first", "size", "overrides", "rolls"),
    [
        (NOW - 1001, 1, {"segment_ms": 1000}, True),
        (NOW - 1000, 1, {"segment_ms": 1000}, False),
        (NOW - 1001, 0, {"segment_ms": 1000}, False),
        (NOW - 1001, 1, {"max_compaction_lag_ms": 1000}, True),
        (NOW - 1001, 1, {}, False),
        (1 << 62, 1, {"segment_ms": 1}, False),  # no record has a time
    ],
)
def test_an_active_segment_is_rolled_by_its_age(first: int, size: int, overrides: dict[str, int], rolls: bool) -> None:
    assert should_roll(first, size, config(**overrides), NOW) is rolls


def test_segments_are_grouped_as_far_as_one_segment_may_go() -> None:
    def sizes(*segments: Files, end: int = 1 << 40) -> list[list[int]]:
        made = groups(segments, segment_bytes=100, index_bytes=10, end=end)
        return [[segment.base_offset for segment in group] for group in made]

    assert sizes() == []
    assert sizes(Files(0, 60, 1, 1), Files(10, 40, 1, 1), Files(20, 1, 1, 1), end=30) == [[0, 10], [20]]
    assert sizes(Files(0, 200, 1, 1), Files(10, 0, 0, 0), Files(20, 99, 1, 1), end=30) == [[0], [10, 20]]
    assert sizes(Files(0, 1, 6, 1), Files(10, 1, 5, 1), end=30) == [[0], [10]]
    assert sizes(Files(0, 1, 1, 6), Files(10, 1, 1, 5), end=30) == [[0], [10]]
    assert sizes(Files(0, 1, 1, 1), Files(10, 1, 1, 1), end=1 << 31) == [[0, 10]]
    assert sizes(Files(0, 1, 1, 1), Files(10, 1, 1, 1), end=(1 << 31) + 1) == [[0], [10]]
    assert sizes(Files(0, 1, 1, 1), Files(10, 0, 0, 0), end=(1 << 31) + 1) == [[0, 10]]
    assert [len(group) for group in sizes(*(Files(at, 0, 0, 0) for at in range(GROUP + 1)))] == [GROUP, 1]
