"""Our operators on Spark and Kafka Streams' own, given the same records, give the same results.

A story has at most one record of a key in a batch, so that a batch is for each key what a record is for Kafka Streams.
Timestamps go back and forth by less than any grace. Our query is restarted in the middle. Joined tables differ in one
thing: Kafka also repeats results that have not changed, and deletes what was not there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import kafka_streams
from support.kafka_streams import Batch, Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from support.frames import Feed

RUNS = [
    "stream_table inner",
    "stream_table left",
    "table_table inner",
    "table_table left",
    "table_table outer",
    "stream_stream 7 9 10 inner",
    "stream_stream 7 9 10 left",
    "stream_stream 7 9 10 outer",
    "sessions 6 15 every",
    "sessions 6 15 final",
    "sliding 8 15 every",
    "sliding 8 15 final",
]


def story(run: str) -> list[Batch]:
    """Batches of records; the last ones only let time pass, on a key of their own."""
    chance = random.Random(run)
    batches: list[Batch] = []
    for number in range(5):
        batch: Batch = []
        for key in [*(f"k{i}" for i in range(40)), None]:
            topic = chance.choice(["left", "right"])
            time = 100 + number * 4 + chance.randrange(6)
            value = f"{time}{topic[0]}" if chance.random() < 0.8 else None
            if chance.random() < 0.8:
                batch.append((topic, key, value, time))
        batches.append(sorted(batch, key=lambda record: record[3]))
    if not run.startswith(("stream_table", "table_table")):
        batches += [[("left", "z", str(time), time), ("right", "y", str(time), time)] for time in (130, 140, 150)]
    if run.startswith(("sessions", "sliding")):
        batches = [[record for record in batch if record[0] == "left" and record[2]] for batch in batches]
        batches.append([("left", "k1", "late", 110), ("left", "z", "151", 151)])
    return batches


@pytest.fixture(scope="module")
def kafka() -> dict[str, list[Result]]:
    from support.frames import EPOCH

    runs = []
    for run in RUNS:
        batches = [[(topic, key, value, EPOCH + time) for topic, key, value, time in batch] for batch in story(run)]
        runs.append((_program(run), batches))
    results = kafka_streams.ask(runs)
    return {run: [result for batch in batches for result in batch] for run, batches in zip(RUNS, results, strict=True)}


def _program(run: str) -> str:
    """A run in the words of streams_programs.py."""
    name, *numbers, how = run.split()
    if name in ("sessions", "sliding"):
        windows = ":".join(
            ["session" if name == "sessions" else name, *numbers, *(["final"] if how == "final" else [])]
        )
        return f"stream:left group_by_key {windows} aggregate"
    left, right = name.split("_")
    return f"{left}:left {right}:right {':'.join(['join', how, *numbers])}"


@pytest.mark.parametrize("run", RUNS)
def test_operators_give_what_kafka_streams_gives(
    run: str, kafka: dict[str, list[Result]], spark: SparkSession, tmp_path: Path
) -> None:
    from support.frames import EPOCH, Feed, Running

    feed = Feed(spark)
    query = Running(_operator(run, feed), tmp_path)
    results: list[tuple[str | None, str | None, int]] = []
    batches = story(run)
    for number, batch in enumerate(batches):
        if number == len(batches) // 2:
            query.restart()
        topics: dict[str, list[tuple[str | None, str | None, int]]] = {}
        for topic, key, value, time in batch:
            topics.setdefault(topic, []).append((key, value, time))
        feed.add(**topics)
        results += [(key, value, EPOCH + time) for key, value, time in query.rows()]
    query.query.stop()
    assert results
    if run.split()[0] in ("stream_stream", "sliding"):  # what comes when a window closes comes at another moment
        assert sorted(results, key=str) == sorted(kafka[run], key=str)
    else:
        assert _by_key(results) == _by_key(kafka[run], changes=run.startswith("table_table"))


def _operator(run: str, feed: Feed) -> Callable[[], DataFrame]:
    from pyspark.sql import functions as F

    from ottla.streams import operators

    name, *numbers, how = run.split()

    def shown(column: str) -> F.Column:  # type: ignore[name-defined]
        return F.coalesce(F.col(column), F.lit("null"))

    def frame() -> DataFrame:
        left, right = feed.frame("left"), feed.frame("right")
        if name in ("sessions", "sliding"):
            windows = getattr(operators, name)(left, *map(int, numbers), final=how == "final")
            bounds = [(F.unix_millis(bound)).cast("string") for bound in ("start", "end")]
            key = F.concat("key", F.lit("@"), bounds[0], F.lit("-"), bounds[1])
            return windows.select(key, F.array_join("values", ","), "timestamp")
        joined = getattr(operators, name)(left, right, *map(int, numbers), how)
        gone = F.col("left").isNull() & F.col("right").isNull()
        value = F.when(~gone, F.concat(shown("left"), F.lit("+"), shown("right")))
        return joined.select("key", value, "timestamp")

    return frame


def _by_key(results: list[Result], changes: bool = False) -> dict[str | None, list[Result]]:
    """Results in their order; of a table only those that change it."""
    keys: dict[str | None, list[Result]] = {}
    for result in results:
        key = result[0] and result[0].split("@")[0]
        last = keys[key][-1][1] if key in keys else None
        if not changes or result[1] != last:
            keys.setdefault(key, []).append(result)
    return keys
