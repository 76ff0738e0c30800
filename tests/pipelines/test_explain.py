"""Spark's exceptions in one line: the real ones, as Spark raises them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.explain import explain
from ottla.pipelines.serdes import Int, Json, Long, Text, convert
from support.topic_streams import Place


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    value = F.struct(F.lit("A").alias("symbol"), F.lit(1.5).alias("ask"))
    return spark.range(1).select(F.lit("k").alias("key"), value.alias("value"), F.lit("12x").alias("text"))


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("vlue", "there is no column vlue; there are value, key, text"),
        ("value.symbl", "there is no field symbl; there are symbol, ask"),
        ("value.ask +", "'value.ask +' is no Spark SQL: Syntax error at or near end of input"),
        ("uper(key)", "there is no function uper in Spark SQL"),
        ("value.ask + value", "types do not fit: Cannot resolve"),
        ("cast(text as int)", 'a value does not fit: The value \'12x\' of the type "STRING" cannot be cast to "INT"'),
    ],
)
def test_a_wrong_expression_is_named(frame: DataFrame, expression: str, told: str) -> None:
    with pytest.raises(PySparkException) as error:
        frame.selectExpr(expression).collect()
    line = str(explain(error.value, "prices"))
    assert line.startswith(f"query prices: {told}")
    assert "\n" not in line
    assert "SQLSTATE" not in line


def test_a_value_that_does_not_convert_is_named(frame: DataFrame) -> None:
    with pytest.raises(Exception) as error:
        frame.select(convert(F.lit("[1]"), Json, Long)).collect()
    assert str(explain(error.value)) == "a value does not fit json(struct<v:bigint>): v: an array is no bigint"
    with pytest.raises(Exception) as error:
        frame.select(convert(F.lit(1 << 40).cast("bigint"), Long, Int)).collect()
    assert str(explain(error.value)).startswith("a value does not fit: The value 1099511627776L")


def test_a_failing_python_function_is_named_with_its_line(frame: DataFrame) -> None:
    @F.udf("int", useArrow=False)
    def broken(text: str) -> int:
        return int(text)

    with pytest.raises(Exception) as error:
        frame.select(broken("text")).collect()
    line = str(explain(error.value))
    assert line.startswith("a Python function failed with ValueError: invalid literal for int() with base 10: '12x' (")
    assert line.endswith(f"test_explain.py, line {broken.func.__code__.co_firstlineno + 2})")


def test_the_line_is_the_users_also_in_a_directory_that_is_called_ottla() -> None:
    files = [
        "/home/ann/ottla/examples/streams/mine.py",
        "/usr/lib/ottla/streams/python_stage.py",
        "/x/pyspark/worker.py",
    ]
    entries = [f'  File "{file}", line 7, in run' for file in files]
    trace = "\n".join(["PythonException: Traceback (most recent call last):", *entries, "KeyError: 'price'"])
    where = "(/home/ann/ottla/examples/streams/mine.py, line 7)"
    assert str(explain(RuntimeError(trace))) == f"a Python function failed with KeyError: 'price' {where}"


def told(frame: DataFrame, checkpoint: Path) -> str | None:
    """What is said of a run over what there is now; None if it goes well."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException as error:
        return str(explain(error))
    return None


def test_records_and_topics_that_are_gone_are_named(place: Place) -> None:
    kept, gone = place.topic("kept"), place.topic("gone")
    for topic in (kept, gone):
        place.send(topic, *[(b"k", b"v")] * 6)
        assert told(place.stream(topic, Text, Text), place.directory / topic) is None
    place.send(kept, *[(b"k", b"v")] * 6)
    place.delete_records(kept, 9)
    place.delete(gone)
    lost = told(place.stream(kept, Text, Text), place.directory / kept) or ""
    assert lost.startswith(f"records of {kept}-0 that the query had not read yet are gone")
    deleted = told(place.stream(gone, Text, Text), place.directory / gone)
    assert deleted == f"there is no {gone} to read from any more: create it again, or reset the application"


def test_a_setting_that_kafka_refuses_is_named(place: Place) -> None:
    topic = place.topic("in")
    place.send(topic, (b"k", b"v"))
    reader = place.stream(topic, Text, Text, options={"fetch.max.wait.ms": "soon"})
    with pytest.raises(StreamingQueryException) as error:
        place.rows(place.start(reader))
    line = "Invalid value soon for configuration fetch.max.wait.ms: Not a number of type INT"
    assert str(explain(error.value)) == line


def test_what_is_not_known_keeps_its_first_line() -> None:
    assert str(explain(RuntimeError("\n  first \n second SQLSTATE: 42000"))) == "first"
    assert str(explain(RuntimeError())) == "RuntimeError"
    java = "An error occurred while calling o2156.start.\n: java.io.IOException: Mkdirs failed to create x\n\tat a.b.C"
    assert str(explain(RuntimeError(java))) == "Mkdirs failed to create x"
    ours = PipelineError("as it is")
    assert explain(ours) is ours
