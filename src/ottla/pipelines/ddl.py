"""Spark's text for types (`symbol string, ask double, tags array<string>`) without a Spark session.

Spark's own reader is in the JVM, and a serde is made before there is one.

    fields = name [:] type [NOT NULL] [COMMENT '…'] , …
    type   = string | int | decimal(10, 2) | array<type> | map<type, type> | struct<fields> | …
"""

from __future__ import annotations

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.pipelines.errors import PipelineError

SIMPLE: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "byte": ByteType(),
    "smallint": ShortType(),
    "short": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}
TOKEN = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<text>'[^']*')|(?P<mark>[<>(),:]))")


def parse(text: str) -> DataType:
    """The type that the text says: one type (`array<int>`), or fields (`a int, b string`), which make a struct."""
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position = 0
        while text[position:].strip():
            token = TOKEN.match(text, position)
            if token is None:
                raise self.wrong(f"what is {text[position:].strip()[:20]!r}")
            self.tokens.append(token.group().strip())
            position = token.end()
        self.at = 0

    def whole(self) -> DataType:
        if not self.tokens:
            raise self.wrong("it is empty")
        following = self.tokens[1] if len(self.tokens) > 1 else ""
        alone = following in ("", "<", "(") and self.tokens[0].lower() in {*SIMPLE, *NESTED}
        found = self.type() if alone else self.fields()
        if self.at < len(self.tokens):
            raise self.wrong(f"unexpected {self.tokens[self.at]!r}")
        return found

    def fields(self, end: str = "") -> StructType:
        fields: list[StructField] = []
        while self.peek() != end:
            fields.append(self.field())
            if not self.take_if(","):
                break
        if len({field.name for field in fields}) < len(fields):
            raise self.wrong("a name stands twice")
        return StructType(fields)

    def field(self) -> StructField:
        name = self.take()
        if not re.match(r"[\w`]", name):
            raise self.wrong(f"{name!r} is no name")
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        self.take_if(":")
        type = self.type()
        nullable = True
        if self.take_if("not"):
            self.expect("null")
            nullable = False
        if self.take_if("comment"):
            self.take()
        return StructField(name, type, nullable)

    def type(self) -> DataType:
        name = self.take().lower()
        if name in SIMPLE:
            return SIMPLE[name]
        if name in ("decimal", "dec", "numeric"):
            return self.decimal()
        if name not in NESTED:
            raise self.wrong(f"there is no type {name!r}")
        self.expect("<")
        if name == "array":
            made: DataType = ArrayType(self.type())
        elif name == "map":
            key = self.type()
            self.expect(",")
            made = MapType(key, self.type())
        else:
            made = self.fields(">")
        self.expect(">")
        return made

    def decimal(self) -> DecimalType:
        if not self.take_if("("):
            return DecimalType(10, 0)
        precision, scale = self.number(), 0
        if self.take_if(","):
            scale = self.number()
        self.expect(")")
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise self.wrong(f"there is no decimal({precision}, {scale})")
        return DecimalType(precision, scale)

    def number(self) -> int:
        token = self.take()
        if not token.isdecimal():
            raise self.wrong(f"{token!r} is no number")
        return int(token)

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            raise self.wrong("it ends too early")
        self.at += 1
        return token

    def take_if(self, wanted: str) -> bool:
        there = self.peek().lower() == wanted
        self.at += there
        return there

    def expect(self, wanted: str) -> None:
        found = self.peek()
        if not self.take_if(wanted):
            raise self.wrong(f"{wanted!r} is expected in place of {found!r}" if found else f"{wanted!r} is missing")

    def wrong(self, why: str) -> PipelineError:
        return PipelineError(f"the schema {self.text!r} is not like 'symbol string, ask double': {why}")


NESTED = frozenset({"array", "map", "struct", "decimal", "dec", "numeric"})
