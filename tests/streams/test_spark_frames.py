"""Spark's own DataFrames in and out of the DSL, through a real broker and Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.streams import App, Json, Long, PipelineError, Text
from ottla.streams.testing import Driver
from ottla.testing import BrokerProcess

Streams = Callable[..., Driver]


def lines(directory: Path) -> Callable[[SparkSession], DataFrame]:
    """A stream of Spark's that is not of a topic: the lines of the files of a directory."""
    return lambda spark: spark.readStream.text(str(directory)).select(
        F.split("value", " ")[0].alias("key"), F.split("value", " ")[1].cast("long").alias("value")
    )


def test_a_frame_of_spark_is_a_stream(ottla_streams: Streams, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ann 1\nbob 2\nann 5\n")
    app = App("frames")
    app.from_df(lines(tmp_path)).group_by_key().aggregate("sum(value)").to("out")
    assert sorted(ottla_streams(app).read("out", value=Long)) == [("ann", 6), ("bob", 2)]


def test_a_frame_that_is_there_already_is_a_stream_too(
    ottla_streams: Streams, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("ann 1\nbob 2\n")
    app = App("frames")
    app.from_df(lines(tmp_path)(spark)).map_values(lambda value: value * 10, value=Long).to("out")
    assert sorted(ottla_streams(app).read("out")) == [("ann", 10), ("bob", 20)]


def test_a_frame_without_a_value_is_refused_by_name(ottla_streams: Streams, tmp_path: Path) -> None:
    app = App("frames")
    app.from_df(lambda spark: spark.readStream.text(str(tmp_path)).withColumnRenamed("value", "line")).to("out")
    with pytest.raises(PipelineError, match=r"no column 'key'; it has line"):
        ottla_streams(app).run()


def test_whatever_spark_does_to_a_frame_is_a_step(ottla_streams: Streams) -> None:
    app = App("frames")
    people = app.stream("in", value=Json("name string, year int"))
    people.with_df(lambda df: df.select("key", F.upper("value.name").alias("value"), "timestamp")).to("out")
    driver = ottla_streams(app)
    driver.send("in", {"name": "ann", "year": 1990}, key="k", timestamp=1_000)
    assert [(record.value, record.timestamp) for record in driver.records("out")] == [("ANN", 1_000)]


def test_the_frame_behind_a_stream_has_the_columns_of_a_record(ottla_streams: Streams) -> None:
    app = App("frames")
    stream = app.stream("in", value=Long).map_values("value + 1")
    stream.to("out")
    driver = ottla_streams(app)
    driver.send("in", 1)
    assert driver.read("out") == [(None, 2)]
    df = stream.df
    assert df.isStreaming
    types = {field.name: field.dataType.simpleString() for field in df.schema}
    assert types.items() >= {"key": "string", "value": "bigint", "timestamp": "timestamp"}.items()


def test_a_record_of_a_topic_with_log_append_time_has_that_time(
    ottla_streams: Streams, ottla_shared_broker: BrokerProcess
) -> None:
    admin = AdminClient({"bootstrap.servers": ottla_shared_broker.bootstrap})
    topic = NewTopic("appended", 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([topic])["appended"].result(30)
    app = App("frames")
    app.stream("appended").to("out")
    driver = ottla_streams(app)
    now = time.time() * 1000
    driver.send("appended", "x", timestamp=1_000)
    (record,) = driver.records("out")
    assert now - 1000 < record.timestamp < now + 600_000


def test_the_time_of_processing_is_a_time(ottla_streams: Streams) -> None:
    app = App("frames")
    app.stream("in", value=Text, timestamp="current_timestamp()").to("out")
    driver = ottla_streams(app)
    now = time.time() * 1000
    driver.send("in", "x", timestamp=1_000)
    (record,) = driver.records("out")
    assert now - 1000 < record.timestamp < now + 600_000
