"""JSON values of a Spark type, for JsonSchemaSerde in Python: json.loads's are checked and made values of the type.

The rules are those of jvm/JsonReader.scala, and so are the words of what does not fit.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import struct
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes.cells import BITS, Change, Misfit, fitter

NAMED_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def reader(type: DataType) -> Change:
    """From what json.loads gives to the value of the type, as JsonReader.scala does it in the JVM."""
    made = _reader_of(type)
    return lambda value: None if value is None else made(value)


def _reader_of(type: DataType) -> Change:
    found = next((make for kinds, make in READERS.items() if isinstance(type, kinds)), None)
    if found is None:
        raise PipelineError(f"there is no JSON for the type {type.simpleString()}")
    return found(type)


def _misfit(value: Any, type: DataType) -> Misfit:
    if isinstance(value, dict | list):
        found = "an object" if isinstance(value, dict) else "an array"
    elif isinstance(value, str):
        found = f'"{_short(value)}"'
    else:
        found = str(value).lower() if isinstance(value, bool) else _short(str(value))
    return Misfit(f"{found} is no {type.simpleString().partition('<')[0]}")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _text_reader(type: DataType) -> Change:
    def text(value: Any) -> Any:
        if not isinstance(value, str):
            raise _misfit(value, type)
        return value if value.isascii() else value.encode(errors="replace").decode()  # half a surrogate: as in Java

    return text


def _whole_reader(type: DataType) -> Change:
    most = 1 << BITS[type.__class__] - 1

    def whole(value: Any) -> Any:
        if value.__class__ is not int or not -most <= value < most:
            raise _misfit(value, type)
        return value

    return whole


def _floating_reader(type: DataType) -> Change:
    single = isinstance(type, FloatType)

    def floating(value: Any) -> Any:
        if value.__class__ is str and value in NAMED_NUMBERS:
            return NAMED_NUMBERS[value]
        if value.__class__ not in (int, decimal.Decimal):
            raise _misfit(value, type)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        return _single(number) if single else number

    return floating


def _single(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _decimal_reader(type: DataType) -> Change:
    fit = fitter(type)

    def exact(value: Any) -> Any:
        try:
            return fit(value)
        except Misfit:
            raise _misfit(value, type) from None

    return exact


def _parsed_reader(parse: Change) -> Callable[[DataType], Change]:
    def reader(type: DataType) -> Change:
        def parsed(value: Any) -> Any:
            try:
                if value.__class__ is str:
                    return parse(value)
            except ValueError:
                pass
            raise _misfit(value, type)

        return parsed

    return reader


def _bool_reader(type: DataType) -> Change:
    def truth(value: Any) -> Any:
        if value.__class__ is not bool:
            raise _misfit(value, type)
        return value

    return truth


def _array_reader(type: DataType) -> Change:
    assert isinstance(type, ArrayType)
    inner, may_be_null = reader(type.elementType), type.containsNull

    def array(value: Any) -> Any:
        if value.__class__ is not list:
            raise _misfit(value, type)
        return [_inside(f"[{place}]", inner, element, may_be_null) for place, element in enumerate(value)]

    return array


def _map_reader(type: DataType) -> Change:
    assert isinstance(type, MapType)
    if not isinstance(type.keyType, StringType):
        raise PipelineError(f"the keys of {type.simpleString()} are no texts, and JSON has no others")
    inner, may_be_null = reader(type.valueType), type.valueContainsNull

    def entries(value: Any) -> Any:
        if value.__class__ is not dict:
            raise _misfit(value, type)
        return {name: _inside(name, inner, element, may_be_null) for name, element in value.items()}

    return entries


def _struct_reader(type: DataType) -> Change:
    assert isinstance(type, StructType)
    parts = [(field.name, reader(field.dataType), field.nullable) for field in type.fields]

    def fields(value: Any) -> Any:
        if value.__class__ is not dict:
            raise _misfit(value, type)
        read = {name: _inside(name, inner, value.get(name), True) for name, inner, _ in parts}
        for name, _, nullable in parts:
            if read[name] is None and not nullable:
                raise Misfit("missing, and it must not be", (name,))
        return read

    return fields


def _inside(place: str, inner: Change, value: Any, may_be_null: bool) -> Any:
    try:
        read = inner(value)
    except Misfit as misfit:
        raise misfit.within(place) from None
    if read is None and not may_be_null:
        raise Misfit("null, and it must not be", (place,))
    return read


def _timestamp(text: str) -> datetime.datetime:
    read = datetime.datetime.fromisoformat(text)
    return read.replace(tzinfo=datetime.UTC) if read.tzinfo is None else read.astimezone(datetime.UTC)


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


READERS: dict[Any, Callable[[DataType], Change]] = {
    StringType: _text_reader,
    tuple(BITS): _whole_reader,
    (FloatType, DoubleType): _floating_reader,
    BooleanType: _bool_reader,
    DecimalType: _decimal_reader,
    BinaryType: _parsed_reader(_base64),
    DateType: _parsed_reader(datetime.date.fromisoformat),
    TimestampType: _parsed_reader(_timestamp),
    ArrayType: _array_reader,
    MapType: _map_reader,
    StructType: _struct_reader,
}


def writer(type: DataType) -> Change:
    """From a cell to what a JSON encoder takes: maps as dicts, no null fields, the numbers that JSON lacks as text."""
    if isinstance(type, StructType):
        parts = [(field.name, writer(field.dataType)) for field in type.fields]
        return lambda cell: {name: write(cell[name]) for name, write in parts if cell[name] is not None}
    if isinstance(type, ArrayType):
        inner = writer(type.elementType)
        return lambda cell: [None if value is None else inner(value) for value in cell]
    if isinstance(type, MapType):
        inner = writer(type.valueType)
        return lambda cell: {key: None if value is None else inner(value) for key, value in cell}
    if isinstance(type, FloatType | DoubleType):
        return lambda cell: cell if math.isfinite(cell) else NOT_FINITE.get(cell, "NaN")
    if isinstance(type, TimestampType):
        return lambda cell: cell.astimezone(datetime.UTC)
    return lambda cell: cell


NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
