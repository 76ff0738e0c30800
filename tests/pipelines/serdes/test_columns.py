"""Serdes as Spark columns: the same as in Python, for any values and for any bytes. Many values go through one job."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

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
    convert,
)

MIXED = Json(
    "t string, b boolean, y tinyint, i int, l bigint, f float, d double, n decimal(12,3), r binary, day date,"
    " at timestamp, a array<int>, m map<string,double>, s struct<x: int, y: array<string>>"
)
RECORD = Avro(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "t", "type": "string"},
            {"name": "l", "type": ["null", "long"], "default": None},
            {"name": "a", "type": {"type": "array", "items": "double"}},
            {"name": "m", "type": {"type": "map", "values": "int"}},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["UP", "DOWN"]}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
)
MINUTE = datetime.timedelta(minutes=1)


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
times = st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(datetime.UTC))
to_the_ms = times.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
fractions = st.floats(allow_nan=False)
anything = st.recursive(
    st.none() | st.booleans() | whole(64) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
mixed = st.fixed_dictionaries(
    {
        "t": st.none() | words,
        "b": st.none() | st.booleans(),
        "y": st.none() | whole(8),
        "i": st.none() | whole(32),
        "l": st.none() | whole(64),
        "f": st.none() | st.floats(allow_nan=False, width=32),
        "d": st.none() | fractions,
        "n": st.none() | st.decimals(-999999999, 999999999, places=3),
        "r": st.none() | st.binary(max_size=5),
        "day": st.none() | st.dates(datetime.date(1900, 1, 1)),
        "at": st.none() | times,
        "a": st.none() | st.lists(st.none() | whole(32), max_size=3),
        "m": st.none() | st.dictionaries(words, st.none() | fractions, max_size=3),
        "s": st.none()
        | st.fixed_dictionaries({"x": st.none() | whole(32), "y": st.none() | st.lists(words, max_size=2)}),
    }
)
record = st.fixed_dictionaries(
    {
        "t": words,
        "l": st.none() | whole(64),
        "a": st.lists(fractions, max_size=3),
        "m": st.dictionaries(words, whole(32), max_size=2),
        "e": st.sampled_from(["UP", "DOWN"]),
        "at": times,
        "n": st.decimals(-9999999, 9999999, places=2),
        "u": st.uuids().map(str),
    }
)
VALUES: dict[Serde, st.SearchStrategy[Any]] = {
    Bytes: st.binary(),
    Text: words,
    Short: whole(16),
    Int: whole(32),
    Long: whole(64),
    Float: st.floats(allow_nan=False, width=32),
    Double: fractions,
    Bool: st.booleans(),
    Json: anything.filter(lambda value: value is not None),
    MIXED: mixed,
    RECORD: record,
    Windowed(Text): st.builds(WindowedKey, words, to_the_ms, st.none()),
    Windowed(Int, MINUTE): to_the_ms.flatmap(
        lambda at: st.builds(WindowedKey, whole(32), st.just(at), st.just(at + MINUTE))
    ),
    Windowed(Json, session=True): st.builds(
        WindowedKey, anything.filter(lambda v: v is not None), to_the_ms, to_the_ms
    ),
}
QUIET = settings(
    max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)


def columns(spark: SparkSession, given: dict[str, tuple[Sequence[Any], Any]]) -> Any:
    longest = max(len(values) for values, _ in given.values())
    table = {
        name: pa.array([*values, *[None] * (longest - len(values))], type) for name, (values, type) in given.items()
    }
    return spark.createDataFrame(pa.table(table)).coalesce(1)


def arrow(serde: Serde) -> Any:
    return to_arrow_type(serde.type, timezone="UTC")


@QUIET
@given(values=st.fixed_dictionaries({serde: st.lists(values, max_size=40) for serde, values in VALUES.items()}))
def test_columns_and_python_agree_on_values(spark: SparkSession, values: dict[Serde, list[Any]]) -> None:
    given: dict[str, tuple[Sequence[Any], Any]] = {}
    wanted = []
    for place, (serde, some) in enumerate(values.items()):
        given[f"raw{place}"] = [serde.dumps(value) for value in some], pa.binary()
        given[f"cell{place}"] = [serde.from_python(value) for value in some], arrow(serde)
        raw, cell = F.col(f"raw{place}"), F.col(f"cell{place}")
        misfit = serde.misfit(raw, serde.decode(raw))
        wanted += [serde.decode(raw).alias(f"decoded{place}"), serde.encode(cell).alias(f"encoded{place}")]
        wanted += [(F.lit(None).cast("string") if misfit is None else misfit).alias(f"why{place}")]
    got = columns(spark, given).select(*wanted).toArrow()
    for place, (serde, some) in enumerate(values.items()):
        decoded, encoded, why = (got.column(f"{name}{place}").to_pylist() for name in ("decoded", "encoded", "why"))
        assert [serde.to_python(cell) for cell in decoded[: len(some)]] == some, serde.name
        assert set(why) <= {None}
        assert [serde.loads(data) for data in encoded[: len(some)]] == some, serde.name
        assert not any(cell is not None for cell in decoded[len(some) :] + encoded[len(some) :]), serde.name
        if serde not in (Json, MIXED, Windowed(Json, session=True)):
            assert encoded[: len(some)] == [serde.dumps(value) for value in some]


BROKEN = [
    b"", b" ", b"{", b"nul", b"null", b"1 2", b"[1,]", b"'a'", b"\xff", b"\0", b"\0\0\0\0", b"NaN", b"01", b"1.5e",
    b"-", b"\xef\xbb\xbf1", b'"\x01"', b'"\\ud800"', b"tru", b"\x02", b"1234567", b"12345678", b"123456789",
    b"1e999", b'"x"1234567812345678', b'{"a":1,"a":2}',
]  # fmt: skip


def written(value: Any) -> str:
    """To compare by: NaN is NaN, and UTC is UTC."""
    return repr(value).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")


def loaded(serde: Serde, raw: bytes) -> tuple[bool, Any]:
    try:
        return True, serde.loads(raw)
    except ValueError as error:
        return False, error


@QUIET
@example(BROKEN)
@given(st.lists(st.binary(max_size=20), max_size=60))
def test_columns_and_python_agree_on_bytes_that_do_not_fit(spark: SparkSession, raws: list[bytes]) -> None:
    serdes = list(VALUES)
    wanted = []
    for place, serde in enumerate(serdes):
        decoded = serde.decode(F.col("raw"))
        misfit = serde.misfit(F.col("raw"), decoded)
        reason = F.lit(None).cast("string") if misfit is None else misfit
        wanted += [decoded.alias(f"decoded{place}"), reason.alias(f"why{place}")]
    got = columns(spark, {"raw": (raws, pa.binary())}).select(*wanted).toArrow()
    for place, serde in enumerate(serdes):
        decoded, why = got.column(f"decoded{place}").to_pylist(), got.column(f"why{place}").to_pylist()
        for raw, cell, reason in zip(raws, decoded, why):
            fits, value = loaded(serde, raw)
            assert fits == (reason is None), (serde.name, raw, value)
            if fits:
                assert written(serde.to_python(cell)) == written(value), (serde.name, raw)
            else:
                assert cell is None


def changed(data: bytes, place: int, byte: int) -> bytes:
    place %= len(data)
    return data[:place] + bytes([byte]) + data[place + 1 :]


@QUIET
@given(st.lists(st.builds(changed, record.map(RECORD.dumps), st.integers(0, 99), st.integers(0, 255)), max_size=60))
def test_avro_that_a_byte_was_changed_in_is_told_or_read_as_python_reads_it(
    spark: SparkSession, raws: list[bytes]
) -> None:
    raw = F.col("raw")
    chosen = RECORD.decode(raw).alias("value"), RECORD.misfit(raw, RECORD.decode(raw)).alias("why")
    got = columns(spark, {"raw": (raws, pa.binary())}).select(*chosen).toArrow()
    for data, cell, reason in zip(raws, got.column("value").to_pylist(), got.column("why").to_pylist()):
        assert (cell is None) == (reason is not None)
        if cell is not None:
            assert written(RECORD.to_python(cell)) == written(RECORD.loads(data))


MISFITS = {
    b'{"t":5}': "t: 5 is no string",
    b'{"i":2147483648}': "i: 2147483648 is no int",
    b'{"i":1.0}': "i: 1.0 is no int",
    b'{"d":"1.5"}': 'd: "1.5" is no double',
    b'{"b":"true"}': 'b: "true" is no boolean',
    b'{"n":1.2345}': "n: 1.2345 is no decimal(12,3)",
    b'{"r":"*"}': 'r: "*" is no binary',
    b'{"day":"tomorrow"}': 'day: "tomorrow" is no date',
    b'{"at":5}': "at: 5 is no timestamp",
    b'{"a":[1,true]}': "a.[1]: true is no int",
    b'{"m":{"k":[]}}': "m.k: an array is no double",
    b'{"s":{"y":{}}}': "s.y: an object is no array",
    b'"a text that is longer than what a message holds"': '"a text that is longer than what a messa…" is no struct',
    b"{} {}": "more than one JSON value",
    b"": "empty, and that is no JSON",
    b"\xff": "not UTF-8",
}


def test_a_json_misfit_says_where_and_what(spark: SparkSession) -> None:
    raw = F.col("raw")
    rows = columns(spark, {"raw": (list(MISFITS), pa.binary())}).select(
        MIXED.misfit(raw, MIXED.decode(raw)).alias("why")
    )
    told = [row.why for row in rows.collect()]
    assert told == list(MISFITS.values())
    for data, why in list(MISFITS.items())[:-3]:
        with pytest.raises(ValueError) as error:
            MIXED.loads(data)
        assert str(error.value) == why


def test_a_field_that_must_be_there_is_missed(spark: SparkSession) -> None:
    serde = Json("a int NOT NULL, b string")
    raws = [b'{"a":1,"c":[{}]}', b'{"b":"x"}', b'{"a":null}']
    raw = F.col("raw")
    chosen = columns(spark, {"raw": (raws, pa.binary())}).select(
        serde.decode(raw).alias("v"), serde.misfit(raw, F.col("v"))
    )
    rows = chosen.collect()
    missing = "a: missing, and it must not be"
    assert [tuple(row) for row in rows] == [((1, None), None), (None, missing), (None, missing)]


def test_serdes_convert_where_that_has_a_meaning(spark: SparkSession) -> None:
    quote = Json("s string, n bigint")
    key = WindowedKey(
        5, datetime.datetime.fromtimestamp(60, datetime.UTC), datetime.datetime.fromtimestamp(120, datetime.UTC)
    )
    cases: list[tuple[Serde, Any, Serde, Any]] = [
        (Long, 5, Text, "5"),
        (Long, 5, Int, 5),
        (Int, -5, Double, -5.0),
        (Text, 'a"b', Json, 'a"b'),
        (Text, "é", Bytes, "é".encode()),
        (Long, 5, Bytes, b"\0\0\0\0\0\0\0\5"),
        (Bytes, b"\0\0\0\0\0\0\0\5", Long, 5),
        (Long, 5, Json, 5),
        (Double, 0.5, Json, 0.5),
        (Double, math.nan, Json, None),
        (Float, -math.inf, Json, None),
        (Bool, True, Json, True),
        (Json, "x", Text, "x"),
        (Json, {"a": 1}, Text, '{"a":1}'),
        (Json, 7, Long, 7),
        (Json, 7, Double, 7.0),
        (Json, None, Long, None),
        (Json, {"s": "x", "n": 1}, quote, {"s": "x", "n": 1}),
        (quote, {"s": "x", "n": 1}, Json, {"s": "x", "n": 1}),
        (quote, {"s": "x", "n": None}, Text, '{"s":"x"}'),
        (quote, {"s": "x", "n": 1}, Json("n bigint"), {"n": 1}),
        (Windowed(Int), key, Text, "[5@60000/120000]"),
        (Windowed(Int), key, Windowed(Text), key._replace(key="5")),
        (Bool, False, Text, "false"),
        (RECORD, None, Json, None),
    ]
    given: dict[str, tuple[Sequence[Any], Any]] = {}
    wanted = []
    for place, (source, value, target, _) in enumerate(cases):
        given[f"v{place}"] = [source.from_python(value)], arrow(source)
        wanted.append(convert(F.col(f"v{place}"), source, target).alias(f"v{place}"))
    got = columns(spark, given).select(*wanted).toArrow()
    for place, (source, value, target, result) in enumerate(cases):
        assert target.to_python(got.column(place).to_pylist()[0]) == result, (source.name, value, target.name)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Text, Long),
        (Double, Long),
        (Bool, Int),
        (Text, MIXED),
        (Long, MIXED),
        (Json, Windowed(Text)),
        (Long, Windowed(Text)),
    ],
    ids=str,
)
def test_serdes_do_not_convert_where_it_has_none(spark: SparkSession, source: Serde, target: Serde) -> None:
    with pytest.raises(PipelineError) as error:
        convert(F.col("v"), source, target)
    assert f"{source.name} cannot be made {target.name}" in str(error.value)


def test_nan_is_a_number_of_its_own(spark: SparkSession) -> None:
    serde = Json("d double")
    data = serde.dumps({"d": math.nan})
    assert data == b'{"d":"NaN"}'
    row = columns(spark, {"raw": ([data], pa.binary())}).select(serde.decode(F.col("raw"))["d"].alias("d")).first()
    assert row is not None
    assert math.isnan(row.d)
    assert serde.loads(b'{"d":1}') == {"d": 1.0}
    assert decimal.Decimal("1.50") == Json("n decimal(5,2)").loads(b'{"n":1.50}')["n"]
