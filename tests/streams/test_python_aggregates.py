"""Aggregates by Python functions: of keys, windows and sessions, against the plainest way to do it, and in Spark."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Json, Long, Text
from ottla.streams.python_aggregates import Emit, Fold, aggregate
from ottla.streams.windows import Window, hopping, session, sliding, tumbling
from support.frames import Feed, Run
from support.keyed import Sent, Store


def fold(window: Window | None = None, emit: Emit = "update", **given: Any) -> Fold:
    """Lists of values, unless other functions are given."""
    functions = {"init": list, "add": lambda key, value, total: [*total, value], "merge": lambda k, a, b: a + b}
    functions = {"result": Json, **functions, **given}
    made = Fold(Text, Text, window=window, emit=emit, name="collect", **functions)
    made.check()
    return made


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """key, value, time of results; of windows with start and end."""
    cells = []
    for row in rows:
        assert row["reason"] is None
        bounds = () if row["start"] is None else (row["start"], row["end"])
        cells.append((row["key"], *bounds, Json.to_python(row["value"]), row["time"]))
    return cells


def test_each_batch_gives_the_aggregates_that_it_changes() -> None:
    store = Store(fold())
    assert plain(store.run([(b"a", "1", 10), (b"b", "2", 20), (b"a", "3", 5)])) == [
        ("a", ["1", "3"], 10),
        ("b", ["2"], 20),
    ]
    assert plain(store.run([(b"b", "4", 7)])) == [("b", ["2", "4"], 20)]


def test_none_deletes_and_the_next_record_begins_anew() -> None:
    store = Store(fold(add=lambda key, value, total: None if value == "x" else [*total, value]))
    store.run([(b"a", "1", 1)])
    assert plain(store.run([(b"a", "x", 2)])) == [("a", None, 2)]
    assert store.states == {}
    assert plain(store.run([(b"a", "2", 3)])) == [("a", ["2"], 3)]


def test_a_reduce_begins_with_the_first_value() -> None:
    longest = fold(
        init=None, result=Json, add=lambda key, value, old: value if old is None else max(old, value, key=len)
    )
    store = Store(longest)
    assert plain(store.run([(b"a", "bb", 1), (b"a", "c", 2)])) == [("a", "bb", 2)]
    assert plain(store.run([(b"a", "ddd", 3)])) == [("a", "ddd", 3)]


def test_a_record_that_fails_leaves_the_aggregate_as_it_was() -> None:
    store = Store(fold(init=int, add=lambda key, value, total: total + int(value), result=Json))
    rows = store.run([(b"a", "1", 1), (b"a", "x", 2), (b"a", "3", 3)])
    failed = [row for row in rows if row["reason"] is not None]
    assert plain([row for row in rows if row["reason"] is None]) == [("a", 4, 3)]
    (row,) = failed
    assert (row["raw_key"], row["raw_value"], row["offset"], row["topic"]) == (b"a", b"x", 1, "in")
    assert failed[0]["reason"] == "ValueError in collect: invalid literal for int() with base 10: 'x'"


def test_an_aggregate_that_does_not_fit_its_serde_rejects_the_records_of_its_key() -> None:
    store = Store(fold(init=int, add=lambda key, value, total: total + 2 ** int(value), result=Long))
    store.run([(b"a", "1", 1)])
    rows = store.run([(b"a", "2", 2), (b"a", "70", 3), (b"b", "3", 4)])
    assert [(row["key"], row["raw_key"]) for row in rows] == [(None, b"a"), (None, b"a"), ("b", None)]
    assert Long.loads(store.states[b"a"][8:]) == 2


def test_windows_are_kept_until_they_close() -> None:
    store = Store(fold(tumbling(ms=10, grace=0.005)))
    at = partial(windowed, window=tumbling(ms=10))
    assert plain(store.run(at([(b"a", "1", 3), (b"a", "2", 12)]))) == [
        ("a", 0, 10, ["1"], 3),
        ("a", 10, 20, ["2"], 12),
    ]
    assert store.timers == {(windowed_key(b"a", 0), 15), (windowed_key(b"a", 10), 25)}
    assert plain(store.run(at([(b"a", "3", 4)]), watermark=14)) == [("a", 0, 10, ["1", "3"], 4)]
    assert store.run([], watermark=15) == []
    assert list(store.states) == [windowed_key(b"a", 10)]


def test_final_results_come_once_when_the_window_closes() -> None:
    store = Store(fold(tumbling(ms=10, grace=0), emit="final"))
    at = partial(windowed, window=tumbling(ms=10))
    assert store.run(at([(b"a", "1", 3), (b"b", "2", 4)])) == []
    assert store.run(at([(b"a", "3", 1)]), watermark=9) == []
    assert plain(store.run([], watermark=10)) == [("a", 0, 10, ["1", "3"], 3), ("b", 0, 10, ["2"], 4)]
    assert store.states == {}


def test_sessions_grow_merge_and_take_the_former_ones_back() -> None:
    store = Store(fold(session(ms=10, grace=0)))
    assert plain(store.run([(b"a", "1", 100)])) == [("a", 100, 100, ["1"], 100)]
    assert sorted(plain(store.run([(b"a", "2", 120)]))) == [("a", 120, 120, ["2"], 120)]
    assert sorted(plain(store.run([(b"a", "3", 110)])), key=str) == [
        ("a", 100, 100, None, 100),
        ("a", 100, 120, ["1", "2", "3"], 120),
        ("a", 120, 120, None, 120),
    ]
    assert store.run([], watermark=130) == []
    assert store.states
    assert store.run([], watermark=131) == []
    assert store.states == {}


def test_a_final_session_comes_once_and_leaves_open_ones() -> None:
    store = Store(fold(session(ms=10, grace=0), emit="final"))
    assert store.run([(b"a", "1", 100), (b"a", "2", 105), (b"a", "3", 200)]) == []
    assert plain(store.run([], watermark=150)) == [("a", 100, 105, ["1", "2"], 105)]
    assert {time for _, time in store.timers} == {211}
    assert plain(store.run([], watermark=300)) == [("a", 200, 200, ["3"], 200)]
    assert (store.states, store.timers) == ({}, set())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"init": lambda key: 1}, "collect needs as init a function without parameters"),
        ({"add": lambda total, value: 1}, r"collect needs as add a function of \(key, value, aggregate\)"),
        ({"merge": max, "add": 3}, "collect needs as add"),
        ({"window": session(ms=1), "merge": None}, "collect over sessions needs merge"),
        ({"window": sliding(ms=1)}, "collect by Python functions has no sliding windows"),
        ({"emit": "final"}, "collect has no final result without a window"),
    ],
)
def test_what_cannot_be_aggregated_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        fold(**given)


# Against the plainest way ------------------------------------------------------------------------------------------


def windowed_key(key: bytes, start: int) -> bytes:
    return key + start.to_bytes(8, "big", signed=True)


def windowed(records: list[Sent], window: Window) -> list[Sent]:
    """Each record once for each of its windows, as Spark gives them."""
    return [
        (windowed_key(key, start), value, time)
        for key, value, time in records
        for start in range(0, time + 1, window.advance_ms)
        if start <= time < start + window.size_ms
    ]


records = st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from(["1", "2", "3"]), st.integers(0, 60))
batches = st.lists(st.lists(records, max_size=6), max_size=5)


@given(batches, st.integers(1, 4))
def test_sums_of_keys_are_right_after_any_batches(given_batches: list[list[Sent]], rows_per_batch: int) -> None:
    store = Store(fold(), rows_per_batch)
    expected: dict[str, list[str]] = {}
    seen: dict[str, Any] = {}
    for records in given_batches:
        for key, value, _ in records:
            expected.setdefault(key.decode(), []).append(value or "")
        seen |= {key: value for key, value, _ in plain(store.run(records))}
        assert seen == expected


@given(batches, st.integers(1, 4), st.sampled_from(["update", "final"]))
def test_sessions_are_right_after_any_batches(given_batches: list[list[Sent]], rows: int, emit: Emit) -> None:
    store = Store(fold(session(ms=5, grace=1), emit=emit), rows)
    times: dict[str, list[int]] = {}
    seen: dict[tuple[Any, ...], Any] = {}
    for records in given_batches:
        for key, _, time in records:
            times.setdefault(key.decode(), []).append(time)
        for key, start, end, value, _ in plain(store.run(records)):
            seen[key, start, end] = value
    if emit == "final":
        assert seen == {}
        seen = {row[:3]: row[3] for row in plain(store.run([], watermark=10_000))}
    found = {place: len(value) for place, value in seen.items() if value is not None}
    expected = {}
    for key, all_times in times.items():
        runs: list[list[int]] = []
        for time in sorted(all_times):
            if not runs or time - runs[-1][-1] > 5:
                runs.append([])
            runs[-1].append(time)
        expected |= {(key, run[0], run[-1]): len(run) for run in runs}
    assert found == expected


# In Spark ----------------------------------------------------------------------------------------------------------


def folded(frame: DataFrame, window: Window | None = None, emit: Emit = "update") -> DataFrame:
    made = aggregate(
        frame,
        Text,
        Text,
        init=str,
        add=lambda key, value, total: total + value,
        merge=lambda key, one, other: one + other,
        result=Text,
        window=window,
        emit=emit,
    )
    return made.select("key", "value", "timestamp")


def test_spark_keeps_the_aggregates_over_a_restart(feed: Feed, run: Run) -> None:
    query = run(lambda: folded(feed.frame("in")))
    feed.add(**{"in": [("a", "1", 10), ("b", "2", 5), ("a", "3", 7), (None, "4", 8), ("b", None, 9)]})
    assert sorted(query.rows()) == [("a", "13", 10), ("b", "2", 5)]
    query.restart()
    feed.add(**{"in": [("b", "5", 4), ("c", "6", 1)]})
    assert sorted(query.rows()) == [("b", "25", 5), ("c", "6", 1)]


def test_spark_gives_hopping_windows_with_every_update_and_drops_closed_ones(feed: Feed, run: Run) -> None:
    query = run(lambda: folded(feed.frame("in"), hopping(ms=10, every=0.005, grace=0.01)))
    feed.add(**{"in": [("a", "1", 12)]})
    assert sorted(query.rows()) == [(("a", 5, 15), "1", 12), (("a", 10, 20), "1", 12)]
    feed.add(**{"in": [("a", "2", 14), ("a", "3", 40)]})
    assert len(query.rows()) == 4
    feed.add(**{"in": [("a", "4", 26), ("a", "5", 13)]})  # stream time is 40: windows up to 30 are closed
    assert query.rows() == [(("a", 25, 35), "4", 26)]


def test_spark_gives_final_windows_and_sessions_when_they_close(feed: Feed, run: Run) -> None:
    windows = run(lambda: folded(feed.frame("in"), tumbling(ms=10, grace=0), "final"))
    sessions = run(lambda: folded(feed.frame("in"), session(ms=10, grace=0), "final"))
    feed.add(**{"in": [("a", "1", 12), ("b", "2", 13), ("a", "3", 15)]})
    assert windows.rows() == [] == sessions.rows()
    feed.add(**{"in": [("a", "4", 30)]})
    assert sorted(windows.rows()) == [(("a", 10, 20), "13", 15), (("b", 10, 20), "2", 13)]
    assert sorted(sessions.rows()) == [(("a", 12, 15), "13", 15), (("b", 13, 13), "2", 13)]
