"""Python functions with a state for each key: what goes to and fro between jvm/PythonState.scala and a Python worker.

A task makes one pass: rows go to Python in Arrow batches, ordered by key and within a key in their turns; results,
states and timers come back as rows too. Keys and states are bytes on the way, values are typed columns.

To Python:    kind 2 once at first: `time` is the watermark (0: none), `offset` the time of the batch, in ms
              kind 0 a record: key and state (null: none) in the first row of its key only, then value, time, …
              kind 1 a timer of the key that is due at `time`
From Python:  kind 0 a result                      key, value, time, start, end, headers
                     or a record that failed       reason, raw_key, raw_value, time, headers, topic, partition, offset
              kind 1 a state                       at (the key that Spark knows), state (null: none)
              kind 2 a state and a result          all of both
              kind 3, 4 a timer to set, to delete  at, time

Records without a key have NO_KEY as theirs.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from ottla.pipelines.serdes import Json, Serde
from ottla.streams.python_stage import CARRIED, raw_bytes, reason_of
from ottla.streams.shipping import Parcel
from ottla.streams.types import Auto

DATA, TIMER, CLOCK = range(3)
RESULT, STATE, BOTH, SET_TIMER, DELETE_TIMER = range(5)
NO_KEY = b"ottla: no key \x00\x01\x02"

TimeMode = Literal["none", "event", "processing"]

log = logging.getLogger("ottla.streams")


def received(key: Serde, value: Serde) -> StructType:
    """The columns that come back, for results of these serdes. PythonState.scala knows where the first four are."""
    kinds: dict[str, DataType] = {
        "kind": ByteType(),
        "at": BinaryType(),
        "state": BinaryType(),
        "time": LongType(),
        "key": key.type,
        "value": value.type,
        "start": LongType(),
        "end": LongType(),
        "headers": CARRIED["headers"],
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "reason": StringType(),
        "raw_key": BinaryType(),
        "raw_value": BinaryType(),
    }
    return StructType([StructField(name, kind, name != "kind") for name, kind in kinds.items()])


def inside(serde: Serde) -> Serde:
    """The serde for bytes that stay between Spark and Python: those of Auto do not tell 5 from "5"."""
    return Json if serde == Auto else serde


def fitting(serde: Serde) -> Callable[[Any], Any]:
    """A function that makes a value a cell of the serde's column, or raises ValueError."""
    fit = serde.from_python

    def fitted(value: Any) -> Any:
        cell = fit(value)
        if cell.__class__ is str and not cell.isascii():
            cell.encode()  # UnicodeEncodeError here, not when Arrow makes a whole column of it
        return cell

    return fitted


class Pass(ABC):
    """One pass of a task through its keys. Subclasses say what happens to a key; what comes of it goes to `rows`."""

    name: str  # of the step
    value: Serde  # of the records

    def __init__(self, columns: StructType) -> None:
        self.columns: pa.Schema = to_arrow_schema(columns, timezone="UTC")
        self.rows: list[tuple[Any, ...]] = []
        self.watermark = 0
        self.now = 0
        self.told = False
        self.failed: set[int] = set()  # rows of this batch
        self.batch: Batch

    @abstractmethod
    def enter(self, at: bytes, state: bytes | None) -> None:
        """Records or timers of a key come."""

    @abstractmethod
    def record(self, row: int) -> None: ...

    @abstractmethod
    def timer(self, time: int) -> None: ...

    @abstractmethod
    def leave(self, first: int, last: int, mark: int) -> None:
        """All of the key has come, or all of it in this Arrow batch: write its state.

        It was entered, or gone on with, at row `first`, when there were `mark` rows of results.
        """

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        entered = False
        for arrow in batches:
            self.batch = batch = Batch(arrow)
            self.failed = set()
            states = arrow.column("state").to_pylist()
            first = mark = 0
            for row, (kind, key) in enumerate(zip(batch.kinds, batch.keys, strict=True)):
                if key is not None:
                    if entered:
                        self.leave(first, row - 1, mark)
                    first, mark, entered = row, len(self.rows), True
                    self.enter(key, states[row])
                if kind == DATA:
                    self.record(row)
                elif kind == TIMER:
                    self.timer(batch.times[row])
                else:
                    self.watermark, self.now = batch.times[row], batch.offsets[row]
            if entered:
                self.leave(first, arrow.num_rows - 1, mark)
            rows, self.rows = self.rows, []
            if rows:
                columns = zip(zip(*rows, strict=True), self.columns, strict=True)
                arrays = [pa.array(cells, column.type) for cells, column in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.columns)

    def add_result(
        self, time: int, key: Any, value: Any, bounds: tuple[Any, Any] = (None, None), headers: Any = None
    ) -> None:
        self.rows.append((RESULT, None, None, time, key, value, *bounds, headers, None, None, None, None, None, None))

    def add_state(self, at: bytes, state: bytes | None) -> None:
        self.rows.append((STATE, at, state, *[None] * 12))

    def add_both(
        self, at: bytes, state: bytes | None, time: int, key: Any, value: Any, bounds: tuple[Any, Any] = (None, None)
    ) -> None:
        self.rows.append((BOTH, at, state, time, key, value, *bounds, None, None, None, None, None, None, None))

    def add_timer(self, kind: int, at: bytes, time: int) -> None:
        self.rows.append((kind, at, None, time, *[None] * 11))

    def reject(self, row: int, error: Exception, key: bytes | None) -> None:
        """Note that a record has failed."""
        if row in self.failed:
            return
        self.failed.add(row)
        reason = reason_of(error, self.name)
        if not self.told:
            self.told = True
            trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
            log.warning("%s", reason, exc_info=(type(error), error, trace))
        batch = self.batch
        where = (batch.headers[row], batch.topics[row], batch.partitions[row], batch.offsets[row])
        raw = raw_bytes(batch.values[row], self.value)
        self.rows.append((RESULT, None, None, batch.times[row], *[None] * 4, *where, reason, key, raw))

    def reject_all(self, first: int, last: int, mark: int, error: Exception, key: bytes | None) -> None:
        """Take back the results of a key whose state cannot be written, and reject its records."""
        if self.batch.kinds[last] == TIMER:
            raise RuntimeError(f"{reason_of(error, self.name)} (after a timer)") from error
        self.rows[mark:] = [row for row in self.rows[mark:] if row[-3] is not None]
        for row in range(first, last + 1):
            self.reject(row, error, key)


class Batch:
    """The columns of an Arrow batch as lists, each made when it is first asked for."""

    def __init__(self, arrow: pa.RecordBatch) -> None:
        self._arrow = arrow
        self.kinds: list[int] = arrow.column("kind").to_pylist()
        self.keys: list[bytes | None] = arrow.column("key").to_pylist()
        self.times: list[int] = arrow.column("time").to_pylist()

    def __getattr__(self, name: str) -> Any:
        column = {"values": "value", "topics": "topic", "partitions": "partition", "offsets": "offset"}.get(name, name)
        made = self._arrow.column(column).to_pylist()
        setattr(self, name, made)
        return made


def keyed(
    frame: DataFrame, at: Column, columns: StructType, work: Parcel, *, time: TimeMode, ttl_ms: int = 0
) -> DataFrame:
    """What a Pass makes of a frame, with the columns of received(). `work` holds what makes the Pass: () -> Pass.

    `at` is the key that Spark is to know, binary. The frame has a watermark if `time` is "event".
    """
    rows = frame.select(
        at.alias("key"),
        F.lit(0).cast("byte").alias("side"),
        F.timestamp_micros(F.unix_micros("timestamp")).alias("timestamp"),  # itself, Spark would drop what is late
        _or_null(frame, "partition"),
        _or_null(frame, "offset"),
        "value",
        _or_null(frame, "headers"),
        _or_null(frame, "topic"),
    )
    function = UserDefinedFunction(_in_worker(work), columns, "keyed", PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    java: Any = frame.sparkSession._jvm
    made = java.org.apache.spark.sql.ottla.PythonState.apply(rows._jdf, function._judf, time, ttl_ms)
    return DataFrame(made, frame.sparkSession)


def results(made: DataFrame, *, windowed: bool = False) -> DataFrame:
    """The record frame of what `keyed` gives: key, value, timestamp, headers, and what poison.guard needs."""
    bounds = [F.timestamp_millis(name).alias(name) for name in ("start", "end")]
    key = F.when(F.col("reason").isNull(), F.struct("key", *bounds)) if windowed else F.col("key")
    kept = ["headers", "topic", "partition", "offset", "reason", "raw_key", "raw_value"]
    return made.select(key.alias("key"), "value", F.timestamp_millis("time").alias("timestamp"), *kept)


def watermarked(frame: DataFrame, delay_ms: int) -> DataFrame:
    """The frame with a watermark: the one it has, else one with this delay."""
    return frame if delay_of(frame) is not None else frame.withWatermark("timestamp", f"{delay_ms} milliseconds")


def delay_of(frame: DataFrame) -> int | None:
    """How far the watermark of a frame is behind the largest timestamp, in ms; None without one."""
    found: int | None = frame.schema["timestamp"].metadata.get("spark.watermarkDelayMs")
    return found


def _or_null(frame: DataFrame, name: str) -> Column:
    return (F.col(name) if name in frame.columns else F.lit(None)).cast(CARRIED[name]).alias(name)


def _in_worker(work: Parcel) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work.open()()(batches)

    return run
