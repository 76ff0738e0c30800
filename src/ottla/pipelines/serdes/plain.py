"""Serdes of Kafka's own serializers: bytes, text in UTF-8, big-endian numbers, and one byte for true or false.

Short 2 bytes, Int 4, Long 8 (two's complement); Float 4, Double 8 (IEEE 754); Bool 1 byte, 0 or 1
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from ottla.pipelines.columns import call, dear
from ottla.pipelines.serdes.base import Serde, shown
from ottla.pipelines.serdes.cells import Change, fitter


@dataclass(frozen=True)
class BytesSerde(Serde):
    """The bytes themselves."""

    @property
    def name(self) -> str:
        return "bytes"

    @property
    def type(self) -> DataType:
        return BinaryType()

    def decode(self, raw: Column) -> Column:
        return raw

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        return None

    def encode(self, value: Column) -> Column:
        return value

    def loads(self, data: bytes | None) -> bytes | None:
        return data

    def dumps(self, value: Any) -> bytes | None:
        return _said(self, value, _bytes)

    def from_python(self, value: Any) -> Any:
        return _bytes(value)


@dataclass(frozen=True)
class TextSerde(Serde):
    """Text in UTF-8."""

    @property
    def name(self) -> str:
        return "text"

    @property
    def type(self) -> DataType:
        return StringType()

    def decode(self, raw: Column) -> Column:
        return dear(call("Codec.toText", "string", raw))

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        return F.when(raw.isNotNull() & decoded.isNull(), F.lit("not UTF-8"))

    def encode(self, value: Column) -> Column:
        return value.cast("binary")

    def loads(self, data: bytes | None) -> str | None:
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            raise ValueError("not UTF-8") from None

    def dumps(self, value: Any) -> bytes | None:
        def encoded(value: Any) -> bytes | None:
            text = _text(value)
            return None if text is None else text.encode()

        return _said(self, value, encoded)

    def from_python(self, value: Any) -> Any:
        return _text(value)


@dataclass(frozen=True)
class NumberSerde(Serde):
    """A big-endian number: `form` as in struct."""

    name_: str
    form: str
    type_: DataType

    @property
    def name(self) -> str:
        return self.name_

    @property
    def type(self) -> DataType:
        return self.type_

    @property
    def size(self) -> int:
        return struct.calcsize(self.form)

    def decode(self, raw: Column) -> Column:
        named = call(f"Codec.to{self.name_.capitalize()}", self.type_.simpleString(), raw)
        return F.when(self._fits(raw), named)

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        wanted = "a 0 or a 1 in one byte" if self.form == "?" else f"{self.size} bytes"
        found = F.when(F.length(raw) <= 8, F.concat(F.lit("0x"), F.hex(raw))).otherwise(
            F.concat(F.length(raw), F.lit(" bytes"))
        )
        return F.when(~self._fits(raw), F.concat(F.lit(f"{self.name_} needs {wanted}, and there is "), found))

    def _fits(self, raw: Column) -> Column:
        if self.form == "?":
            return raw.isin(F.lit(b"\x00"), F.lit(b"\x01"))
        return F.length(raw) == self.size

    def encode(self, value: Column) -> Column:
        return call(f"Codec.from{self.name_.capitalize()}", "binary", value.cast(self.type_))

    def loads(self, data: bytes | None) -> Any:
        if data is None:
            return None
        if self.form == "?" and data not in (b"\0", b"\1"):
            raise ValueError(f"{self.name_} needs a 0 or a 1 in one byte, and there is {_bytes_shown(data)}")
        if len(data) != self.size:
            raise ValueError(f"{self.name_} needs {self.size} bytes, and there is {_bytes_shown(data)}")
        return struct.unpack(f">{self.form}", data)[0]

    def dumps(self, value: Any) -> bytes | None:
        def packed(value: Any) -> bytes | None:
            number = self.from_python(value)
            return None if number is None else struct.pack(f">{self.form}", number)

        return _said(self, value, packed)

    @cached_property
    def _fit(self) -> Change:
        return fitter(self.type_)

    def from_python(self, value: Any) -> Any:
        return self._fit(value)


_bytes, _text = fitter(BinaryType()), fitter(StringType())


def _bytes_shown(data: bytes) -> str:
    return f"0x{data.hex().upper()}" if len(data) <= 8 else f"{len(data)} bytes"


def _said(serde: Serde, value: Any, encode: Change) -> bytes | None:
    """What `encode` makes of the value; its error names the value and the serde."""
    try:
        return encode(value)  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{shown(value)} cannot be written as {serde.name}: {error}") from None


Bytes = BytesSerde()
Text = TextSerde()
Short = NumberSerde("short", "h", ShortType())
Int = NumberSerde("int", "i", IntegerType())
Long = NumberSerde("long", "q", LongType())
Float = NumberSerde("float", "f", FloatType())
Double = NumberSerde("double", "d", DoubleType())
Bool = NumberSerde("boolean", "?", BooleanType())
