"""JSON, with a schema or without.

Without, the column is the JSON text (native steps use get_json_object and the like) and Python sees the objects. With
one, `Json("symbol string, ask double")`, the column is a struct (or array, or map) and Python sees dicts;
jvm/JsonReader.scala says what fits. Written JSON has no spaces and, with a schema, no fields that are null.

    binary      base64 text                        date, timestamp    ISO 8601 text
    decimal     number                             NaN, ±Infinity     those words as text; without a schema null
"""

from __future__ import annotations

import decimal
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from ottla.pipelines import columns, ddl
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes.base import Serde, shown
from ottla.pipelines.serdes.cells import Change, fitter, nullable, opener
from ottla.pipelines.serdes.json_values import reader, writer

TO_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_encode_exactly = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True)
class JsonSerde(Serde):
    """Any JSON value, as text. Called with a schema it gives the serde of that schema."""

    def __call__(self, schema: str | DataType) -> JsonSchemaSerde:
        return JsonSchemaSerde(ddl.parse(schema) if isinstance(schema, str) else schema)

    @property
    def name(self) -> str:
        return "json"

    @property
    def type(self) -> DataType:
        return StringType()

    def decode(self, raw: Column) -> Column:
        return columns.dear(F.when(columns.call("JsonReader.isJson", "boolean", raw), raw.cast("string")))

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        return F.when(raw.isNotNull() & decoded.isNull(), columns.call("JsonReader.whyNotJson", "string", raw))

    def encode(self, value: Column) -> Column:
        return value.cast("binary")

    def loads(self, data: bytes | None) -> Any:
        return None if data is None else _read(data)

    def dumps(self, value: Any) -> bytes | None:
        return None if value is None else _written(value)

    @property
    def plain(self) -> bool:
        return False

    def to_python(self, cell: Any) -> Any:
        if cell is None:
            return None
        try:
            return _decode(cell)
        except ValueError:
            return _read(cell.encode())

    def from_python(self, value: Any) -> Any:
        return None if value is None else _written(value).decode()


@dataclass(frozen=True)
class JsonSchemaSerde(Serde):
    """JSON of one type."""

    schema: DataType

    def __post_init__(self) -> None:
        if not isinstance(self.schema, StructType | ArrayType | MapType):
            raise PipelineError(f"Json takes fields, an array or a map as its schema, not {self.schema.simpleString()}")
        reader(self.schema)  # refuses what JSON has no form for

    @property
    def name(self) -> str:
        return f"json({self.schema.simpleString()})"

    @property
    def type(self) -> DataType:
        return nullable(self.schema)

    def decode(self, raw: Column) -> Column:
        return columns.json("read", self.schema, raw)

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        return F.when(raw.isNotNull() & decoded.isNull(), columns.json("why", self.schema, raw))

    def encode(self, value: Column) -> Column:
        return F.to_json(value, TO_JSON).cast("binary")

    def loads(self, data: bytes | None) -> Any:
        return None if data is None else self._read(_read(data, exact=True))

    def dumps(self, value: Any) -> bytes | None:
        try:
            cell = self._fit(value)
            return None if cell is None else _encode_exactly(self._write(cell))
        except ValueError as error:
            raise ValueError(f"{shown(value)} cannot be written as {self.name}: {error}") from None

    @property
    def plain(self) -> bool:
        return self._open is None

    def to_python(self, cell: Any) -> Any:
        return cell if self._open is None else self._open(cell)

    def from_python(self, value: Any) -> Any:
        return self._fit(value)

    @cached_property
    def _fit(self) -> Change:
        return fitter(self.schema)

    @cached_property
    def _open(self) -> Change | None:
        return opener(self.schema)

    @cached_property
    def _read(self) -> Change:
        return reader(self.schema)

    @cached_property
    def _write(self) -> Change:
        return writer(self.schema)


Json = JsonSerde()


def _read(data: bytes, exact: bool = False) -> Any:
    """The JSON value of the bytes. `exact`: fractions as Decimal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    if not text.strip(" \t\r\n"):
        raise ValueError("empty, and that is no JSON")
    try:
        if exact:
            return json.loads(text, parse_constant=_no_constant, parse_float=decimal.Decimal)
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _written(value: Any) -> bytes:
    try:
        return _encode(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{shown(value)} cannot be written as json: {error}") from None
