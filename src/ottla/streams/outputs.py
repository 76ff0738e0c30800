"""From a frame to the rows of a sink: where records go, and as what bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.pipelines.serdes import Serde
from ottla.streams import steps
from ottla.streams import topology as T
from ottla.streams.frames import Frame
from ottla.streams.functions import column, is_native
from ottla.streams.plan import Query
from ottla.streams.stepping import saying
from ottla.streams.types import convert

SIGN = "ottla.sign"  # header of records on their way from a table to its aggregate


@dataclass(frozen=True, slots=True)
class Target:
    topic: Any  # a name, or a function of the record
    key: Serde
    value: Serde


def shared(query: Query) -> tuple[T.Node, list[list[T.Node]]]:
    """What all outputs of a query have above them, and the nodes from below it down to each."""
    lines = []
    for output in query.outputs:
        line: list[T.Node] = [output]
        while len(line[0].parents) == 1 and not query.is_input(line[0]) and not isinstance(line[0], T.STATEFUL):
            line.insert(0, line[0].parents[0])
        lines.append(line)
    root = lines[0][0]
    return root, [line[1:] or [root] for line in lines]


def sink_struct(frame: Frame, target: Target, step: str) -> Column:
    """The record that a frame's row becomes in a topic."""
    return F.struct(*_fields(frame, target, step))


def sink_frame(frame: Frame, target: Target, step: str) -> DataFrame:
    with saying(step):
        return frame.df.select(*_fields(frame, target, step))


def _fields(frame: Frame, target: Target, step: str) -> list[Column]:
    with saying(step):
        names = frame.df.columns
        topic = F.lit(target.topic) if isinstance(target.topic, str) else column(target.topic, names, step)
        key = target.key.encode(convert(F.col("key"), frame.key, target.key))
        value = target.value.encode(convert(F.col("value"), frame.value, target.value))
        fields = [topic.alias("topic"), key.alias("key"), value.alias("value")]
        if frame.signed:
            sign = F.struct(F.lit(SIGN).alias("key"), F.col("sign").cast("string").cast("binary").alias("value"))
            fields.append(F.array(sign).alias("headers"))
        elif "headers" in names:
            fields.append(F.col("headers"))
        fields.append(F.col("timestamp"))
        return fields


def python_output(target: Target, name: str) -> steps.Output:
    return steps.Output(target.topic, target.key, target.value, name=name)


def callable_topic_is_native(target: Target) -> bool:
    return not isinstance(target.topic, str) and is_native(target.topic)
