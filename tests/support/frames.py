"""Streaming frames that a test feeds batch by batch: Spark's own memory source, and what comes out of each batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

MEMORY = "org.apache.spark.sql.execution.streaming.runtime.MemoryStream"
EPOCH = 1_700_000_000_000  # what millisecond 0 of a story is: a watermark cannot lie before 1970


Record = tuple[Any, Any, int]


class Feed:
    """Topics of one memory source, so that what is added at once is one batch.

    Records are tuples (key, value, time); a time is in milliseconds from the start of the story. Offsets count on.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._spark = spark
        self._jvm = jvm
        self._stream = getattr(jvm, MEMORY).apply(jvm.org.apache.spark.sql.Encoders.STRING(), spark._jsparkSession)
        self._offset = 0

    def frame(self, topic: str, value: str = "string", key: str = "string") -> DataFrame:
        schema = f"topic string, key {key}, value {value}, time long, partition int, offset long"
        texts = DataFrame(self._stream.toDF(), self._spark)
        record = texts.select(F.from_json("value", schema).alias("record")).select("record.*")
        time = F.timestamp_millis(F.col("time") + EPOCH).alias("timestamp")
        return record.where(F.col("topic") == topic).select("key", "value", time, "partition", "offset")

    def add(self, partition: int = 0, **topics: list[Record]) -> None:
        """One batch: for each topic its records in the order of their offsets."""
        texts = []
        for topic, records in topics.items():
            for key, value, time in records:
                place = {"topic": topic, "partition": partition, "offset": self._offset}
                texts.append(json.dumps({"key": key, "value": value, "time": time, **place}))
                self._offset += 1
        java = self._jvm.java.util.ArrayList(texts)
        self._stream.addData(self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(java).toSeq())


class Running:
    """A query over feeds. `rows()` runs all batches that are due and gives what came out since the last time."""

    def __init__(self, frame: Callable[[], DataFrame], checkpoint: Path, mode: str = "append") -> None:
        self._frame = frame
        self._checkpoint = checkpoint
        self._mode = mode
        self._out: list[tuple[Any, ...]] = []
        self.query: StreamingQuery
        self.start()

    def start(self) -> None:
        frame = self._frame()
        writer = frame.writeStream.outputMode(self._mode).option("checkpointLocation", str(self._checkpoint))
        with _one_partition(frame.sparkSession):
            self.query = writer.foreachBatch(self._take).start()

    def restart(self) -> None:
        self.query.stop()
        self.start()

    def _take(self, batch: DataFrame, _number: int) -> None:
        self._out.extend(tuple(plain(cell) for cell in row) for row in batch.collect())

    def rows(self) -> list[tuple[Any, ...]]:
        self.query.processAllAvailable()
        rows, self._out = self._out, []
        return rows

    @property
    def late(self) -> int:
        """How many records were dropped as late since the query started."""
        return sum(
            operator["numRowsDroppedByWatermark"]
            for progress in self.query.recentProgress
            for operator in progress["stateOperators"]
        )


Run = Callable[..., Running]  # the fixture `run`


@contextmanager
def _one_partition(spark: SparkSession) -> Iterator[None]:
    """Few records need no two; a query keeps what was set when it started."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        yield
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def plain(cell: Any) -> Any:
    """Timestamps as milliseconds of the story, rows as tuples."""
    if hasattr(cell, "timestamp"):
        return round(cell.timestamp() * 1000) - EPOCH
    if isinstance(cell, Row):
        return tuple(plain(inner) for inner in cell)
    if isinstance(cell, list):
        return [plain(inner) for inner in cell]
    return cell
