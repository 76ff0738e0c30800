"""Serdes: what the bytes of a record's key and value mean, for Spark's columns and for Python.

    stream("quotes", key=Text, value=Json("symbol string, ask double"))

Bytes, Text, Short, Int, Long, Float, Double, Bool: the bytes of Kafka's own serializers. Json: any JSON; Json(schema):
JSON of one type. Avro(schema). Windowed(inner): keys of windowed results. base.py says what each of them can do.
"""

from __future__ import annotations

from typing import Any

from ottla.pipelines.serdes.avro import Avro
from ottla.pipelines.serdes.base import Serde
from ottla.pipelines.serdes.conversion import convert, serde_for
from ottla.pipelines.serdes.jsons import Json
from ottla.pipelines.serdes.plain import Bool, Bytes, Double, Float, Int, Long, Short, Text
from ottla.pipelines.serdes.windowed import Windowed, WindowedKey

__all__ = [
    "Avro",
    "Bool",
    "Bytes",
    "Double",
    "Float",
    "Int",
    "Json",
    "Long",
    "Serde",
    "Short",
    "Text",
    "Windowed",
    "WindowedKey",
    "convert",
    "serde_for",
    "serde_of",
]

ANNOTATED: dict[Any, Serde] = {str: Text, int: Long, float: Double, bytes: Bytes, bool: Bool}
ANNOTATED |= {kind.__name__: serde for kind, serde in ANNOTATED.items()}  # as postponed annotations have them


def serde_of(annotation: Any) -> Serde:
    """The serde of a Python annotation: str Text, int Long, float Double, bytes Bytes, bool Bool, all else Json."""
    try:
        return ANNOTATED.get(annotation, Json)
    except TypeError:  # an annotation that has no hash
        return Json
