"""Consecutive Python steps as one mapInArrow over the record frame.

A batch goes through code made for its steps (python_code.py): lists of the columns that functions read in, lists of
cells out, everything else (timestamp, headers, an untouched key) stays in Arrow and is only selected by row.

Rows of records in which a function failed, or whose result does not fit its serde, come out too, with a `reason`
("ValueError in map_values: invalid literal …"), for pipelines/poison.py to deal with as the policy says. The traceback
of the first of each task goes to the log of the worker.

Frame of run():           key, value, then timestamp, headers, topic, partition, offset as far as the input has them,
                          reason, raw_key, raw_value; key and value are null where reason is not, and raw_key and
                          raw_value (the record that failed, as bytes) null where it is.
Frame of run_to_sinks():  topic, partition, key, value (bytes), headers, timestamp, offset, reason. A row with a reason
                          is the record that failed: its topic, partition, offset and bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde
from ottla.streams.python_code import Code, Typed, arrow_writes, compiled
from ottla.streams.shipping import Parcel, parcel
from ottla.streams.steps import Record, Step, Tree

CARRIED: dict[str, DataType] = {
    "timestamp": TimestampType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
}
REASON_LENGTH = 500

log = logging.getLogger("ottla.streams")


def run(
    frame: DataFrame, key: Serde, value: Serde, steps: Sequence[Step], *, out_key: Serde, out_value: Serde, name: str
) -> DataFrame:
    """The frame after a chain of steps, its key and value typed by `out_key` and `out_value`."""
    work = Work(Tree(tuple(steps)), key, value, Typed(out_key, out_value), name)
    return _apply(frame, work)


def run_to_sinks(frame: DataFrame, key: Serde, value: Serde, tree: Tree, *, name: str) -> DataFrame:
    """The rows for the sink that a tree of steps makes of a frame."""
    return _apply(frame, Work(tree, key, value, None, name))


@dataclass(frozen=True, slots=True)
class Work:
    """All that a worker needs to know of a stage."""

    tree: Tree
    key: Serde
    value: Serde
    end: Typed | None
    name: str

    def schema(self, columns: Sequence[str]) -> StructType:
        """The schema of what comes out, for an input with these columns."""
        kinds: dict[str, DataType]
        if self.end is None:
            kinds = {"topic": StringType(), "partition": IntegerType(), "key": BinaryType(), "value": BinaryType()}
            kinds |= {name: CARRIED[name] for name in ("headers", "timestamp", "offset")} | {"reason": StringType()}
        else:
            kinds = {"key": self.end.key.type, "value": self.end.value.type}
            kinds |= {name: kind for name, kind in CARRIED.items() if name in columns}
            kinds |= {"reason": StringType(), "raw_key": BinaryType(), "raw_value": BinaryType()}
        return StructType([StructField(name, kind) for name, kind in kinds.items()])

    def functions(self) -> Iterator[tuple[str, object]]:
        yield from _functions(self.tree)


def _functions(tree: Tree) -> Iterator[tuple[str, object]]:
    for step in tree.steps:
        yield step.label, step.function
    for output in tree.outputs:
        yield output.label, output.topic
    for case in tree.split:
        yield case.name, case.when
    for branch in [*tree.branches, *(case.then for case in tree.split)]:
        yield from _functions(branch)


def _apply(frame: DataFrame, work: Work) -> DataFrame:
    compiled(work.tree, work.key, work.value, work.end)  # says what is wrong before anything runs
    wanted = ["key", "value", *(name for name in CARRIED if name in frame.columns)]
    if "headers" in wanted:  # Arrow's Java writer takes time in the square of a batch for lists that are all null
        frame = frame.withColumn("headers", F.coalesce("headers", F.array()))
    schema = work.schema(wanted)
    return frame.select(*wanted).mapInArrow(_in_worker(parcel(work, work.functions()), schema), schema)


def _in_worker(sent: Parcel, schema: StructType) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage = Stage(sent.open(), schema)
        for batch in batches:
            yield from stage(batch)

    return each


class Stage:
    """A stage in the process that runs it: Arrow batches in, Arrow batches out. Needs no Spark session."""

    def __init__(self, work: Work, schema: StructType) -> None:
        self.work = work
        self.code: Code = compiled(work.tree, work.key, work.value, work.end)
        self.schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self.told = False

    def __call__(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The outputs of a batch, then the records of it that failed, if any."""
        code, failures = self.code, _Failures(self)
        rows: Sequence[int] = []  # of the record of each output
        columns: tuple[list[Any], ...] = tuple([] for _ in code.columns)
        keys = batch.column("key").to_pylist() if "key" in code.uses else []
        values = batch.column("value").to_pylist() if "value" in code.uses else []
        record = _records(batch) if "record" in code.uses else None
        code.run(batch.num_rows, keys, values, record, rows, columns, failures)
        if code.straight:
            every = range(batch.num_rows)
            rows = [row for row in every if row not in failures.reasons] if failures.reasons else every
        made = self._arrays(columns, rows, failures)
        if made is None:  # cells that Arrow does not take: once more, without their records
            kept = [place for place, row in enumerate(rows) if row not in failures.reasons]
            rows = [rows[place] for place in kept]
            made = self._arrays([[column[place] for place in kept] for column in columns], rows, failures)
        assert made is not None
        if rows:
            yield self._outputs(batch, rows, made)
        if failures.reasons:
            yield self._rejects(batch, failures.reasons)

    def _arrays(
        self, columns: Sequence[list[Any]], rows: Sequence[int], failures: _Failures
    ) -> dict[str, pa.Array] | None:
        """Arrow's arrays of the collected cells, or None and the failures noted when some do not fit."""
        made = {}
        for name, cells in zip(self.code.columns, columns, strict=True):
            kind = self.schema.field(name).type
            try:
                made[name] = pa.array(cells, kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                for row, cell in zip(rows, cells, strict=True):
                    try:
                        pa.array([cell], kind)
                    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                        failures.note(row, self.code.setters.get(name, "to"), error)
        return made if len(made) == len(columns) else None

    def _outputs(self, batch: pa.RecordBatch, rows: Sequence[int], made: dict[str, pa.Array]) -> pa.RecordBatch:
        chosen = None if isinstance(rows, range) else pa.array(rows, pa.int32())
        sink = self.work.end is None
        arrays = []
        for entry in self.schema:
            name = entry.name
            carried = name in batch.schema.names and not (sink and name in ("topic", "partition", "offset"))
            if name in made:
                array = made[name]
            elif carried:
                array = batch.column(name)
                array = array if chosen is None else array.take(chosen)
                array = array if array.type == entry.type else array.cast(entry.type)
            elif sink and name == "topic":
                array = pa.repeat(pa.scalar(self.code.topic, pa.string()), len(rows))
            else:
                array = pa.nulls(len(rows), entry.type)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _rejects(self, batch: pa.RecordBatch, reasons: dict[int, str]) -> pa.RecordBatch:
        rows = pa.array(sorted(reasons), pa.int32())
        sink = self.work.end is None
        arrays = []
        for entry in self.schema:
            name = entry.name
            if name == "reason":
                array = pa.array([reasons[row] for row in rows.to_pylist()], pa.string())
            elif name in ("key", "value") and not sink:
                array = pa.nulls(len(rows), entry.type)
            elif name in ("key", "raw_key"):
                array = _raw(batch.column("key").take(rows), self.work.key)
            elif name in ("value", "raw_value"):
                array = _raw(batch.column("value").take(rows), self.work.value)
            elif name in batch.schema.names:
                array = batch.column(name).take(rows)
                array = array if array.type == entry.type else array.cast(entry.type)
            else:
                array = pa.nulls(len(rows), entry.type)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _Failures:
    """The records of a batch that failed: row → reason."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.reasons: dict[int, str] = {}

    def __call__(self, row: int, error: Exception) -> None:
        if isinstance(error, MemoryError):
            raise error
        self.note(row, self.stage.code.step(error), error)

    def note(self, row: int, step: str, error: Exception) -> None:
        reason = reason_of(error, step)
        self.reasons.setdefault(row, reason)
        if not self.stage.told:
            self.stage.told = True
            trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
            log.warning("%s: %s", self.stage.work.name, reason, exc_info=(type(error), error, trace))


def reason_of(error: Exception, step: str) -> str:
    """Why a record failed, in one line."""
    message = " ".join(str(error).split())
    reason = f"{type(error).__name__} in {step}" + (f": {message}" if message else "")
    return reason if len(reason) <= REASON_LENGTH else reason[: REASON_LENGTH - 3] + "..."


def _records(batch: pa.RecordBatch) -> Callable[[int, Any, Any], Record]:
    """What makes the Record of a row."""
    names = batch.schema.names
    nothing: list[Any] = [None] * batch.num_rows
    times = batch.column("timestamp").cast(pa.int64()).to_pylist() if "timestamp" in names else nothing
    headers = batch.column("headers").to_pylist() if "headers" in names else nothing
    topics, partitions, offsets = (
        batch.column(name).to_pylist() if name in names else nothing for name in ("topic", "partition", "offset")
    )

    def record(row: int, key: Any, value: Any) -> Record:
        time, carried = times[row], headers[row]
        pairs = None if carried is None else [(header["key"], header["value"]) for header in carried]
        time = None if time is None else time // 1000
        return Record(key, value, time, pairs, topics[row], partitions[row], offsets[row])

    return record


def _raw(cells: pa.Array, serde: Serde) -> pa.Array:
    """The bytes that cells of a serde's column came from, as far as they can be had."""
    if arrow_writes(serde) is not None:
        return cells.cast(pa.binary())
    return pa.array([raw_bytes(cell, serde) for cell in cells.to_pylist()], pa.binary())


def raw_bytes(cell: Any, serde: Serde) -> bytes | None:
    """The bytes that a cell came from; None where that cannot be told."""
    try:
        return serde.dumps(serde.to_python(cell))
    except (PipelineError, ValueError):
        return None
