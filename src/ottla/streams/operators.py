"""Stateful operators that Spark has not, or has with other rules: joins by key, changes of a table, windows, top n.

Each takes and gives DataFrames. A frame in has the columns `key` and `value` (of any type), `timestamp` and, where they
are known, `partition`, `offset` and `headers`; further ones are ignored. The work is done by Scala classes
(pipelines/jvm) that pass keys and values on as they are. The rules are those of Kafka Streams:

- Records of a key take their turns as jvm/Turns.scala says: in the order of offsets within a partition, of timestamps
  between partitions and sides. So a stream's record sees the table's records of its batch up to and including its own
  timestamp, and those of all earlier batches.
- A stream's record without a key or a value cannot join. It is dropped; but where a join keeps lonely records it comes
  out alone if it has a value. A table's record without a key is dropped; without a value it deletes.
- Stream time is the largest timestamp of all earlier batches, of both sides. Records later than an operator allows are
  dropped and counted by Spark (`numRowsDroppedByWatermark` in the query's progress).

The query's output mode is append. State lies in the query's checkpoint; Spark does not go on from it with other types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from ottla.pipelines.columns import from_java, scala, to_java

HEADERS = "array<struct<key:string,value:binary>>"


def stream_table(stream: DataFrame, table: DataFrame, how: Literal["inner", "left"]) -> DataFrame:
    """key, left, right, timestamp, headers: each stream record with the table's value of its key at its turn."""
    left, right, none = _type(stream, "value"), _type(table, "value"), _none("headers", HEADERS)
    headers = F.col("headers").cast(HEADERS).alias("headers") if "headers" in stream.columns else none
    entries = _side(0, _keyed(table), _none("left", left), F.col("value").alias("right"), none)
    records = _side(1, _joinable(stream, how == "left"), F.col("value").alias("left"), _none("right", right), headers)
    union = entries.union(records)
    return _frame(union, scala("ottla.Tables").streamTable(union._jdf, how == "left"))


def table_table(left: DataFrame, right: DataFrame, how: Literal["inner", "left", "outer"]) -> DataFrame:
    """key, left, right, timestamp: the joined row whenever a side changes; two nulls when it is no longer joined."""
    union = _union(_keyed(left), _keyed(right))
    return _frame(union, scala("ottla.Tables").tableTable(union._jdf, how != "outer", how == "inner"))


def stream_stream(
    left: DataFrame,
    right: DataFrame,
    before_ms: int,
    after_ms: int,
    grace_ms: int,
    how: Literal["inner", "left", "outer"],
) -> DataFrame:
    """key, left, right, timestamp: pairs whose right timestamp is in [left - before, left + after], at the later time.

    With `left` and `outer`, a record that has met nobody comes out alone, once, when stream time is past its window and
    the grace. A record more than before + after + grace behind stream time is late.
    """
    lonely_left, lonely_right = how != "inner", how == "outer"
    union = _union(_joinable(left, lonely_left), _joinable(right, lonely_right))
    union = union.withWatermark("timestamp", f"{before_ms + after_ms + grace_ms} milliseconds")
    spans = (ms * 1000 for ms in (before_ms, after_ms, grace_ms))
    return _frame(union, scala("ottla.StreamStream").join(union._jdf, *spans, lonely_left, lonely_right))


def changes(table: DataFrame) -> DataFrame:
    """key, old, new, timestamp: each change of a table's value; old is null for a new key, new for a deleted one."""
    rows = _side(0, _keyed(table), F.col("value"))
    return _frame(rows, scala("ottla.Tables").changes(rows._jdf))


def sessions(stream: DataFrame, gap_ms: int, grace_ms: int, *, final: bool = False) -> DataFrame:
    """key, start, end, values, timestamp: each session that a batch changes, with its values by time.

    A session is a run of records no more than the gap apart, from its first record's time to its last one's. Sessions
    that have grown or merged are first taken back: a row with their start and end and null as values. A record is late
    when stream time is more than gap + grace past it. `final`: a session comes once, when it has closed.
    """
    rows = _side(0, _keyed(stream), F.col("value")).withWatermark("timestamp", f"{gap_ms + grace_ms + 1} milliseconds")
    return _frame(rows, scala("ottla.RecordWindows").sessions(rows._jdf, gap_ms * 1000, final))


def sliding(stream: DataFrame, difference_ms: int, grace_ms: int, *, final: bool = False) -> DataFrame:
    """key, start, end, values, timestamp: each sliding window that a batch changes, with its values by time.

    Windows are Kafka's and include both their start and their end: one ends at each record's time; one starts a
    millisecond after it, once there are records in it. The timestamp is that of the last record. A record is late when
    stream time is more than difference + grace past it. `final`: a window comes once, when it has closed.
    """
    delay = f"{difference_ms + grace_ms + 1} milliseconds"
    rows = _side(0, _keyed(stream), F.col("value")).withWatermark("timestamp", delay)
    return _frame(rows, scala("ottla.RecordWindows").sliding(rows._jdf, difference_ms * 1000, final))


def top_n(value: Column, order: Column, n: int, *, lowest: bool = False) -> Column:
    """An aggregate: the values of the n rows with the highest (or lowest) order, best first.

    At equal order the lower value goes first, whatever the order of the records. State has no more than n values.
    """
    return from_java(scala("ottla.TopN").column(to_java(value), to_java(order), n, lowest))


def global_lookup(key: Column, topic: str, bootstrap: str, options: Mapping[str, str] | None = None) -> Column:
    """The bytes that a topic has as the newest value of a key (bytes), or null; also in real-time mode.

    Each executor keeps the whole topic in memory, by a consumer of its own, and closes it with the application or when
    nobody has asked for a while. Whatever was committed before a task began is seen by it; later values may be, so a
    batch that is run again need not give the same.

    options: settings of Kafka's consumer, by their Kafka names.
    """
    settings = {
        **(options or {}),
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
    }
    context = scala("org.apache.spark.SparkContext").getOrCreate()
    return from_java(scala("ottla.GlobalTable").lookup(to_java(key), topic, settings, context))


def _keyed(frame: DataFrame) -> DataFrame:
    return frame.where(F.col("key").isNotNull())


def _joinable(stream: DataFrame, lonely: bool) -> DataFrame:
    present = stream.where(F.col("value").isNotNull())
    return present if lonely else _keyed(present)


def _union(left: DataFrame, right: DataFrame) -> DataFrame:
    lefts, rights = _type(left, "value"), _type(right, "value")
    return _side(0, left, F.col("value").alias("left"), _none("right", rights)).union(
        _side(1, right, _none("left", lefts), F.col("value").alias("right"))
    )


def _side(side: int, frame: DataFrame, *columns: Column) -> DataFrame:
    """The columns that jvm/Turns.scala wants first, then these."""
    place = [
        F.col(name).cast(kind).alias(name) if name in frame.columns else _none(name, kind)
        for name, kind in (("partition", "int"), ("offset", "long"))
    ]
    return frame.select("key", F.lit(side).cast("byte").alias("side"), "timestamp", *place, *columns)


def _none(name: str, kind: DataType | str) -> Column:
    return F.lit(None).cast(kind).alias(name)


def _type(frame: DataFrame, column: str) -> DataType:
    return frame.schema[column].dataType


def _frame(like: DataFrame, java: Any) -> DataFrame:
    return DataFrame(java, like.sparkSession)
