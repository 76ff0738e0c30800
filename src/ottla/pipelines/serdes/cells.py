"""Values of Spark types between Arrow's cells and Python, checked: what user functions see and give back.

Functions are made once per type and called per value, so the usual case of each comes first.
A struct is a dict (a Row, a named tuple or a dataclass may be given back), a map a dict, an array a list, a timestamp
an aware datetime (a naive one is taken for UTC).
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Callable, Mapping
from typing import Any

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

from ottla.pipelines.serdes.base import shown

type_of = type
Change = Callable[[Any], Any]
BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


class Misfit(ValueError):
    """A value does not fit; `places` lead to it, outermost first."""

    def __init__(self, found: str, places: tuple[str, ...] = ()) -> None:
        self.found = found
        self.places = places
        super().__init__(f"{'.'.join(places)}: {found}" if places else found)

    def within(self, place: str) -> Misfit:
        return Misfit(self.found, (place, *self.places))


def nullable(type: DataType) -> DataType:
    """The type with null allowed everywhere: what columns have, since Arrow and Spark stumble over inner NOT NULLs.
    What must be there is checked when a value is read or written."""
    if isinstance(type, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in type.fields])
    if isinstance(type, ArrayType):
        return ArrayType(nullable(type.elementType))
    if isinstance(type, MapType):
        return MapType(nullable(type.keyType), nullable(type.valueType))
    return type


def fitter(type: DataType) -> Change:
    """A function from a Python value to the cell of a column of this type; Misfit where it does not fit."""
    made = _fitter(type)
    return lambda value: None if value is None else made(value)


def opener(type: DataType) -> Change | None:
    """A function from a cell to the Python value; None where they are the same."""
    if isinstance(type, MapType):
        inner = opener(type.valueType)
        if inner is None:
            return lambda cell: None if cell is None else dict(cell)
        return lambda cell: None if cell is None else {key: inner(value) for key, value in _items(cell)}
    if isinstance(type, ArrayType):
        each = opener(type.elementType)
        return None if each is None else (lambda cell: None if cell is None else [each(value) for value in cell])
    if isinstance(type, StructType):
        inners = {field.name: made for field in type.fields if (made := opener(field.dataType)) is not None}
        if not inners:
            return None
        return lambda cell: None if cell is None else cell | {name: made(cell[name]) for name, made in inners.items()}
    return None


def _items(cell: Any) -> Any:
    return cell.items() if isinstance(cell, Mapping) else cell


def _fitter(type: DataType) -> Change:
    if isinstance(type, StringType):
        return _text
    if type_of(type) in BITS:
        return _whole(type)
    if isinstance(type, FloatType | DoubleType):
        return _floating
    if isinstance(type, BooleanType):
        return _truth
    if isinstance(type, BinaryType):
        return _binary
    if isinstance(type, StructType):
        return _struct(type)
    if isinstance(type, ArrayType):
        return _array(type)
    if isinstance(type, MapType):
        return _map(type)
    if isinstance(type, DecimalType):
        return _decimal(type)
    if isinstance(type, TimestampType | TimestampNTZType):
        return _instant(datetime.UTC if isinstance(type, TimestampType) else None)
    if isinstance(type, DateType):
        return _date
    return lambda value: value


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise Misfit(f"{shown(value)} is no text")


def _whole(type: DataType) -> Change:
    bits = BITS[type_of(type)]
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    name = type.simpleString()

    def whole(value: Any) -> Any:
        if type_of(value) is not int:
            value = _index(value, name)
        if least <= value <= most:
            return value
        raise Misfit(f"{shown(value)} is no {name}: it has more than {bits} bits")

    return whole


def _index(value: Any, name: str) -> int:
    """numpy's whole numbers too, but no truth values and no fractions."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise Misfit(f"{shown(value)} is no {name}")
    return int(value.__index__())


def _floating(value: Any) -> Any:
    if type_of(value) is float:
        return value
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise Misfit(f"{shown(value)} is no number")
    try:
        return float(value)
    except OverflowError:
        raise Misfit(f"{shown(value)} is too large") from None


def _truth(value: Any) -> Any:
    if value is True or value is False:
        return value
    if type_of(value).__name__ in ("bool", "bool_"):  # numpy's
        return bool(value)
    raise Misfit(f"{shown(value)} is neither True nor False")


def _binary(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise Misfit(f"{shown(value)} is not bytes")


def _date(value: Any) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    raise Misfit(f"{shown(value)} is no date")


def _instant(zone: datetime.tzinfo | None) -> Change:
    def instant(value: Any) -> Any:
        if not isinstance(value, datetime.datetime):
            raise Misfit(f"{shown(value)} is no datetime")
        return value.replace(tzinfo=zone) if value.tzinfo is None or zone is None else value

    return instant


def _decimal(type: DecimalType) -> Change:
    def exact(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
            raise Misfit(f"{shown(value)} is no Decimal")
        number = decimal.Decimal(value)
        if number.is_finite():
            _, digits, exponent = number.normalize(decimal.Context(prec=100)).as_tuple()
            assert isinstance(exponent, int)
            if -exponent <= type.scale and len(digits) + exponent <= type.precision - type.scale:
                return number
        raise Misfit(f"{shown(value)} is no {type.simpleString()}")

    return exact


def _array(type: ArrayType) -> Change:
    inner = fitter(type.elementType)

    def array(value: Any) -> Any:
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
            raise Misfit(f"{shown(value)} is no list")
        cells: list[Any] = []
        try:
            for element in value:
                cells.append(inner(element))
        except Misfit as misfit:
            raise misfit.within(f"[{len(cells)}]") from None
        if not type.containsNull and None in cells:
            raise Misfit("null, and it must not be", (f"[{cells.index(None)}]",))
        return cells

    return array


def _map(type: MapType) -> Change:
    key_of, value_of = fitter(type.keyType), fitter(type.valueType)

    def entries(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Misfit(f"{shown(value)} is no dict")
        cells: list[tuple[Any, Any]] = []
        for key, inner in value.items():
            try:
                cells.append((key_of(key), value_of(inner)))
            except Misfit as misfit:
                raise misfit.within(str(key)) from None
            if key is None or (inner is None and not type.valueContainsNull):
                raise Misfit("null, and it must not be", (str(key),))
        return cells

    return entries


def _struct(type: StructType) -> Change:
    parts = [(field.name, fitter(field.dataType), field.nullable) for field in type.fields]
    names = frozenset(name for name, _, _ in parts)

    def struct(value: Any) -> Any:
        given = value if isinstance(value, dict) else _fields(value)
        if not given.keys() <= names:
            strange = ", ".join(map(str, given.keys() - names))
            raise Misfit(f"there is no field {strange} in {type.simpleString()}")
        cells = {}
        for name, inner, nullable in parts:
            try:
                cell = inner(given.get(name))
            except Misfit as misfit:
                raise misfit.within(name) from None
            if cell is None and not nullable:
                raise Misfit("missing, and it must not be", (name,))
            cells[name] = cell
        return cells

    return struct


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    for method in ("asDict", "_asdict"):  # Spark's rows, named tuples
        if hasattr(value, method):
            return dict(getattr(value, method)())
    if dataclasses.is_dataclass(value) and not isinstance(value, type_of):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise Misfit(f"{shown(value)} is no dict")
