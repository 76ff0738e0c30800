"""From the queries of a plan to DataFrames: one frame of records per query, ready for the sink.

Steps that Spark can do natively become columns; Python functions become stages over Arrow batches (python_stage.py);
joins and windows that Spark has not are operators of our own (operators.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipelines import poison, topics
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde
from ottla.streams import aggregates, operators, processors, python_stage, steps
from ottla.streams import topology as T
from ottla.streams.frames import ORIGIN, Frame
from ottla.streams.functions import column, is_native
from ottla.streams.outputs import (
    SIGN,
    Target,
    callable_topic_is_native,
    python_output,
    shared,
    sink_frame,
    sink_struct,
)
from ottla.streams.plan import Plan, Query
from ottla.streams.reading import Reading
from ottla.streams.stepping import (
    as_timestamp,
    native_step,
    pair,
    python_step,
    saying,
    sound,
    unless_deleted,
    with_key,
)
from ottla.streams.types import Pair, common, convert, returned, serde_of_type

Mode = Literal["append", "update"]


@dataclass(frozen=True, slots=True)
class Compiled:
    query: Query
    frame: DataFrame  # columns of the sink
    mode: Mode


class Compiler:
    def __init__(self, spark: SparkSession, plan: Plan, reading: Reading) -> None:
        self._spark = spark
        self._plan = plan
        self._reading = reading
        self._serdes: dict[T.Node, tuple[Serde, Serde]] = {}  # of what lies in internal topics
        self._signed: set[T.Node] = set()
        self.written: dict[str, tuple[Serde, Serde]] = {}  # of the topics that the queries write, by name

    def compile(self) -> list[Compiled]:
        """The plan's queries, those that write a topic before those that read it."""
        return [self._compile(query) for query in self._plan.queries]

    def frame_of(self, node: T.Node) -> DataFrame:
        """The records after a node, in a query of its own (with all that is above it)."""
        query = Query(node.name, [node])
        return self._run(self._frame(query, node)).df

    def serdes_of(self, node: T.Node) -> tuple[Serde, Serde]:
        if isinstance(node, T.Source | T.Global):
            return node.key, node.value
        return self._serdes[node]

    def _compile(self, query: Query) -> Compiled:
        if len(query.outputs) > 1:
            frame = self._fused(query)
        else:
            (output,) = query.outputs
            frame = self._foreach(query, output) if isinstance(output, T.Foreach) else self._out(query, output)
        return Compiled(query, frame, self._mode(query))

    def _mode(self, query: Query) -> Mode:
        node = query.stateful()
        if node is None:
            return "append"
        return "update" if isinstance(node, T.Aggregate) and aggregates.is_updating(node) else "append"

    # -- into the query ------------------------------------------------------------------------------------------

    def _frame(self, query: Query, node: T.Node) -> Frame:
        if query.is_input(node) and node not in query.outputs:
            return self._read(query, node)
        return self._work(query, node)

    def _work(self, query: Query, node: T.Node) -> Frame:
        """The records that a node makes of those of its parents."""
        match node:
            case T.Source():
                return self._read(query, node)
            case T.Step():
                return self._step(self._frame(query, node.parents[0]), node)
            case T.Through():
                return self._frame(query, node.parents[0])
            case T.Merge():
                return self._merge([self._frame(query, parent) for parent in node.parents], node)
            case T.Aggregate():
                frame = self._run(self._frame(query, node.parents[0]))
                with saying(node.name):
                    return aggregates.aggregate(frame, node, self._reading)
            case T.Join():
                left, right = (self._run(self._frame(query, parent)) for parent in node.parents)
                return self._join(left, right, node)
            case T.Lookup():
                return self._lookup(self._run(self._frame(query, node.parents[0])), node)
            case T.Changes():
                return self._changes(self._frame(query, node.parents[0]), node)
            case T.Process():
                return self._process(self._run(self._frame(query, node.parents[0])), node)
            case T.Frames():
                return self._user_frame(query, node)
        raise PipelineError(f"{node.name} has no records of its own")

    def _read(self, query: Query, node: T.Node) -> Frame:
        wake = query.stateful() is not None  # its timers and windows may be due
        if isinstance(node, T.Source):
            frame = self._topics(
                re.compile(node.pattern) if node.pattern else list(node.topics),
                node.key,
                node.value,
                node.name,
                self._reading.start(node),
                wake,
            )
            if node.timestamp is not None:
                with saying(f"the timestamp of {node.name}"):
                    moment = column(node.timestamp, frame.columns, node.name)
                    frame = frame.withColumn("timestamp", as_timestamp(moment, frame))
            if node.table:
                frame = _rows(frame)
            return Frame(frame, node.key, node.value)
        if node not in self._serdes:
            raise PipelineError(f"{node.name} is read before it is written; this is a bug")
        key, value = self._serdes[node]
        topic = self._plan.topic_of(node)
        df = self._topics([topic], key, value, node.name, self._reading.start_of(topic), wake)
        if node in self._signed:
            sign = F.filter("headers", lambda header: header["key"] == SIGN)[0]["value"].cast("string").cast("int")
            return Frame(df.withColumn("sign", sign), key, value, signed=True)
        return Frame(df, key, value)

    def _topics(
        self,
        names: re.Pattern[str] | list[str],
        key: Serde,
        value: Serde,
        step: str,
        start: topics.Start,
        wake: bool,
    ) -> DataFrame:
        reading = self._reading
        return topics.read(
            self._spark,
            reading.bootstrap,
            names,
            key,
            value,
            starting=start,
            max_per_batch=reading.max_per_batch,
            headers=True,
            real_time=reading.real_time,
            wake=wake,
            poisoned=reading.poisoned,
            step=step,
            options=reading.options,
        )

    # -- stateless steps -----------------------------------------------------------------------------------------

    def _step(self, frame: Frame, node: T.Step) -> Frame:
        if is_native(node.function):
            return self._native_step(self._run(frame), node)
        return python_step(frame, node)

    def _native_step(self, frame: Frame, node: T.Step) -> Frame:
        with saying(node.name):
            return native_step(frame, node)

    def _run(self, frame: Frame) -> Frame:
        """The frame with the Python steps that waited done."""
        if not frame.waiting:
            return frame
        key, value = frame.key_after, frame.value_after
        name = "-".join(step.label for step in frame.waiting)
        df = python_stage.run(frame.df, frame.key, frame.value, frame.waiting, out_key=key, out_value=value, name=name)
        return Frame(self._sound(df, name), key, value)

    def _sound(self, df: DataFrame, step: str) -> DataFrame:
        return sound(df, self._reading.poisoned, step=step, bootstrap=self._reading.bootstrap)

    def _merge(self, frames: Sequence[Frame], node: T.Merge) -> Frame:
        done = [self._run(frame) for frame in frames]
        first = done[0]
        key = common([frame.key for frame in done], loose=True)
        value = common([frame.value for frame in done], loose=True)
        if key is None or value is None:
            kinds = " and ".join(dict.fromkeys(f"{frame.key}, {frame.value}" for frame in done))
            raise PipelineError(f"{node.name} merges streams of different types: {kinds}")
        df, *others = (frame.to(key, value).df for frame in done)
        for other in others:
            df = df.unionByName(other, allowMissingColumns=True)
        return replace(first, df=df, key=key, value=value)

    def _user_frame(self, query: Query, node: T.Frames) -> Frame:
        if node.parents:
            before = self._run(self._frame(query, node.parents[0]))
            df = node.change(before.df)
            key, value = before.key, before.value
            known = {"key": key, "value": value}
        else:
            df, known = node.change(self._spark), {}
        for name in ("key", "value"):
            if name not in df.columns:
                raise PipelineError(
                    f"{node.name}: the DataFrame has no column {name!r}; it has {', '.join(df.columns)}"
                )
        found = {}
        for name, declared in (("key", node.key), ("value", node.value)):
            type_ = df.schema[name].dataType
            before_serde = known.get(name)
            same = before_serde is not None and before_serde.type == type_
            found[name] = declared or (before_serde if same and before_serde else serde_of_type(type_, node.name))
        if "timestamp" not in df.columns:
            df = df.withColumn("timestamp", F.current_timestamp())
        return Frame(df, found["key"], found["value"])

    # -- stateful steps ------------------------------------------------------------------------------------------

    def _join(self, left: Frame, right: Frame, node: T.Join) -> Frame:
        key = common([left.key, right.key])
        if key is None:
            raise PipelineError(
                f"{node.name} joins by key, and the keys have different types: {left.key} and {right.key}"
            )
        left, right = left.to(key, left.value), right.to(key, right.value)
        if node.kind == "stream_table":
            df = operators.stream_table(left.df, right.df, _inner_or_left(node.how))
        elif node.kind == "table_table":
            df = operators.table_table(left.df, right.df, node.how)
        else:
            assert node.window is not None
            window = node.window
            sides = self._in_time(left, node), self._in_time(right, node)
            df = operators.stream_stream(*sides, window.before_ms, window.after_ms, window.grace_ms, node.how)
        return pair(df, left.key, left.value, right.value)

    def _in_time(self, frame: Frame, node: T.Join) -> DataFrame:
        """A side of a join without the records that come too late for it; its watermark has the join's window."""
        return poison.late(
            frame.df,
            F.timestamp_millis(F.unix_millis("timestamp") + 1),
            self._reading.late,
            step=node.name,
            bootstrap=self._reading.bootstrap,
            record={"key": frame.key.encode(F.col("key")), "value": frame.value.encode(F.col("value"))},
        )

    def _lookup(self, frame: Frame, node: T.Lookup) -> Frame:
        table = node.table_node
        present = replace(frame, df=frame.df.where(F.col("value").isNotNull()))
        asked, serdes = self._beside(present, node.name, {"asked": (node.key_function, None)})
        row = operators.global_lookup(
            table.key.encode(convert(F.col("asked"), serdes["asked"], table.key)),
            table.topic,
            self._reading.bootstrap,
            self._reading.options,
        )
        df = asked.withColumns({"left": F.col("value"), "right": table.value.decode(row)})
        if node.how == "inner":
            df = df.where(F.col("right").isNotNull())
        return pair(df.drop("asked"), frame.key, frame.value, table.value)

    def _changes(self, frame: Frame, node: T.Changes) -> Frame:
        """Two records per change of a row: its old value leaves a group, its new one joins one."""
        before = self._run(frame)
        wanted = {"group": (node.key_function, node.key)}
        if node.value_function is not None:
            wanted["content"] = (node.value_function, node.value)
        df, serdes = self._beside(before, node.name, wanted, table=True)
        content = F.col("content" if "content" in wanted else "value").alias("content")
        row = F.when(F.col("value").isNotNull(), F.struct("group", content))
        changed = operators.changes(df.withColumn("value", row).drop("group", "content"))
        sides = (
            F.struct(F.col("old").alias("row"), F.lit(-1).alias("sign")),
            F.struct(F.col("new").alias("row"), F.lit(1).alias("sign")),
        )
        each = changed.withColumn("each", F.explode(F.array(*sides))).where("each.row is not null")
        made = each.select(
            F.col("each.row.group").alias("key"),
            F.col("each.row.content").alias("value"),
            F.col("each.sign").alias("sign"),
            "timestamp",
        )
        return Frame(made, serdes["group"], serdes.get("content", before.value), signed=True)

    def _beside(
        self, frame: Frame, step: str, wanted: Mapping[str, tuple[Any, Serde | None]], *, table: bool = False
    ) -> tuple[DataFrame, dict[str, Serde]]:
        """The frame with more columns, each of what a function makes of key and value; and the columns' serdes.

        All Python functions run in one stage. `table`: they are not called for deletions.
        """
        serdes: dict[str, Serde] = {}
        call, value, waiting = unless_deleted if table else with_key, frame.value, frame
        python = [name for name, (function, _) in wanted.items() if not is_native(function)]
        for depth, name in enumerate(python):
            function, declared = wanted[name]
            serdes[name] = declared or returned(function)
            value = Pair(serdes[name], value, (name, "value"))
            add = steps.MapValuesWithKey(_adding(call(function, step), depth), step)
            waiting = waiting.then(add, frame.key, value)
        df = self._run(waiting).df
        for name in reversed(python):
            df = df.withColumns({name: F.col("value")[name], "value": F.col("value.value")})
        for name, (function, declared) in wanted.items():
            if name not in python:
                with saying(step):
                    df = df.withColumn(name, column(function, frame.df.columns, step))
                    made = serde_of_type(df.schema[name].dataType, step)
                    serdes[name] = declared or made
                    df = df.withColumn(name, convert(F.col(name), made, serdes[name]))
        return df, serdes

    def _process(self, frame: Frame, node: T.Process) -> Frame:
        key, value = node.key or frame.key, node.value or frame.value
        df = processors.process(
            frame.df,
            frame.key,
            frame.value,
            node.processor,
            out_key=key,
            out_value=value,
            time_mode=node.time,
            name=node.name,
        )
        return Frame(self._sound(df, node.name).drop("topic", "partition", "offset"), key, value)

    # -- out of the query ----------------------------------------------------------------------------------------

    def _out(self, query: Query, output: T.Node) -> DataFrame:
        inside = output.parents[0] if isinstance(output, T.Sink | T.Through) else output
        frame = self._frame(query, inside) if inside is not output else self._work(query, inside)
        target = self._target(frame, output)
        if frame.waiting and not callable_topic_is_native(target):
            tree = steps.Tree(frame.waiting, (python_output(target, output.name),))
            df = self._sound(
                python_stage.run_to_sinks(frame.df, frame.key, frame.value, tree, name=output.name), output.name
            )
        else:
            df = sink_frame(self._run(frame), target, output.name)
        return _rows(df) if isinstance(output, T.Through) and output.table else df

    def _target(self, frame: Frame, output: T.Node) -> Target:
        """Where the records of an output go, and as what."""
        if isinstance(output, T.Sink):
            target = Target(output.topic, output.key or frame.key_after, output.value or frame.value_after)
            if isinstance(output.topic, str):
                self.written[output.topic] = (target.key, target.value)
            return target
        self._serdes[output] = (frame.key_after, frame.value_after)
        if frame.signed:
            self._signed.add(output)
        self.written[self._plan.topic_of(output)] = self._serdes[output]
        return Target(self._plan.topic_of(output), frame.key_after, frame.value_after)

    def _foreach(self, query: Query, output: T.Foreach) -> DataFrame:
        frame = self._frame(query, output.parents[0])
        frame = frame.then(steps.Peek(output.function, output.name), frame.key_after, frame.value_after)
        return self._run(frame).df

    def _fused(self, query: Query) -> DataFrame:
        """One pass for several outputs: each record of what they share becomes a record of each that takes it."""
        root, paths = shared(query)
        frame = self._run(self._frame(query, root) if root not in query.outputs else self._work(query, root))
        if query.fused == "python":
            return self._fused_python(frame, paths)
        return self._fused_native(frame, paths)

    def _fused_native(self, frame: Frame, paths: Sequence[Sequence[T.Node]]) -> DataFrame:
        kept = [name for name in frame.df.columns if name not in ORIGIN]
        df = frame.df.withColumn("__root", F.struct(*kept))
        made = []
        for number, path in enumerate(paths):
            *middle, output = path
            branch = replace(frame, df=df.withColumns({name: F.col("__root")[name] for name in kept}))
            branch = replace(branch, df=branch.df.withColumn("__keep", F.lit(True)))
            for node in middle:
                assert isinstance(node, T.Step)
                with saying(node.name):
                    branch = native_step(branch, node, keep="__keep")
            if not isinstance(output, T.Sink) and isinstance(output, T.Step):
                with saying(output.name):
                    branch = native_step(branch, output, keep="__keep")
            record = sink_struct(branch, self._target(branch, output), output.name)
            df = branch.df.withColumn(f"__out{number}", F.when(F.col("__keep"), record))
            made.append(F.col(f"__out{number}"))
        each = F.explode(F.filter(F.array(*made), lambda record: record.isNotNull()))
        return df.select(each.alias("record")).select("record.*")

    def _fused_python(self, frame: Frame, paths: Sequence[Sequence[T.Node]]) -> DataFrame:
        name = "-".join(path[-1].name for path in paths)
        tree = steps.Tree(branches=self._branches(frame, paths))
        df = python_stage.run_to_sinks(frame.df, frame.key, frame.value, tree, name=name)
        return self._sound(df, name)

    def _branches(self, frame: Frame, paths: Sequence[Sequence[T.Node]]) -> tuple[steps.Tree, ...]:
        """The steps on the paths to outputs as trees: a step that several of them share is there once."""
        below: dict[T.Node, list[Sequence[T.Node]]] = {}
        for first, *rest in paths:
            below.setdefault(first, []).append(rest)
        trees = []
        while below:
            node = next(iter(below))
            rests = below.pop(node)
            if (other := next((other for other in below if _is_split(node, other)), None)) is None:
                trees.append(self._branch(frame, node, rests))
                continue
            assert isinstance(node, T.Step)
            yes, no = (self._branch(frame, *one, chosen=True) for one in ((node, rests), (other, below.pop(other))))
            function: Any = node.function
            trees.append(steps.Tree(split=(steps.Case(function, yes, node.name), steps.Case(None, no, other.name))))
        return tuple(trees)

    def _branch(
        self, frame: Frame, node: T.Node, rests: Sequence[Sequence[T.Node]], chosen: bool = False
    ) -> steps.Tree:
        """A node and what is below it. `chosen`: whether a record passes it is known already."""
        after = python_step(frame, node) if isinstance(node, T.Step) else frame
        chain, after = () if chosen else after.waiting, replace(after, waiting=())
        outputs = (python_output(self._target(after, node), node.name),) if [] in rests else ()
        return steps.Tree(chain, outputs, self._branches(after, [rest for rest in rests if rest]))


def _adding(call: Callable[[Any, Any], Any], depth: int) -> Callable[[Any, Any], Any]:
    """A function that puts what `call` makes of a value before it; so many others have done so already."""

    def add(key: Any, value: Any) -> Any:
        inner = value
        for _ in range(depth):
            inner = inner[1]
        return call(key, inner), value

    return add


def _rows(df: DataFrame) -> DataFrame:
    """What can be in a table: a record without a key says nothing of any row."""
    return df.where(F.col("key").isNotNull())


def _is_split(one: T.Node, other: T.Node) -> bool:
    """Whether records go to the one where a predicate holds, else to the other."""
    if not (isinstance(one, T.Step) and isinstance(other, T.Step)) or one.table:
        return False
    return (one.operation, other.operation) == ("filter", "filter_not") and one.function is other.function


def _inner_or_left(how: T.How) -> Literal["inner", "left"]:
    assert how != "outer"
    return how
