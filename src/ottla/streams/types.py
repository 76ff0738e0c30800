"""Serdes that only streams have: of values that no one declared, of pairs in a join, of lists in a window."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as S

from ottla.pipelines import serdes
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde


@dataclass(frozen=True)
class AutoSerde(Serde):
    """What a Python function returned of which nobody said the type: text as it is, anything else as JSON.

    Between steps it is a column of JSON text, so that a function finds what the one before it returned. Read from a
    topic, what is no JSON is text.
    """

    @property
    def name(self) -> str:
        return "auto"

    @property
    def type(self) -> S.DataType:
        return S.StringType()

    @property
    def plain(self) -> bool:
        return False

    def decode(self, raw: Column) -> Column:
        return F.coalesce(serdes.Json.decode(raw), serdes.convert(raw.cast("string"), serdes.Text, serdes.Json))

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        return serdes.Text.misfit(raw, serdes.Text.decode(raw))

    def encode(self, value: Column) -> Column:
        text = F.when(value.startswith('"'), F.try_variant_get(F.try_parse_json(value), "$", "string")).otherwise(value)
        return F.when(value == "null", None).otherwise(text).cast("binary")

    def loads(self, data: bytes | None) -> Any:
        try:
            return serdes.Json.loads(data)
        except ValueError:
            return serdes.Text.loads(data)

    def dumps(self, value: Any) -> bytes | None:
        if isinstance(value, str):
            return value.encode()
        return None if value is None else value if isinstance(value, bytes) else serdes.Json.dumps(value)

    def to_python(self, cell: Any) -> Any:
        return serdes.Json.to_python(cell)

    def from_python(self, value: Any) -> Any:
        return serdes.Json.from_python(value)


Auto = AutoSerde()


def convert(column: Column, source: Serde, target: Serde) -> Column:
    """As serdes.convert, for what lies between steps: a column of Auto is one of Json."""
    if source == target:
        return column
    if source == Auto and target == serdes.Bytes:
        return Auto.encode(column)
    return serdes.convert(column, _as_json(source), _as_json(target))


def _as_json(serde: Serde) -> Serde:
    if isinstance(serde, serdes.Windowed):
        return replace(serde, inner=_as_json(serde.inner))
    return serdes.Json if serde == Auto else serde


def common(kinds: Sequence[Serde], *, loose: bool = False) -> Serde | None:
    """The serde to which columns of these can be brought, so that equal values are equal there; None: there is none.

    Where some are of Auto or Json and others of text, it is text; `loose`: it is theirs, which tell text from numbers.
    """
    if any(kind.type != kinds[0].type for kind in kinds):
        return None
    return min(
        kinds,
        key=lambda kind: (kind == serdes.Json, kind == Auto) if not loose else (kind != Auto, kind != serdes.Json),
    )


@dataclass(frozen=True)
class Inner(Serde):
    """A serde of columns that never reach a topic as they are."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def plain(self) -> bool:
        return False

    def decode(self, raw: Column) -> Column:
        raise PipelineError(f"{self.name} is not read from topics")

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        return None

    def encode(self, value: Column) -> Column:
        raise PipelineError(f"{self.name} is not written to topics; map it to a value first")

    def loads(self, data: bytes | None) -> Any:
        raise PipelineError(f"{self.name} is not read from topics")

    def dumps(self, value: Any) -> bytes | None:
        raise PipelineError(f"{self.name} is not written to topics")

    def from_python(self, value: Any) -> Any:
        raise PipelineError(f"{self.name} is not what a function returns")


@dataclass(frozen=True)
class Pair(Inner):
    """Both sides of a join, in a structure with the fields of `names`."""

    left: Serde
    right: Serde
    names: tuple[str, str] = ("left", "right")

    @property
    def type(self) -> S.DataType:
        fields = zip(self.names, (self.left.type, self.right.type), strict=True)
        return S.StructType([S.StructField(name, type_) for name, type_ in fields])

    def to_python(self, cell: Any) -> Any:
        one, other = self.names
        return None if cell is None else (self.left.to_python(cell[one]), self.right.to_python(cell[other]))

    def from_python(self, value: Any) -> Any:
        one, other = self.names
        return {one: self.left.from_python(value[0]), other: self.right.from_python(value[1])}


@dataclass(frozen=True)
class ListOf(Inner):
    """The values of a window, oldest first."""

    inner: Serde

    @property
    def type(self) -> S.DataType:
        return S.ArrayType(self.inner.type)

    def to_python(self, cell: Any) -> Any:
        return None if cell is None else [self.inner.to_python(item) for item in cell]


def serde_of_type(type_: S.DataType, step: str) -> Serde:
    """The serde of a column that an expression made."""
    try:
        return serdes.serde_for(type_)
    except PipelineError as wrong:
        raise PipelineError(f"{step}: {wrong}") from None


def returned(function: Any) -> Serde:
    """The serde of what a Python function returns: by its annotation, or anything that JSON can say."""
    annotation = _annotation(function)
    return Auto if annotation is None else _serde(annotation)


def returned_item(function: Any) -> Serde:
    """The same of the items that a function returns a list or iterator of."""
    arguments = typing.get_args(_annotation(function))
    return _serde(arguments[0]) if len(arguments) == 1 or (arguments and arguments[1:] == (...,)) else Auto


def returned_pair(function: Any, *, items: bool = False) -> tuple[Serde, Serde]:
    """The same of the key and value that a function returns, or of those in the list that it returns."""
    annotation = _annotation(function)
    if items:
        arguments = typing.get_args(annotation)
        annotation = arguments[0] if len(arguments) == 1 else None
    parts: Sequence[Any] = typing.get_args(annotation)
    return (_serde(parts[0]), _serde(parts[1])) if len(parts) == 2 else (Auto, Auto)


def _serde(annotation: Any) -> Serde:
    serde = serdes.serde_of(annotation)
    return Auto if serde == serdes.Json else serde


def _annotation(function: Any) -> Any:
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # a name in the annotation that is not there at run time tells nothing
        return None
    if "return" in hints:
        return hints["return"]
    # str, int, float and other types are functions too
    return function if inspect.isclass(function) and function in (str, int, float, bytes, bool) else None
