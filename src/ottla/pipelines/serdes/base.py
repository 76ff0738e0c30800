"""What every serde is: a value that turns a record's bytes into a typed column and back, and into Python and back.

A serde is immutable, comparable and picklable, and needs no Spark session until it is asked for columns.
`cell` is a value as Arrow gives it (`to_pylist`) and takes it (`pyarrow.array`) for the serde's column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import DataType


class Serde(ABC):
    """Bytes to values and back. Subclasses are frozen dataclasses; their fields say all there is to them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How messages and pictures call it: text, long, json, windowed(text)."""

    @property
    @abstractmethod
    def type(self) -> DataType:
        """The Spark type of the decoded column."""

    @abstractmethod
    def decode(self, raw: Column) -> Column:
        """Binary column to typed column; null stays null, and what does not fit becomes null."""

    @abstractmethod
    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        """A text column that says why `raw` does not fit, null where it does; None if everything fits."""

    @abstractmethod
    def encode(self, value: Column) -> Column:
        """Typed column to binary column; null stays null."""

    @abstractmethod
    def loads(self, data: bytes | None) -> Any:
        """Bytes to the Python value that a user's function sees; ValueError with the reason where they do not fit."""

    @abstractmethod
    def dumps(self, value: Any) -> bytes | None:
        """Python value to bytes; ValueError that names value and serde where it does not fit."""

    @property
    def plain(self) -> bool:
        """Cells are the Python values themselves: to_python need not be called."""
        return True

    def to_python(self, cell: Any) -> Any:
        """What a user's function sees of a cell."""
        return cell

    @abstractmethod
    def from_python(self, value: Any) -> Any:
        """The cell of what a user's function gives back; ValueError with the reason where it does not fit."""

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """By the fields alone: what a serde has made for itself (functions, decoders) is made anew."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


def shown(value: Any) -> str:
    """A value in a message: short, and with its type where the text does not tell."""
    text = repr(value)
    text = text if len(text) <= 60 else text[:59] + "…"
    return (
        text
        if type(value).__name__ in ("str", "bytes", "int", "float", "bool", "NoneType", "dict", "list")
        else (f"{text} ({type(value).__name__})")
    )
