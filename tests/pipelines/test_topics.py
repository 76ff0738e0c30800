"""Topics as typed DataFrames, through a real broker."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any

import pytest
from pyspark.sql import functions as F

from ottla.pipelines import poison, topics
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Json, Text
from support.topic_streams import NOON, Place

QUOTE = Json("symbol string, ask double")


def test_reading_starts_where_it_is_told_to(place: Place) -> None:
    topic = place.topic("in", partitions=2)
    place.send(topic, *[(None, str(number)) for number in range(5)])

    def read(**options: Any) -> list[str]:
        rows = place.rows(place.start(place.stream(topic, Text, Text, **options).select("offset", "value")))
        return [value for _, value in sorted(rows)]

    assert read() == ["0", "1", "2", "3", "4"]
    assert read(starting={topic: {0: 3}}) == ["3", "4"]
    assert read(starting=NOON + datetime.timedelta(seconds=4)) == ["4"]


def test_a_stream_reads_topics_by_pattern_with_headers(place: Place) -> None:
    place.send(place.topic("a"), (b"1", b"x"), headers=[("h", b"\0"), ("n", None)])
    place.send(place.topic("b"), (b"2", b"y"))
    pattern = re.compile(f"{place.name}-.*")
    frame = topics.read(place.spark, place.bootstrap, pattern, Text, Text, headers=True, max_per_batch=1)
    query = place.start(frame.select("key", "value", "topic", F.to_json("headers")))
    rows = sorted(place.rows(query))
    assert [row[:3] for row in rows] == [("1", "x", f"{place.name}-a"), ("2", "y", f"{place.name}-b")]
    assert [header["key"] for header in json.loads(rows[0][3])] == ["h", "n"]
    assert rows[1][3] is None


def test_values_are_decoded_once_and_unused_columns_are_not_read(place: Place) -> None:
    topic = place.topic("in")
    place.send(topic, (b"k", b"{}"))
    frame = place.stream(topic, Text, QUOTE, poisoned=poison.skip).where("value.ask > 1").select("value.symbol")
    query = place.start(frame)
    query.processAllAvailable()
    plan = query._jsq.streamingQuery().lastExecution().optimizedPlan().toString()
    assert plan.count("read(") == 1, plan
    assert "timestamp" not in plan.partition("CASE WHEN")[0]


def test_a_start_that_is_none_is_refused(place: Place) -> None:
    topic = place.topic("in")
    wrong: dict[str, Any] = {
        "not 'newest'": "newest",
        "has no zone": datetime.datetime(2026, 1, 1),
        "given for topic other, which is not read": {"other": {0: 1}},
        "cannot start at offset 1 of partition 5: it has 1 partitions": {topic: {5: 1}},
        "cannot start at offset -7": {topic: {0: -7}},
    }
    for told, starting in wrong.items():
        with pytest.raises(PipelineError) as error:
            topics.read(place.spark, place.bootstrap, topic, starting=starting)
        assert told in str(error.value)
    with pytest.raises(PipelineError, match="no topic is named"):
        topics.read(place.spark, place.bootstrap, [])
