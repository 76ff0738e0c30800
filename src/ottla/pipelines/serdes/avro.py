"""Avro with a given schema: the bare binary form of one value, without a container or a registry's prefix.

Spark 4.2 has no Avro of its own: jvm/AvroCodec.scala reads and writes it for columns, fastavro for Python.

    null, boolean, int, long, float, double, bytes, string, array, map, record   the Spark type of that name
    enum → string    fixed → binary    [null, T] → nullable T    [int, long] → bigint    [float, double] → double
    date, timestamp-millis, timestamp-micros, decimal: the logical type    other logical types: what is below them
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.pipelines import columns
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes.base import Serde, shown
from ottla.pipelines.serdes.cells import Change, fitter, nullable, opener

SIMPLE: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
LOGICAL: dict[tuple[str, str], DataType] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
}
KNOWN_LOGIC = {"decimal", *(logic for _, logic in LOGICAL)}


@dataclass(frozen=True)
class Avro(Serde):
    """Avro of one schema, given as JSON text or as the dict of it."""

    schema: str

    def __init__(self, schema: str | dict[str, Any] | list[Any]) -> None:
        try:
            parsed = json.loads(schema) if isinstance(schema, str) and schema.lstrip()[:1] in '{["' else schema
        except json.JSONDecodeError as error:
            raise PipelineError(f"the Avro schema is no JSON: {error}") from None
        object.__setattr__(self, "schema", json.dumps(_without_other_logic(parsed), sort_keys=True))
        _ = self._exact  # a schema that is none, or that Spark has no type for, is refused here

    @property
    def name(self) -> str:
        schema = json.loads(self.schema)
        return f"avro({schema.get('name', schema['type']) if isinstance(schema, dict) else self.type.simpleString()})"

    @property
    def type(self) -> DataType:
        return nullable(self._exact)

    @cached_property
    def _exact(self) -> DataType:
        return _spark_type(_parsed(self.schema), {})[0]

    def decode(self, raw: Column) -> Column:
        return columns.avro("read", self.schema, self.type, raw)

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        return F.when(raw.isNotNull() & decoded.isNull(), columns.avro("why", self.schema, self.type, raw))

    def encode(self, value: Column) -> Column:
        return columns.avro("write", self.schema, self.type, value)

    def loads(self, data: bytes | None) -> Any:
        return None if data is None else self._open(self._fit(self._read(data)))

    def _read(self, data: bytes) -> Any:
        import fastavro

        stream = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, _parsed(self.schema), None)
        except EOFError:
            raise ValueError(f"it ends too early for {self.name}") from None
        except Exception as error:  # fastavro lets IndexError, TypeError and more of bad bytes through
            raise ValueError(f"no {self.name}: {error or type(error).__name__}") from None
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes more than {self.name} has")
        return value

    def dumps(self, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return self._write(self._open(self._fit(value)))
        except ValueError as error:
            raise ValueError(f"{shown(value)} cannot be written as {self.name}: {error}") from None

    def _write(self, value: Any) -> bytes:
        import fastavro

        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, _parsed(self.schema), value, strict_allow_default=True)
        except Exception as error:  # ValueError, TypeError, KeyError, AttributeError: as the value has it
            raise ValueError(str(error) or type(error).__name__) from None
        return stream.getvalue()

    @property
    def plain(self) -> bool:
        return opener(self.type) is None

    def to_python(self, cell: Any) -> Any:
        return self._open(cell)

    def from_python(self, value: Any) -> Any:
        return self._fit(value)

    @cached_property
    def _fit(self) -> Change:
        return fitter(self._exact)

    @cached_property
    def _open(self) -> Change:
        return opener(self.type) or (lambda cell: cell)


def _without_other_logic(schema: Any) -> Any:
    """fastavro knows more logical types than Spark: a uuid would be a UUID, a time-millis a time."""
    if isinstance(schema, list):
        return [_without_other_logic(part) for part in schema]
    if isinstance(schema, dict):
        kept = {name: part for name, part in schema.items() if name != "logicalType" or part in KNOWN_LOGIC}
        return {name: _without_other_logic(part) for name, part in kept.items()}
    return schema


@lru_cache(maxsize=256)
def _parsed(schema: str) -> Any:
    import fastavro

    try:
        return fastavro.parse_schema(json.loads(schema))
    except Exception as error:  # its own errors, and KeyError or TypeError for what is far from a schema
        raise PipelineError(f"not an Avro schema: {error}") from None


def _spark_type(schema: Any, named: dict[str, DataType]) -> tuple[DataType, bool]:
    """The Spark type of an Avro schema, and whether it may be null."""
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        schema = {"type": schema}
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _spark_type(kind, named)
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return DecimalType(schema["precision"], schema.get("scale", 0)), False
    if (kind, logical) in LOGICAL:
        return LOGICAL[kind, logical], False
    if kind in SIMPLE:
        if kind in ("enum", "fixed"):
            named[schema["name"]] = SIMPLE[kind]
        return SIMPLE[kind], False
    if kind == "array":
        element, nullable = _spark_type(schema["items"], named)
        return ArrayType(element, nullable), False
    if kind == "map":
        element, nullable = _spark_type(schema["values"], named)
        return MapType(StringType(), element, nullable), False
    if kind in ("record", "error"):
        return _record(schema, named), False
    if kind in named:
        return named[kind], False
    if kind == "null":
        raise PipelineError("Avro's type null alone has no Spark type")
    raise PipelineError(f"the Avro type {kind} contains itself, and Spark has no type for that")


def _record(schema: Any, named: dict[str, DataType]) -> StructType:
    fields = []
    for field in schema["fields"]:
        kind, nullable = _spark_type(field["type"], named)
        fields.append(StructField(field["name"], kind, nullable))
    named[schema["name"]] = made = StructType(fields)
    return made


def _union(branches: list[Any], named: dict[str, DataType]) -> tuple[DataType, bool]:
    others = [branch for branch in branches if branch != "null"]
    nullable = len(others) < len(branches)
    names = {branch if isinstance(branch, str) else "" for branch in others}
    if len(others) == 1:
        return _spark_type(others[0], named)[0], nullable
    if names == {"int", "long"}:
        return LongType(), nullable
    if names == {"float", "double"}:
        return DoubleType(), nullable
    raise PipelineError(
        f"the Avro union {json.dumps(branches)} has no one Spark type: only null and one other may stand"
    )
