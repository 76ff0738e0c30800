"""Python state of all kinds, in one query, over numbered records; what comes out says numbering_model.py."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from numbering_model import BEGIN, GRACE, KEYS, RUNG, WINDOW, add, nothing
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.streams import Context, Json, Long, Processor, Record, Text, tumbling
from ottla.streams.processors import aggregate, process


class Number(Processor):
    """Numbers the records of a key, and rings once for each."""

    name = "event"

    def init(self, context: Context) -> None:
        self.count = context.value_state("count", Long)
        self.rung = context.value_state("rung", Long)
        self.last = context.list_state("last", Long)
        self.ends = context.map_state("ends", Text, Long)

    def process(self, record: Record) -> Iterator[tuple[str, Any]]:
        count, end = (self.count.get() or 0) + 1, str(record.value % 7)
        self.count.set(count)
        self.last.set([*self.last.get()[-2:], record.value])
        self.ends[end] = self.ends.get(end, 0) + 1
        self.context.register_timer(self.when(record, count))
        yield record.key, [self.name, count, self.last.get(), sorted(self.ends.items())]

    def on_timer(self, time: int) -> tuple[str, Any]:
        self.rung.set((self.rung.get() or 0) + 1)
        return self.context.key, self.ring(self.rung.get(), time)

    def when(self, record: Record, count: int) -> int:
        return record.timestamp

    def ring(self, count: int, time: int) -> list[Any]:
        return [f"{self.name} {RUNG}", count, time]


class NumberByClock(Number):
    name = "clock"

    def when(self, record: Record, count: int) -> int:
        return self.context.now + count  # later than all that the key has set before

    def ring(self, count: int, time: int) -> list[Any]:
        return [f"{self.name} {RUNG}", count]


def results(source: DataFrame) -> DataFrame:
    """key and value of what is made of a topic's rows, whose value begins with 8 digits."""
    number = F.substring("value", 1, 8).cast("string").cast("bigint")
    numbers = source.select(
        (number % KEYS).cast("string").alias("key"),
        number.alias("value"),
        F.timestamp_millis(number + BEGIN).alias("timestamp"),
        "partition",
        "offset",
    ).withWatermark("timestamp", f"{GRACE} milliseconds")  # one for all steps: with two, Spark takes the later
    parts = [
        process(numbers, Text, Long, Number, out_key=Text, out_value=Json, time_mode="event"),
        process(numbers, Text, Long, NumberByClock, out_key=Text, out_value=Json, time_mode="processing"),
        _named("fold", aggregate(numbers, Text, Long, init=nothing, add=add, result=Json)),
    ]
    window = tumbling(ms=WINDOW, grace=GRACE / 1000)
    windows = aggregate(numbers, Text, Long, init=nothing, add=add, result=Json, window=window, emit="final")
    parts.append(_named("window", windows, F.unix_millis("key.start")).withColumn("key", F.col("key.key")))
    sound = F.when(F.col("reason").isNull(), F.col("value")).otherwise(F.raise_error("reason"))
    made = [part.select(F.col("key").cast("binary"), sound.cast("binary").alias("value")) for part in parts]
    return functools.reduce(DataFrame.unionAll, made)


def _named(name: str, frame: DataFrame, *more: Any) -> DataFrame:
    parts = [F.lit(json.dumps(name)), *more, F.col("value")]
    return frame.withColumn("value", F.concat(F.lit("["), F.concat_ws(",", *parts), F.lit("]")))
