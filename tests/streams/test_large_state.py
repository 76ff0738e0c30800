"""What a batch looks at in the state: the keys that it has records of, and those whose time has come."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from ottla.streams import App, hopping, tumbling
from ottla.streams.operators import sessions, stream_stream
from ottla.streams.testing import Driver
from support.frames import Feed, Record, Run, Running

Streams = Callable[..., Driver]
TIMERS = "spark.sql.ottla.timers"  # of jvm/Timers.scala
OPERATORS: dict[str, Callable[[Feed], DataFrame]] = {
    "sessions": lambda feed: sessions(feed.frame("left"), 10, 3, final=True),
    "join": lambda feed: stream_stream(feed.frame("left"), feed.frame("right"), 5, 7, 3, "outer"),
}


@pytest.fixture
def timers(spark: SparkSession) -> Iterator[Callable[[int], None]]:
    yield lambda most: spark.conf.set(TIMERS, str(most))
    spark.conf.unset(TIMERS)


def batches(query: StreamingQuery) -> list[Any]:
    """Of each batch so far what its first stateful operator tells."""
    told = [progress for progress in query.recentProgress if "addBatch" in progress["durationMs"]]
    return [progress["stateOperators"][0] for progress in told]


def looked_through(query: StreamingQuery) -> list[bool]:
    """For each batch so far, whether it has gone through all keys."""
    metrics = [batch["customMetrics"] for batch in batches(query)]
    return [metric.get("rocksdbTotalBytesReadThroughIterator", 0) > 0 for metric in metrics]


@pytest.mark.parametrize("operator", OPERATORS)
def test_timers_that_are_remembered_fire_as_those_that_are_looked_for(
    operator: str, spark: SparkSession, tmp_path: Path, timers: Callable[[int], None]
) -> None:
    def told(most: int) -> list[list[tuple[Any, ...]]]:
        timers(most)
        feed, chance = Feed(spark), random.Random(operator)
        running = Running(lambda: OPERATORS[operator](feed), tmp_path / str(most))

        def some(now: int) -> list[Record]:
            count = chance.randrange(6)
            return [(f"k{chance.randrange(12)}", str(i), now + chance.randrange(-4, 5)) for i in range(count)]

        results = []
        for step in range(7):
            feed.add(left=[*some(100 + 5 * step), ("now", "", 100 + 5 * step)], right=some(100 + 5 * step))
            if step == 4:
                running.restart()
            results.append(running.rows())
        running.query.stop()
        return results

    expected = told(0)  # as Spark does it
    assert sum(map(len, expected)) >= 8
    assert told(3) == expected  # of more timers all keys are looked at from time to time


def test_a_batch_without_due_timers_looks_at_no_other_keys(feed: Feed, run: Run, timers: Callable[[int], None]) -> None:
    timers(1000)
    windows = run(lambda: sessions(feed.frame("clicks"), 10, 5, final=True))
    feed.add(clicks=[(f"k{i}", "", 100 + i % 5) for i in range(100)])
    assert windows.rows() == []
    before = len(looked_through(windows.query))
    feed.add(clicks=[("k1", "", 110)])
    assert windows.rows() == []
    feed.add(clicks=[("k1", "", 116)])
    assert sorted(row[0] for row in windows.rows()) == sorted(f"k{i}" for i in range(0, 100, 5))  # those of time 100
    assert not any(looked_through(windows.query)[before:])


def test_all_keys_are_looked_at_when_the_timers_that_are_remembered_have_fired(
    feed: Feed, run: Run, timers: Callable[[int], None]
) -> None:
    timers(10)
    windows = run(lambda: sessions(feed.frame("clicks"), 10, 0, final=True))
    feed.add(clicks=[(f"k{i:02}", "", 100 + i) for i in range(40)])
    came = [row[0] for row in windows.rows()]
    before = len(looked_through(windows.query))
    for time in range(141, 154, 3):
        feed.add(clicks=[("now", "", time)])
        came += [row[0] for row in windows.rows()]
    assert sorted(came) == [f"k{i:02}" for i in range(40)]
    assert set(looked_through(windows.query)[before:]) == {True, False}


def test_windows_are_looked_through_only_when_one_ends(ottla_streams: Streams) -> None:
    app = App("windows")
    app.stream("in").group_by_key().windowed_by(tumbling(seconds=5, grace=0)).count().to("out")
    driver = ottla_streams(app)
    found = []
    for time in (10_000, 11_000, 14_999, 15_000, 15_001, 19_999, 26_000, 27_000):
        before = len(looked_through(driver.start().queries[0]))
        driver.send("in", "", key="a", timestamp=time)
        driver.send("in", "", key=str(time), timestamp=time)
        driver.run()
        found.append(any(looked_through(driver.start().queries[0])[before:]))
    assert found == [True, False, False, True, False, False, True, False]


@pytest.mark.parametrize("final", [False, True])
def test_windows_are_removed_when_they_end_also_after_a_restart(ottla_streams: Streams, final: bool) -> None:
    app = App("windows")
    windows = app.stream("in").group_by_key().windowed_by(hopping(ms=5_000, every=2, grace=0))
    (windows.final() if final else windows).count().to("out")
    driver = ottla_streams(app)
    seen = []
    for time in (10_000, 10_999, 11_000, 12_500, 13_000, 13_001, 17_000, 30_000):
        if time == 13_000:
            driver.restart()
        driver.send("in", "", key="a", timestamp=time)
        driver.run()
        seen.append(time)
        starts = {start for at in seen for start in range(0, 40_000, 2_000) if start <= at < start + 5_000}
        open_ones = {start for start in starts if start + 5_000 > time}
        assert (time, batches(driver.start().queries[0])[-1]["numRowsTotal"]) == (time, len(open_ones))
    if final:
        assert len(driver.read("out")) == len({start for start in starts if start + 5_000 <= 30_000})
