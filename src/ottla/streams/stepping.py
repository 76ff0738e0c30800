"""What a single stateless step does to a frame: one more Python step that waits, or native columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.pipelines import poison
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.explain import explain
from ottla.pipelines.serdes import Serde
from ottla.streams import steps
from ottla.streams import topology as T
from ottla.streams.frames import Frame
from ottla.streams.functions import column
from ottla.streams.types import Pair, convert, returned, returned_item, returned_pair, serde_of_type


def python_step(frame: Frame, node: T.Step) -> Frame:
    """The frame with one more Python step waiting."""
    key, value, name = frame.key_after, frame.value_after, node.name
    function: Any = node.function
    table = node.table
    match node.operation:
        case "map":
            made_key, made_value = returned_pair(function)
            return frame.then(steps.Map(function, name), node.key or made_key, node.value or made_value)
        case "flat_map":
            made_key, made_value = returned_pair(function, items=True)
            return frame.then(steps.FlatMap(function, name), node.key or made_key, node.value or made_value)
        case "map_values":
            made = node.value or returned(function)
            if table:
                return frame.then(steps.MapValuesWithKey(unless_deleted(function, name), name), key, made)
            return frame.then(steps.MapValues(function, name), key, made)
        case "join_values":
            made = node.value or returned(function)
            return frame.then(steps.MapValues(_of_pair(function), name), key, made)
        case "flat_map_values":
            return frame.then(steps.FlatMapValues(function, name), key, node.value or returned_item(function))
        case "filter" | "filter_not" if table:
            wanted = node.operation == "filter"
            return frame.then(steps.MapValuesWithKey(_kept_or_deleted(function, wanted, name), name), key, value)
        case "filter":
            return frame.then(steps.Filter(function, name), key, value)
        case "filter_not":
            return frame.then(steps.FilterNot(function, name), key, value)
        case "select_key":
            return frame.then(steps.SelectKey(function, name), node.key or returned(function), value)
        case "peek":
            return frame.then(steps.Peek(function, name), key, value)
    raise AssertionError(node.operation)


def native_step(frame: Frame, node: T.Step, keep: str | None = None) -> Frame:
    """The frame after a native step. With `keep`, records are not dropped but marked in the column of that name."""
    df, name = frame.df, node.name
    function: Any = node.function
    names = df.columns

    def of(part: Any) -> Column:
        return column(part, names, name)

    def typed(df: DataFrame, key: bool, value: bool) -> Frame:
        found = {"key": frame.key, "value": frame.value}
        for part, changed, declared in (("key", key, node.key), ("value", value, node.value)):
            if changed:
                made = serde_of_type(df.schema[part].dataType, name)
                found[part] = declared or made
                if found[part].type != made.type:
                    df = df.withColumn(part, convert(F.col(part), made, found[part]))
        return replace(frame, df=df, key=found["key"], value=found["value"])

    match node.operation:
        case "map":
            assert isinstance(function, tuple)
            return typed(df.withColumns({"key": of(function[0]), "value": of(function[1])}), True, True)
        case "map_values":
            made = F.when(F.col("value").isNotNull(), of(function)) if node.table else of(function)
            return typed(df.withColumn("value", made), False, True)
        case "join_values":
            sides = df.withColumns({"left": F.col("value.left"), "right": F.col("value.right")})
            made = column(function, sides.columns, name)
            if node.table:
                made = F.when(F.col("value").isNotNull(), made)
            return typed(sides.withColumn("value", made).drop("left", "right"), False, True)
        case "flat_map_values":
            return typed(df.withColumn("value", F.explode(of(function))), False, True)
        case "flat_map":
            each = df.withColumn("__each", F.explode(of(function)))
            pair_ = {"key": F.col("__each.key"), "value": F.col("__each.value")}
            return typed(each.withColumns(pair_).drop("__each"), True, True)
        case "select_key":
            return typed(df.withColumn("key", of(function)), True, False)
        case "filter" | "filter_not":
            holds = F.coalesce(of(function), F.lit(False))
            holds = holds if node.operation == "filter" else ~holds
            if node.table:
                return replace(frame, df=df.withColumn("value", F.when(holds, F.col("value"))))
            if keep is not None:
                return replace(frame, df=df.withColumn(keep, F.col(keep) & holds))
            return replace(frame, df=df.where(holds))
    raise PipelineError(f"{name} takes a Python function, not an expression")


def unless_deleted(function: Any, name: str) -> Callable[[Any, Any], Any]:
    """The function of a row, which is not called for one that is deleted."""
    call = with_key(function, name)
    return lambda key, value: None if value is None else call(key, value)


def _kept_or_deleted(predicate: Any, wanted: bool, name: str) -> Callable[..., Any]:
    call = with_key(predicate, name)
    return lambda key, value: value if value is not None and bool(call(key, value)) is wanted else None


def with_key(function: Any, name: str) -> Callable[[Any, Any], Any]:
    """A function of a value, or of key and value, as one of both."""
    asks = steps.arguments(function, ("value",), name)
    if asks == ("value",):
        return lambda key, value: function(value)
    if asks == ("key", "value"):
        return lambda key, value: function(key, value)
    raise PipelineError(f"{name}: a table's functions take (value) or (key, value); a row has no record of its own")


def _of_pair(joiner: Any) -> Callable[[Any], Any]:
    return lambda sides: None if sides is None else joiner(*sides)


def pair(df: DataFrame, key: Serde, left: Serde, right: Serde) -> Frame:
    """The frame of a join's columns `left` and `right`: a value of both, or none where both are missing."""
    both = F.when(F.col("left").isNotNull() | F.col("right").isNotNull(), F.struct("left", "right"))
    return Frame(df.withColumn("value", both).drop("left", "right"), key, Pair(left, right))


def sound(df: DataFrame, policy: poison.Policy, *, step: str, bootstrap: str) -> DataFrame:
    """What came out of a Python stage, without the records in which a function failed: the policy deals with those."""
    raw = {"key": F.col("raw_key"), "value": F.col("raw_value")} if "raw_key" in df.columns else None
    raised = F.substring_index("reason", " in ", 1)  # "ValueError in map_values: …"
    kept = poison.guard(df, F.col("reason"), policy, step=step, bootstrap=bootstrap, kind=raised, record=raw)
    if raw is None:  # rows for the sink: their offset was that of the record that failed
        kept = kept.drop("offset")
    return kept.drop("reason", "raw_key", "raw_value")


def as_timestamp(moment: Column, df: DataFrame) -> Column:
    """A moment as a timestamp: of a number, milliseconds since 1970; of text, ISO 8601."""
    type_ = df.select(moment.alias("t")).schema["t"].dataType.simpleString()
    if type_ in ("bigint", "int"):
        return F.timestamp_millis(moment)
    if type_ in ("double", "float"):
        return F.timestamp_millis((moment * 1000).cast("bigint"))
    return moment.cast("timestamp")


@contextmanager
def saying(step: str) -> Iterator[None]:
    """Spark's complaints about an expression, in one line that names the step."""
    try:
        yield
    except (AnalysisException, ParseException) as complaint:
        raise PipelineError(f"{step}: {explain(complaint)}") from None
