"""Aggregates and windows, through a real broker and Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.streams import (
    App,
    Json,
    Long,
    PipelineError,
    Text,
    WindowedKey,
    hopping,
    session,
    sliding,
    top_n,
    tumbling,
)
from ottla.streams.testing import Driver

Streams = Callable[..., Driver]


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def windowed(rows: list[tuple[Any, Any]]) -> list[tuple[Any, int, Any]]:
    """Results as (key, start of the window in ms, value), sorted."""
    return sorted((key.key, round(key.start.timestamp() * 1000), value) for key, value in rows)


def test_a_count_goes_on_over_batches_and_a_restart(ottla_streams: Streams) -> None:
    app = App("aggregates")
    app.stream("in").group_by_key().count("Counts").to("out")
    driver = ottla_streams(app)
    for key in ("a", "b", "a"):
        driver.send("in", "x", key=key)
    assert sorted(driver.read("out")) == [("a", 2), ("b", 1)]
    driver.restart()
    driver.send("in", "x", key="a")
    assert driver.read("out") == [("a", 3)]
    assert dict(driver.store("Counts").all()) == {"a": 3, "b": 1}


def test_records_without_a_key_belong_to_no_group(ottla_streams: Streams) -> None:
    app = App("aggregates")
    app.stream("in").group_by_key().count().to("out")
    driver = ottla_streams(app)
    driver.send("in", "x")
    driver.send("in", "x", key="a")
    assert driver.read("out") == [("a", 1)]


def test_only_tumbling_hopping_and_session_windows_take_records_without_a_value(ottla_streams: Streams) -> None:
    app = App("aggregates")
    grouped = app.stream("in").group_by_key()
    grouped.count().to("counts")
    grouped.windowed_by(tumbling(seconds=5)).count().to("windows")
    grouped.windowed_by(tumbling(seconds=5)).aggregate(list, lambda key, value, seen: [*seen, value]).to("lists")
    driver = ottla_streams(app)
    for value in ("x", None):
        driver.send("in", value, key="a", timestamp=1_000)
    assert driver.read("counts")[-1] == ("a", 1)
    assert windowed(driver.read("windows"))[-1] == ("a", 0, 2)
    assert windowed(driver.read("lists"))[-1] == ("a", 0, ["x", None])


def test_named_expressions_make_a_structure(ottla_streams: Streams) -> None:
    app = App("aggregates")
    trades = app.stream("in", value=Json("ask double"))
    trades.group_by_key().aggregate(low="min(value.ask)", n="count(*)", mean="avg(value.ask)").to("out")
    driver = ottla_streams(app)
    for ask in (3.0, 1.0, 2.0):
        driver.send("in", {"ask": ask}, key="IBM")
    assert driver.read("out") == [("IBM", {"low": 1.0, "n": 3, "mean": 2.0})]


def test_python_functions_reduce_and_aggregate(ottla_streams: Streams) -> None:
    app = App("aggregates")
    grouped = app.stream("in", value=Long).group_by_key()
    grouped.reduce(max, "Largest").to("largest")
    grouped.aggregate(list, lambda key, value, seen: [*seen, value], name="all").to("out")
    driver = ottla_streams(app)
    for value in (1, 3, 2):
        driver.send("in", value, key="a")
    assert driver.read("largest")[-1] == ("a", 3)
    assert driver.read("out")[-1] == ("a", [1, 3, 2])
    driver.send("in", 9, key="a")
    assert driver.read("out")[-1] == ("a", [1, 3, 2, 9])


def test_tumbling_windows_are_aligned_to_the_clock_and_late_records_update_them(ottla_streams: Streams) -> None:
    app = App("aggregates")
    app.stream("in").group_by_key().windowed_by(tumbling(seconds=5, grace=10)).count("Counts").to("out")
    driver = ottla_streams(app)
    for ms in (1_000, 4_999, 5_000, 12_000):
        driver.send("in", "x", key="a", timestamp=ms)
    assert windowed(driver.read("out")) == [("a", 0, 2), ("a", 5_000, 1), ("a", 10_000, 1)]
    driver.send("in", "x", key="a", timestamp=2_000)  # within the grace: an update
    assert windowed(driver.read("out")) == [("a", 0, 3)]
    driver.send("in", "x", key="a", timestamp=40_000)
    driver.run()
    driver.send("in", "x", key="a", timestamp=3_000)  # 0-5 s has closed
    assert windowed(driver.read("out")) == [("a", 40_000, 1)]
    store = driver.store("Counts")
    assert store.get("a", 0) == 3
    assert [(row[0].start, row[1]) for row in store.fetch("a", 0, 10_000)] == [
        (at(0), 3),
        (at(5_000), 1),
        (at(10_000), 1),
    ]


def test_hopping_windows_overlap(ottla_streams: Streams) -> None:
    app = App("aggregates")
    app.stream("in").group_by_key().windowed_by(hopping(seconds=5, every=1)).count().to("out")
    driver = ottla_streams(app)
    driver.send("in", "x", key="a", timestamp=10_000)
    assert windowed(driver.read("out")) == [("a", start, 1) for start in range(6_000, 11_000, 1_000)]
    driver.send("in", "x", key="b", timestamp=1_000)
    assert windowed(driver.read("out")) == [("b", start, 1) for start in (0, 1_000)]  # none begins before 1970


def test_a_final_result_comes_once_when_the_window_has_closed(ottla_streams: Streams) -> None:
    app = App("aggregates")
    app.stream("in").group_by_key().windowed_by(tumbling(seconds=5, grace=0)).final().count().to("out")
    driver = ottla_streams(app)
    driver.send("in", "x", key="a", timestamp=1_000)
    assert driver.read("out") == []
    driver.send("in", "x", key="a", timestamp=2_000)
    driver.send("in", "x", key="a", timestamp=6_000)
    assert windowed(driver.read("out")) == [("a", 0, 2)]


def test_sessions_grow_and_merge(ottla_streams: Streams) -> None:
    app = App("aggregates")
    app.stream("in").group_by_key().windowed_by(session(seconds=10, grace=60)).count().to("out")
    driver = ottla_streams(app)
    driver.send("in", "x", key="a", timestamp=1)
    driver.send("in", "x", key="a", timestamp=15_000)
    assert windowed(driver.read("out")) == [("a", 1, 1), ("a", 15_000, 1)]
    driver.send("in", "x", key="a", timestamp=8_000)
    rows = driver.read("out")
    assert (WindowedKey("a", at(1), at(15_000)), 3) in rows
    assert (WindowedKey("a", at(15_000), at(15_000)), None) in rows  # merged away


def test_a_final_session_ends_with_its_last_record_and_takes_records_up_to_its_gap_and_grace(
    ottla_streams: Streams,
) -> None:
    app = App("aggregates")
    visits = app.stream("in").group_by_key().windowed_by(session(ms=10, grace=0.1)).final()
    visits.count(name="native").to("counts")
    visits.reduce(lambda one, other: one + other, name="python").to("reduced")
    driver = ottla_streams(app)
    for time in (1_000, 1_010, 1_120):  # the first two are one session, and the last one is just not past it
        driver.send("in", "x", key="a", timestamp=time)
    driver.run()
    driver.send("in", "x", key="b", timestamp=1_010)
    assert driver.read("counts") == driver.read("reduced") == []
    driver.send("in", "x", key="z", timestamp=1_121)
    first, second = WindowedKey("a", at(1_000), at(1_010)), WindowedKey("b", at(1_010), at(1_010))
    assert sorted(driver.read("counts")) == [(first, 2), (second, 1)]
    assert sorted(driver.read("reduced")) == [(first, "xx"), (second, "x")]


def test_sliding_windows_lie_where_the_records_are(ottla_streams: Streams) -> None:
    app = App("aggregates")
    app.stream("in").group_by_key().windowed_by(sliding(seconds=10, grace=60)).count().to("out")
    driver = ottla_streams(app)
    driver.send("in", "x", key="a", timestamp=20_000)
    driver.send("in", "x", key="a", timestamp=26_000)
    assert windowed(driver.read("out")) == [("a", 10_000, 1), ("a", 16_000, 2), ("a", 20_001, 1)]


def test_aggregates_of_windows_whose_values_are_at_hand_are_those_of_spark(ottla_streams: Streams) -> None:
    app = App("aggregates")
    grouped = app.stream("in", value=Json("n bigint")).group_by_key()
    wanted = {name: f"{name}(value.n)" for name in ("count", "sum", "avg", "min", "max", "collect_list")}
    for topic, window in (("spark", tumbling(seconds=10, grace=60)), ("ours", session(seconds=10, grace=60))):
        grouped.windowed_by(window).aggregate(**wanted, all="count(*)").to(topic)
    driver = ottla_streams(app)
    for second, (key, number) in enumerate([("a", 1), ("a", None), ("a", 1 << 60), ("b", None)], 1):
        driver.send("in", {"n": number}, key=key, timestamp=1_000 * second)
    nothing = {"count": 0, "sum": None, "avg": None, "min": None, "max": None, "collect_list": [], "all": 1}
    both = {"count": 2, "sum": (1 << 60) + 1, "avg": float(1 << 59), "min": 1, "max": 1 << 60, "all": 3}
    for topic in ("spark", "ours"):
        found = {key.key: value for key, value in driver.read(topic)}
        assert found == {"a": {**both, "collect_list": [1, 1 << 60]}, "b": nothing}


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("max(value.n) - min(value.n)", "know the aggregates .*; not 'max"),
        ("max(value.m)", "spread: there is no field m; there are n"),
    ],
)
def test_an_aggregate_that_is_none_is_named(ottla_streams: Streams, expression: str, told: str) -> None:
    app = App("aggregates")
    grouped = app.stream("in", value=Json("n bigint")).group_by_key()
    grouped.windowed_by(sliding(seconds=10, grace=60)).aggregate(expression, name="spread").to("out")
    with pytest.raises(PipelineError, match=told):
        ottla_streams(app).start()


def test_event_time_comes_from_a_field(ottla_streams: Streams) -> None:
    app = App("aggregates")
    stream = app.stream("in", value=Json("at bigint"), timestamp="value.at")
    stream.group_by_key().windowed_by(tumbling(seconds=1)).count().to("out")
    driver = ottla_streams(app)
    driver.send("in", {"at": 7_500}, key="a", timestamp=1)
    assert windowed(driver.read("out")) == [("a", 7_000, 1)]


def test_one_aggregate_feeds_another(ottla_streams: Streams) -> None:
    app = App("aggregates")
    per_word = app.stream("in").group_by("value").count(name="words").to_stream()
    per_word.group_by("length(key)", key=Text).aggregate("max(value)", name="lengths").to("out")
    driver = ottla_streams(app)
    for word in ("one", "two", "two", "four"):
        driver.send("in", word)
    assert sorted(driver.read("out"))[-2:] == [("3", 2), ("4", 1)]


GAINS = (("b", 3), ("a", 1), ("c", None), ("d", 2), ("a2", 2), ("e", -1))


def test_the_best_of_a_key_are_one_aggregate_among_others(ottla_streams: Streams) -> None:
    app = App("aggregates")
    grouped = app.stream("in", value=Json("symbol string, gain int")).group_by_key()
    grouped.aggregate(best=top_n("value.symbol", by="value.gain", n=3), n="count(*)", name="best").to("out")
    grouped.aggregate(top_n("value", by="value.gain", n=1, lowest=True), name="worst").to("worst")
    driver = ottla_streams(app)
    for symbol, gain in GAINS:
        driver.send("in", {"symbol": symbol, "gain": gain}, key="k")
    assert driver.read("out") == [("k", {"best": ["b", "a2", "d"], "n": 6})]
    assert driver.read("worst") == [("k", [{"symbol": "e", "gain": -1}])]
    driver.send("in", {"symbol": "f", "gain": 9}, key="k")
    assert driver.read("out") == [("k", {"best": ["f", "b", "a2"], "n": 7})]


def test_the_best_of_windows_whose_values_are_at_hand_are_the_same(ottla_streams: Streams) -> None:
    app = App("aggregates")
    stream = app.stream("in", value=Json("symbol string, gain int"))
    grouped = stream.group_by_key().windowed_by(session(seconds=10, grace=60))
    both = {n: top_n("value.symbol", by="value.gain", n=3, lowest=n == "worst") for n in ("best", "worst")}
    grouped.aggregate(**both).to("out")
    driver = ottla_streams(app)
    for second, (symbol, gain) in enumerate(GAINS, 1):
        driver.send("in", {"symbol": symbol, "gain": gain}, key="k", timestamp=1_000 * second)
    driver.send("in", {"gain": 2}, key="k", timestamp=9_000)  # without a symbol: before the others that gained 2
    ((_, value),) = driver.read("out")
    assert value == {"best": ["b", None, "a2"], "worst": ["e", "a", None]}


def test_a_top_of_none_is_refused() -> None:
    with pytest.raises(PipelineError, match="top_n keeps n values, 1 or more, not 0"):
        top_n("value", by="value.gain", n=0)
    with pytest.raises(PipelineError, match="top_n takes expressions or columns, not"):
        top_n(lambda value: value, by="value.gain", n=1)  # type: ignore[arg-type]
