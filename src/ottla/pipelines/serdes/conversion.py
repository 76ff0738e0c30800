"""From one serde's column to another's, where there is one sensible way.

    same type                as it is                        number, boolean → text     as written
    whole number → another   checked                         struct, array, map → text  its JSON
    whole number → fraction  widened                         windowed → text            [key@start/end] in ms
    anything → bytes         the bytes of its own serde      bytes → anything           its serde's reading of them
    anything → json          JSON of it, a text in quotes    json → text                a text itself, else its JSON
    NaN, ±Infinity → json    null
    struct → struct          through JSON, by names          json → anything else       the value, which must fit

A value that does not fit fails the query: nothing is lost in silence.
"""

from __future__ import annotations

import math

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampType,
)

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes.base import Serde
from ottla.pipelines.serdes.cells import BITS
from ottla.pipelines.serdes.jsons import TO_JSON, Json, JsonSchemaSerde
from ottla.pipelines.serdes.plain import Bool, Bytes, Double, Float, Int, Long, NumberSerde, Short, Text
from ottla.pipelines.serdes.windowed import Windowed

NESTED = (StructType, ArrayType, MapType)


def convert(column: Column, source: Serde, target: Serde) -> Column:
    """The column of `source` as one of `target`."""
    if source == target or (source.type == target.type and not {source.name, target.name} & {"json"}):
        return column
    if isinstance(source, Windowed) and isinstance(target, Windowed):
        inner = convert(column["key"], source.inner, target.inner)
        moved = F.struct(inner.alias("key"), column["start"].alias("start"), column["end"].alias("end"))
        return F.when(column.isNotNull(), moved)
    if target == Bytes:
        return source.encode(column)
    if source == Bytes:
        return _checked(column, target)
    if target == Json:
        return _json_text(column, source.type)
    if source == Json:
        return _from_json(column, target)
    if target == Text and isinstance(source, Windowed):
        return _windowed_text(convert(column["key"], source.inner, Text), column)
    if target == Text:
        return _json_text(column, source.type) if isinstance(source.type, NESTED) else column.cast("string")
    if _is_whole(source) and (_is_whole(target) or target in (Float, Double)):
        return column.cast(target.type)
    if source == Float and target == Double:
        return column.cast("double")
    if isinstance(source.type, NESTED) and isinstance(target.type, NESTED) and not isinstance(target, Windowed):
        return _checked(_json_text(column, source.type).cast("binary"), JsonSchemaSerde(target.type))
    raise PipelineError(f"{source.name} cannot be made {target.name}: map the value to what {target.name} takes first")


def serde_for(type: DataType) -> Serde:
    """The serde to write a column of this type with, where nobody has said which: numbers, text and bytes as Kafka has
    them, structs, arrays and maps as JSON."""
    for serde in (Text, Long, Int, Double, Float, Short, Bool, Bytes):
        if serde.type == type:
            return serde
    if isinstance(type, NESTED):
        return Json(type)
    raise PipelineError(f"there is no serde for a column of {type.simpleString()}: cast it to string or bigint first")


def _is_whole(serde: Serde) -> bool:
    return isinstance(serde, NumberSerde) and serde.type.__class__ in BITS


def _json_text(column: Column, type: DataType) -> Column:
    if isinstance(type, NESTED):
        return F.to_json(column, TO_JSON)
    if isinstance(type, BooleanType) or type.__class__ in BITS:
        return column.cast("string")
    if isinstance(type, FloatType | DoubleType):
        finite = F.abs(column) < F.lit(math.inf)  # NaN is the largest of all
        return F.when(finite, column.cast("string")).when(column.isNotNull(), "null")
    if isinstance(type, TimestampType):
        column = F.date_format(column, TO_JSON["timestampFormat"])
    return F.to_json(column.cast("string").cast("variant"))


def _from_json(column: Column, target: Serde) -> Column:
    if target == Text:
        return F.when(F.ltrim(column).startswith('"'), F.get_json_object(column, "$")).otherwise(column)
    if isinstance(target.type, NESTED) and not isinstance(target, Windowed):
        return _checked(column.cast("binary"), JsonSchemaSerde(target.type))
    if isinstance(target, NumberSerde):
        field = StructType().add("v", target.type)
        wrapped = F.concat(F.lit('{"v":'), column, F.lit("}")).cast("binary")
        return _checked(wrapped, JsonSchemaSerde(field))["v"]
    raise PipelineError(f"json cannot be made {target.name}: map the value to what {target.name} takes first")


def _checked(raw: Column, target: Serde) -> Column:
    """What the bytes are as `target`; the query fails with the reason where they do not fit."""
    value = target.decode(raw)
    misfit = target.misfit(raw, value)
    if misfit is None:
        return value
    return F.when(misfit.isNull(), value).otherwise(
        F.raise_error(F.concat(F.lit("OTTLA: a value does not fit "), F.lit(target.name), F.lit(": "), misfit))
    )


def _windowed_text(key: Column, column: Column) -> Column:
    parts = [F.lit("["), key, F.lit("@"), F.unix_millis(column["start"]), F.lit("/")]
    end = F.coalesce(F.unix_millis(column["end"]).cast("string"), F.lit(""))
    return F.concat(*parts, end, F.lit("]"))
