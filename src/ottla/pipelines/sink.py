"""Rows into topics: starts the streaming query that writes a frame, by our own sink (jvm/Sink.scala).

A frame has the columns `topic` (string), `key` and `value` (binary or string), and where wanted `partition` (int; null:
by the key), `headers` (array<struct<key string, value binary>>) and `timestamp` (null: the time of writing).

    at_least_once  a batch that is run again after a crash is written again
    exactly_once   a transaction per batch and task, with a marker of the batch in it: readers with read_committed see
                   each row once. Asks of the query that a batch that is run again has the same rows in the same tasks:
                   no random repartition, no coalesce, and the order of tasks that `ottla.Source` keeps.

What fails while the query runs is put in words by explain.py.

Spark's real-time mode takes only Spark's own Kafka sink: at least once, and no timestamps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.pipelines.errors import PipelineError

Delivery = Literal["at_least_once", "exactly_once"]
Mode = Literal["append", "update"]

FORMAT = "ottla.Sink"


@dataclass(frozen=True, slots=True)
class Every:
    """A batch as soon as there is something to do, but not more often than this."""

    interval: str = "0 seconds"


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """What is there when the query starts, in as many batches as it takes; then the query ends."""


@dataclass(frozen=True, slots=True)
class RealTime:
    """Records as they come; `checkpoints` says how often progress is noted."""

    checkpoints: str = "5 minutes"


Trigger = Every | AvailableNow | RealTime


def write(
    frame: DataFrame,
    *,
    bootstrap: str,
    query: str,
    checkpoint: str,
    delivery: Delivery = "at_least_once",
    mode: Mode = "append",
    trigger: Trigger = Every(),  # noqa: B008
    options: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start the query that writes `frame` to the topics that its rows name.

    query: its name, its own in the cluster with exactly_once: transactional ids and markers go under it.
    options: settings of Kafka's producer, by their Kafka names.
    """
    if delivery not in ("at_least_once", "exactly_once"):
        raise PipelineError(f"delivery is at_least_once or exactly_once, not {delivery}")
    real_time = isinstance(trigger, RealTime)
    if real_time and delivery == "exactly_once":
        raise PipelineError(f"query {query}: real-time mode writes at least once: choose it or exactly_once")
    _check_columns(frame.schema, query)
    jvm: Any = frame.sparkSession._jvm
    if delivery == "exactly_once" and jvm.ottla.Source.isUnordered(frame._jdf):
        raise PipelineError(
            f"query {query}: exactly_once needs topics to be read by format('ottla.Source') in place of 'kafka', which "
            "gives rows to other tasks when a batch is run again"
        )
    if real_time and "timestamp" in frame.columns:
        raise PipelineError(f"query {query}: real-time mode cannot set timestamps: drop the column timestamp")
    writer = frame.writeStream.queryName(query).outputMode(mode).option("checkpointLocation", checkpoint)
    writer = writer.format("kafka" if real_time else FORMAT)
    for name, value in {"bootstrap.servers": bootstrap, **(options or {})}.items():
        writer = writer.option(f"kafka.{name}", value)
    if not real_time:
        writer = writer.option("delivery", delivery).option("query", query)
    return _triggered(writer, trigger).start()


def discard(
    frame: DataFrame,
    *,
    query: str,
    checkpoint: str,
    mode: Mode = "append",
    trigger: Trigger = Every(),  # noqa: B008
) -> StreamingQuery:
    """Start a query for what its steps do on the way; its rows go nowhere."""
    writer = frame.writeStream.queryName(query).outputMode(mode).option("checkpointLocation", checkpoint)
    return _triggered(writer.format("noop"), trigger).start()


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger:
        case Every(interval):
            return writer.trigger(processingTime=interval)
        case AvailableNow():
            return writer.trigger(availableNow=True)
        case RealTime(checkpoints):
            return writer.trigger(realTime=checkpoints)  # type: ignore[call-overload, no-any-return]


def _check_columns(schema: StructType, query: str) -> None:
    kinds: dict[str, tuple[str, tuple[type[DataType], ...]]] = {
        "topic": ("string", (StringType,)),
        "partition": ("int", (IntegerType,)),
        "key": ("binary or string", (BinaryType, StringType)),
        "value": ("binary or string", (BinaryType, StringType)),
        "headers": ("array<struct<key string, value binary>>", (ArrayType,)),
        "timestamp": ("timestamp", (TimestampType,)),
    }
    for name in ("topic", "value"):
        if name not in schema.names:
            raise PipelineError(f"query {query}: the frame to write has no column {name}")
    for field in schema:
        if field.name not in kinds:
            raise PipelineError(
                f"query {query}: the frame to write has a column {field.name}; a record has {', '.join(kinds)}"
            )
        wanted, types = kinds[field.name]
        if not isinstance(field.dataType, types):
            raise PipelineError(
                f"query {query}: column {field.name} is {field.dataType.simpleString()} and must be {wanted}"
            )
