"""One value per key, or per key and window.

    count, expressions                    Spark's own aggregation; tumbling and hopping windows are Spark's
    session windows, final only           Spark's session_window, which ends a gap after Kafka's
    session windows with every update,    operators of our own that give all values of a window; the aggregates are
    sliding windows                       then made of that list
    Python functions                      processors.py

As in Kafka Streams, the timestamp of a result is the largest one of the records in it. Records without a key are
dropped: they belong to no group. So are those without a value; but tumbling, hopping and session windows take them in.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.pipelines import poison
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Int, Long, Serde, Windowed
from ottla.streams import operators, processors, python_stage, steps
from ottla.streams import topology as T
from ottla.streams.aggregate_functions import Best
from ottla.streams.frames import Frame
from ottla.streams.functions import Expression, Native, column
from ottla.streams.reading import Reading
from ottla.streams.stepping import sound
from ottla.streams.types import ListOf, Pair, returned, serde_of_type
from ottla.streams.windows import Window

ALIGNED = ("ottla.window.size", "ottla.window.advance")  # of jvm/WindowEnds.scala


def aggregate(frame: Frame, node: T.Aggregate, reading: Reading) -> Frame:
    """The table that an aggregate makes of its records."""
    keyed, window = frame.df.where(F.col("key").isNotNull()), node.window
    if window is None or window.kind == "sliding":
        keyed = keyed.where(F.col("value").isNotNull())
    if window is not None:
        if not _is_of_lists(node):  # the operators of lists set a watermark of their own
            after = 1 if window.kind == "session" else 0  # the end belongs to a session, not to the others
            if window.kind != "session":  # aligned to the clock: Spark hands this on to the windows' column
                keyed = keyed.withMetadata("timestamp", dict(zip(ALIGNED, (window.size_ms, window.advance_ms))))
            keyed = keyed.withWatermark("timestamp", f"{window.grace_ms + after} milliseconds")
        keyed = poison.late(
            keyed,
            _last_end(window, node),
            reading.late,
            step=node.name,
            bootstrap=reading.bootstrap,
            record={"key": frame.key.encode(F.col("key")), "value": frame.value.encode(F.col("value"))},
        )
        if _is_of_lists(node):
            return _of_lists(Frame(keyed, frame.key, frame.value), node, window, reading)
    if isinstance(node.how, T.Fold):
        return _folded(Frame(keyed, frame.key, frame.value, signed=frame.signed), node, node.how, reading)
    return _native(Frame(keyed, frame.key, frame.value, signed=frame.signed), node)


def is_updating(node: T.Aggregate) -> bool:
    """Whether Spark is to give a group at each change of it (update mode); operators of our own append changes."""
    return not node.final and not _is_of_lists(node)


def _is_of_lists(node: T.Aggregate) -> bool:
    kind = node.window.kind if node.window else None
    return kind == "sliding" or (kind == "session" and not node.final)


def _last_end(window: Window, node: T.Aggregate) -> Column:
    """When the last window that a record belongs to ends; of lists, whose watermark has their size, just after it."""
    moment = F.unix_millis("timestamp")
    if _is_of_lists(node):
        return F.timestamp_millis(moment + 1)
    if window.kind == "session":
        return F.timestamp_millis(moment + F.lit(window.size_ms))
    return F.timestamp_millis(moment - F.pmod(moment, F.lit(window.advance_ms)) + F.lit(window.size_ms))


def _native(frame: Frame, node: T.Aggregate) -> Frame:
    groups = [F.col("key"), *([_window_column(node.window)] if node.window else [])]
    made, names = _expressions(frame, node)
    wide = frame.df.groupBy(*groups).agg(*made, F.max("timestamp").alias("__time"))
    value = F.struct(*names) if names else F.col("value")
    key = _windowed_key(node.window) if node.window else F.col("key")
    if node.window and node.window.kind == "hopping":
        wide = wide.where(F.unix_millis("window.start") >= 0)
    df = wide.select(key.alias("key"), value.alias("value"), F.col("__time").alias("timestamp"))
    return Frame(df, windowed(frame.key, node.window), _value_serde(df, node))


def _window_column(window: Window) -> Column:
    if window.kind == "session":
        return F.session_window("timestamp", f"{window.size_ms} milliseconds").alias("window")
    size, advance = f"{window.size_ms} milliseconds", f"{window.advance_ms} milliseconds"
    return F.window("timestamp", size, advance).alias("window")


def _windowed_key(window: Window) -> Column:
    start, end = F.col("window.start"), F.col("window.end")
    if window.kind == "session":
        end = F.timestamp_millis(F.unix_millis(end) - window.size_ms)
    return F.struct("key", start.alias("start"), end.alias("end"))


def _expressions(frame: Frame, node: T.Aggregate) -> tuple[list[Column], list[str]]:
    how = node.how
    if isinstance(how, T.Count):
        return [(F.sum("sign") if frame.signed else F.count(F.lit(1))).cast("bigint").alias("value")], []
    assert isinstance(how, T.Expressions)
    columns = frame.df.columns
    if how.single is not None:
        return [column(how.single, columns, node.name).alias("value")], []
    return [column(e, columns, node.name).alias(n) for n, e in how.named], [n for n, _ in how.named]


def _value_serde(df: DataFrame, node: T.Aggregate) -> Serde:
    return Long if isinstance(node.how, T.Count) else serde_of_type(df.schema["value"].dataType, node.name)


def windowed(key: Serde, window: Window | None) -> Serde:
    if window is None:
        return key
    if window.kind == "session":
        return Windowed(key, session=True)
    return Windowed(key, timedelta(milliseconds=window.size_ms))


# -- Python functions ------------------------------------------------------------------------------------------------


def _folded(frame: Frame, node: T.Aggregate, how: T.Fold, reading: Reading) -> Frame:
    result = how.result or _result_of(frame, how)
    df, value, add = frame.df, frame.value, _adder(how)
    if frame.signed:
        df = df.withColumn("value", F.struct("value", "sign"))
        value = Pair(frame.value, Int, ("value", "sign"))
        add = _signed(add, how)
    made = processors.aggregate(
        df,
        frame.key,
        value,
        init=None if frame.signed else how.init,
        add=add,
        merge=how.merge,
        result=result,
        window=node.window,
        emit="final" if node.final else "update",
        name=node.name,
    )
    done = sound(made, reading.poisoned, step=node.name, bootstrap=reading.bootstrap)
    return Frame(done.drop("topic", "partition", "offset"), windowed(frame.key, node.window), result)


def _result_of(frame: Frame, how: T.Fold) -> Serde:
    """What a fold's value is: of a reduce that of its input."""
    return frame.value if how.init is None else returned(how.add)


def _adder(how: T.Fold) -> Callable[[Any, Any, Any], Any]:
    if how.init is not None:
        return how.add  # type: ignore[no-any-return]
    reduce = how.add
    return lambda key, value, total: value if total is None else reduce(total, value)


def _signed(add: Callable[[Any, Any, Any], Any], how: T.Fold) -> Callable[[Any, Any, Any], Any]:
    """From a group that has no value nothing is taken; it begins when something is added."""
    subtract, init = how.subtract, how.init

    def apply(key: Any, signed: Any, total: Any) -> Any:
        value, sign = signed
        if sign > 0:
            return add(key, value, init() if total is None and init is not None else total)
        if total is None:
            return None
        return subtract(total, value) if init is None else subtract(key, value, total)

    return apply


# -- windows whose values are at hand ------------------------------------------------------------------------------


def _of_lists(frame: Frame, node: T.Aggregate, window: Window, reading: Reading) -> Frame:
    make = operators.sessions if window.kind == "session" else operators.sliding
    df = make(frame.df, window.size_ms, window.grace_ms, final=node.final)
    df = df.withColumn("key", F.struct("key", "start", "end")).drop("start", "end")
    key = windowed(frame.key, window)
    if isinstance(node.how, T.Fold):
        lists = ListOf(frame.value)
        result = node.how.result or _result_of(frame, node.how)
        folded = steps.MapValuesWithKey(_fold_list(node.how), node.name)
        done = python_stage.run(
            df.withColumnRenamed("values", "value"),
            key,
            lists,
            (folded,),
            out_key=key,
            out_value=result,
            name=node.name,
        )
        return Frame(sound(done, reading.poisoned, step=node.name, bootstrap=reading.bootstrap), key, result)
    if isinstance(node.how, T.Count):
        made = F.size("values").cast("bigint")
    elif node.how.single is not None:
        made = _of_list(df, node.how.single, node.name)
    else:
        made = F.struct(*(_of_list(df, e, node.name).alias(n) for n, e in node.how.named))
    df = df.withColumn("value", F.when(F.col("values").isNotNull(), made)).drop("values")
    return Frame(df, key, _value_serde(df, node))


def _fold_list(how: T.Fold) -> Callable[[Any, Any], Any]:
    add, init = _adder(how), how.init

    def fold(key: Any, values: Any) -> Any:
        if values is None:
            return None
        return functools.reduce(lambda total, value: add(key.key, value, total), values, init() if init else None)

    return fold


_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
# Of the list {items}, or of those {there} that are not null, to a value of {type}: what Spark's aggregates give.
_OF_LIST = {
    "min": "array_min({items})",
    "max": "array_max({items})",
    "sum": "aggregate({items}, cast(null as {type}), "
    "(total, item) -> if(item is null, total, cast(coalesce(total, 0) + item as {type})))",
    "avg": "aggregate({there}, cast(0 as double), (total, item) -> total + item, "
    "total -> cast(try_divide(total, size({there})) as {type}))",
    "collect_list": "{there}",
    "first": "element_at({items}, 1)",
    "last": "element_at({items}, -1)",
    "count": "cast(size({there}) as bigint)",
}


def _of_list(df: DataFrame, expression: Expression, step: str) -> Column:
    """An aggregate over the list `values` in the place of a group."""
    if isinstance(expression, str) and (call := _CALL.fullmatch(expression)):
        name, inner = call[1].lower(), call[2].strip()
        if name in _OF_LIST and _is_balanced(inner):
            group = df.withColumn("value", F.explode("values")).agg(F.expr(expression).alias("made"))
            items = f"transform(values, value -> {'1' if inner == '*' else inner})"
            there = f"filter({items}, item -> item is not null)"
            kind = group.schema["made"].dataType.simpleString()
            return F.expr(_OF_LIST[name].format(items=items, there=there, type=kind))
    if isinstance(expression, Native) and isinstance(expression.build, Best):
        return expression.build.of_list(step)
    known = ", ".join(["top_n", *_OF_LIST])
    raise PipelineError(
        f"{step}: sliding windows, and sessions with every update, know the aggregates {known} of one expression each, "
        f"and Python functions; not {expression!r}"
    )


def _is_balanced(text: str) -> bool:
    """Whether it is one expression, and not what stands between two calls: `a) + sum(b`."""
    depths = list(itertools.accumulate((sign == "(") - (sign == ")") for sign in text))
    return not depths or (min(depths) >= 0 and depths[-1] == 0)
