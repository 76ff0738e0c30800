"""Serdes in Python alone: bytes as Kafka's serializers write them, values that fit, words for those that do not."""

from __future__ import annotations

import datetime
import math
import pickle
import struct
from typing import Any

import pytest
from confluent_kafka import serialization
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from ottla.pipelines import ddl
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import (
    Avro,
    Bool,
    Bytes,
    Double,
    Float,
    Int,
    Json,
    Long,
    Serde,
    Short,
    Text,
    Windowed,
    WindowedKey,
    serde_for,
    serde_of,
)

QUOTE = Json("symbol string, ask double, sizes array<int>")
RECORD = {"type": "record", "name": "Quote", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}
TIME = {"type": "int", "logicalType": "time-millis"}
UUID = {"type": "string", "logicalType": "uuid"}
START = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
EVERY = [Bytes, Text, Short, Int, Long, Float, Double, Bool, Json, QUOTE, Avro(RECORD), Windowed(Text)]


@pytest.mark.parametrize("serde", EVERY, ids=str)
def test_serdes_are_values_that_travel(serde: Serde) -> None:
    _ = serde.from_python(None)  # what it has made for itself stays at home
    again = pickle.loads(pickle.dumps(serde))
    assert again == serde
    assert hash(again) == hash(serde)
    assert again.type == serde.type
    assert serde.loads(None) is serde.dumps(None) is serde.to_python(None) is serde.from_python(None) is None


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.floats(allow_nan=False), st.text())
def test_numbers_and_text_are_the_bytes_of_confluents_serializers(whole: int, fraction: float, text: str) -> None:
    assert Int.dumps(whole) == serialization.IntegerSerializer()(whole)
    assert Double.dumps(fraction) == serialization.DoubleSerializer()(fraction)
    assert Text.dumps(text) == serialization.StringSerializer()(text)
    assert (Int.loads(Int.dumps(whole)), Double.loads(Double.dumps(fraction))) == (whole, fraction)


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (Short, -2, b"\xff\xfe"),
        (Long, 1 << 40, bytes([0, 0, 1, 0, 0, 0, 0, 0])),
        (Float, 1.5, b"\x3f\xc0\0\0"),
        (Bool, True, b"\1"),
        (Bytes, b"\0x", b"\0x"),
        (Text, "é", b"\xc3\xa9"),
        (Json, {"a": [1, None, "é"]}, '{"a":[1,null,"é"]}'.encode()),
        (QUOTE, {"symbol": "A", "ask": math.inf, "sizes": None}, b'{"symbol":"A","ask":"Infinity"}'),
        (Avro(RECORD), {"n": -1, "s": "a"}, b"\x01\x02a"),
        (Windowed(Text), WindowedKey("k", START, None), b"k" + struct.pack(">q", 1767323045000)),
        (
            Windowed(Text, session=True),
            WindowedKey("k", START, START + datetime.timedelta(seconds=1)),
            b"k" + struct.pack(">qq", 1767323046000, 1767323045000),
        ),
    ],
    ids=str,
)
def test_values_are_these_bytes(serde: Serde, value: Any, data: bytes) -> None:
    assert serde.dumps(value) == data
    assert serde.loads(data) == value


def test_a_time_windows_end_is_its_start_and_the_size() -> None:
    size = datetime.timedelta(minutes=1)
    data = Windowed(Text).dumps(("k", START))
    assert Windowed(Text, size).loads(data) == WindowedKey("k", START, START + size)


@pytest.mark.parametrize(
    ("serde", "data", "why"),
    [
        (Text, b"\xff", "not UTF-8"),
        (Int, b"abc", "int needs 4 bytes, and there is 0x616263"),
        (Bool, b"\2", "boolean needs a 0 or a 1 in one byte, and there is 0x02"),
        (Json, b"{", "at character 1"),
        (Json, b"", "empty, and that is no JSON"),
        (Json, b"NaN", "NaN is no JSON"),
        (QUOTE, b'{"ask":"x"}', 'ask: "x" is no double'),
        (QUOTE, b'{"sizes":[1,2.5]}', "sizes.[1]: 2.5 is no int"),
        (QUOTE, b"[]", "an array is no struct"),
        (Avro(RECORD), b"\x01\x04a", "it ends too early for avro(Quote)"),
        (Avro(RECORD), b"\x01\x02abc", "2 bytes more than avro(Quote) has"),
        (Windowed(Text), b"1234567", "7 bytes are too few for windowed(text)"),
    ],
    ids=str,
)
def test_bytes_that_do_not_fit_are_refused_with_the_reason(serde: Serde, data: bytes, why: str) -> None:
    with pytest.raises(ValueError) as error:
        serde.loads(data)
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("serde", "value", "why"),
    [
        (Text, 5, "5 cannot be written as text: 5 is no text"),
        (Bytes, "x", "'x' is not bytes"),
        (Int, 1 << 31, "it has more than 32 bits"),
        (Long, True, "True is no bigint"),
        (Long, 1.0, "1.0 is no bigint"),
        (Double, "1", "'1' is no number"),
        (Bool, 1, "1 is neither True nor False"),
        (Json, {"a": 1j}, "cannot be written as json"),
        (QUOTE, {"symbol": 5}, "symbol: 5 is no text"),
        (QUOTE, {"sizes": [1, "x"]}, "sizes.[1]: 'x' is no int"),
        (QUOTE, {"symbl": "A"}, "there is no field symbl"),
        (QUOTE, 5, "5 is no dict"),
        (Avro(RECORD), {"n": 1}, "s: missing"),
        (Windowed(Text), "k", "no key with a window"),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused_with_the_reason(serde: Serde, value: Any, why: str) -> None:
    with pytest.raises(ValueError) as error:
        serde.dumps(value)
    assert why in str(error.value)
    with pytest.raises(ValueError):
        serde.from_python(value)


def test_avros_other_logical_types_are_what_is_below_them() -> None:
    serde = Avro(
        {"type": "record", "name": "T", "fields": [{"name": "at", "type": TIME}, {"name": "id", "type": UUID}]}
    )
    assert serde.type.simpleString() == "struct<at:int,id:string>"
    value = {"at": 5, "id": "not even one"}
    assert serde.loads(serde.dumps(value)) == value


def test_annotations_and_types_have_a_serde() -> None:
    assert [serde_of(kind) for kind in (str, int, float, bytes, bool)] == [Text, Long, Double, Bytes, Bool]
    assert [serde_of(kind) for kind in ("int", dict, None, list[int], [])] == [Long, Json, Json, Json, Json]
    assert [serde_for(kind) for kind in (StringType(), LongType(), ArrayType(LongType()))] == [
        Text,
        Long,
        Json("array<bigint>"),
    ]


def test_a_schema_is_read_without_a_session() -> None:
    read = ddl.parse(
        "a int, `b c` struct<x: map<string, decimal(10,2)>, y timestamp> NOT NULL COMMENT 'hm', d array<bigint>"
    )
    assert isinstance(read, StructType)
    assert read.simpleString() == "struct<a:int,b c:struct<x:map<string,decimal(10,2)>,y:timestamp>,d:array<bigint>>"
    assert [field.nullable for field in read.fields] == [True, False, True]
    assert ddl.parse("array<int>") == ArrayType(IntegerType())
    assert ddl.parse("struct<string: string>") == ddl.parse("string string")
    assert ddl.parse("string string") == StructType([StructField("string", StringType())])


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("a intt", "there is no type 'intt'"),
        ("a", "it ends too early"),
        ("a int b int", "unexpected 'b'"),
        ("a array<int", "'>' is missing"),
        ("a int, a string", "a name stands twice"),
        ("a decimal(50)", "no decimal(50, 0)"),
        ("a int; b", "what is '; b'"),
        ("", "it is empty"),
        ("string", "Json takes fields, an array or a map"),
        ("a map<int,int>", "JSON has no others"),
    ],
)
def test_a_schema_that_is_none_is_refused(schema: str, why: str) -> None:
    with pytest.raises(PipelineError) as error:
        Json(schema)
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "recrd"}, "not an Avro schema"),
        ("{", "the Avro schema is no JSON"),
        (["int", "string"], "has no one Spark type"),
        ({"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}, "L contains itself"),
        ("null", "null alone"),
    ],
)
def test_an_avro_schema_that_spark_has_no_type_for_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(PipelineError) as error:
        Avro(schema)
    assert why in str(error.value)
