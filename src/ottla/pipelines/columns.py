"""Columns that call our Scala functions from Spark's generated code (jvm/Columns.scala)."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, functions
from pyspark.sql.types import DataType

from ottla.pipelines.errors import PipelineError


def call(function: str, result: str, *arguments: Column) -> Column:
    """A function of a Scala object, `Object.function`, on columns; null where an argument is null."""
    owner, _, name = function.rpartition(".")
    return from_java(_columns().call(f"ottla.{owner}", name, result, [to_java(argument) for argument in arguments]))


def json(method: str, type: DataType, raw: Column) -> Column:
    """JsonReader's `read` (bytes to a value of the type) or `why` (what does not fit, else null)."""
    return from_java(_columns().json(method, type.json(), to_java(raw)))


def avro(method: str, schema: str, type: DataType, column: Column) -> Column:
    """AvroCodec's `read` (bytes to a value of the type), `why` (what does not fit, else null) or `write`."""
    argument = functions.struct(column) if method == "write" else column
    return from_java(_columns().avro(method, schema, type.json(), to_java(argument)))


def dear(column: Column) -> Column:
    """The column, to be evaluated once even where a filter and what comes after it use it."""
    return from_java(_columns().dear(to_java(column)))


def late_watermark() -> Column:
    """The watermark (µs) by which the stateful operator above drops rows in the batch that runs."""
    return from_java(_columns().lateWatermark())


def reject(rejector: Any, reason: Column, kind: Column, record: Column) -> Column:
    """Whether a row goes on that a step cannot take; `rejector` is one of jvm/Reject.scala."""
    return from_java(_columns().reject(rejector, to_java(reason), to_java(kind), to_java(record)))


def scala(name: str) -> Any:
    """A Scala object, by its whole name: package by package it would be asked for once for each of them."""
    return getattr(jvm(), name)


def jvm() -> Any:
    """The JVM of the running session."""
    context = SparkContext._active_spark_context
    if context is None or context._jvm is None:
        raise PipelineError("a column was asked for before there is a Spark session: call pipelines.session.session()")
    return context._jvm


def _columns() -> Any:
    return scala("org.apache.spark.sql.ottla.Columns")


def to_java(column: Column) -> Any:
    return column._jc


def from_java(java: Any) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(java)
