"""Steps that keep nothing, through a real broker and Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from ottla.streams import App, Json, Long, PipelineError, Text, native
from ottla.streams.testing import Driver

Streams = Callable[..., Driver]


def run(streams: Streams, app: App, *values: Any, key: Any = "k") -> list[tuple[Any, Any]]:
    driver = streams(app)
    for value in values:
        driver.send("in", value, key=key)
    return driver.read("out")


def test_python_steps_run_record_by_record(ottla_streams: Streams) -> None:
    app = App("stateless")
    stream = app.stream("in")
    words = stream.flat_map_values(str.split).filter(lambda key, value: value != "the")
    words.map(lambda key, value: (value, len(value))).select_key(lambda key: key.upper()).to("out")
    assert run(ottla_streams, app, "the quick fox") == [("QUICK", 5), ("FOX", 3)]


def test_native_steps_run_as_columns(ottla_streams: Streams) -> None:
    app = App("stateless")
    stream = app.stream("in")
    words = stream.flat_map_values("split(lower(value), ' ')").filter_not("value = 'the'")
    words.map(("value", "length(value)")).select_key(native(lambda key: F.upper(key))).to("out", value=Text)
    assert run(ottla_streams, app, "The quick fox") == [("QUICK", "5"), ("FOX", "3")]


def test_python_and_native_steps_follow_each_other(ottla_streams: Streams) -> None:
    app = App("stateless")
    stream = app.stream("in", value=Json("name string, age int"))
    grown = stream.filter("value.age >= 18").map_values(lambda person: person["name"].title(), value=Text)
    grown.map_values("concat(value, '!')").to("out")
    sent = [{"name": "ann", "age": 30}, {"name": "bob", "age": 3}]
    assert run(ottla_streams, app, *sent) == [("k", "Ann!")]


def test_a_record_goes_to_the_first_branch_that_takes_it(ottla_streams: Streams) -> None:
    app = App("stateless")
    split = app.stream("in").split(errors="value like 'ERROR%'", warnings="value like '%WARN%'")
    split["errors"].to("errors")
    split["warnings"].to("warnings")
    split["default"].map_values("lower(value)").to("out")
    driver = ottla_streams(app)
    for value in ("ERROR WARN", "a WARN", "FINE"):
        driver.send("in", value)
    assert driver.read("errors") == [(None, "ERROR WARN")]
    assert driver.read("warnings") == [(None, "a WARN")]
    assert driver.read("out") == [(None, "fine")]


def test_python_branches_share_one_pass(ottla_streams: Streams) -> None:
    app = App("stateless")
    even, odd = app.stream("in", value=Long).branch(lambda key, value: value % 2 == 0, lambda key, value: True)
    even.to("even")
    odd.map_values(lambda value: value * 10, value=Long).to("out")
    driver = ottla_streams(app)
    for value in range(4):
        driver.send("in", value)
    assert driver.read("even") == [(None, 0), (None, 2)]
    assert driver.read("out") == [(None, 10), (None, 30)]


def test_what_several_outputs_share_is_done_once_for_each_record(ottla_streams: Streams, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def noted(what: str, result: Any) -> Any:
        with calls.open("a") as lines:
            lines.write(f"{what}\n")
        return result

    app = App("stateless")
    peeked = app.stream("in").peek(lambda value: noted("peek", None)).map_values(str.upper, value=Text)
    split = peeked.split(a=lambda value: noted("a?", "A" in value), b=lambda value: noted("b?", "B" in value))
    for name, branch in split.items():
        branch.to(f"to-{name}")
    peeked.map_values(len, value=Long).to("out")
    driver = ottla_streams(app)
    for value in ("ab", "b", "c"):
        driver.send("in", value)
    assert driver.read("out") == [(None, 2), (None, 1), (None, 1)]
    assert [driver.read(f"to-{name}") for name in split] == [[(None, "AB")], [(None, "B")], [(None, "C")]]
    assert Counter(calls.read_text().split()) == {"peek": 3, "a?": 3, "b?": 2}


def test_a_topic_by_record(ottla_streams: Streams) -> None:
    app = App("stateless")
    app.stream("in").to(native(lambda value: F.concat(F.lit("to-"), value)))
    app.stream("to-a", "to-b").map_values("upper(value)").to("out")
    driver = ottla_streams(app)
    driver.send("in", "a")
    driver.send("in", "b")
    assert sorted(driver.read("to-a") + driver.read("to-b")) == [(None, "a"), (None, "b")]


def test_streams_merge(ottla_streams: Streams) -> None:
    app = App("stateless")
    app.stream("in").map_values("upper(value)").merge(app.stream("other")).to("out")
    driver = ottla_streams(app)
    driver.send("in", "one")
    driver.send("other", "two")
    assert sorted(driver.read("out")) == [(None, "ONE"), (None, "two")]


def test_records_keep_timestamp_and_headers(ottla_streams: Streams) -> None:
    app = App("stateless")
    app.stream("in").map_values("upper(value)").through("between").map_values(str.lower).to("out")
    driver = ottla_streams(app)
    driver.send("in", "x", key="k", timestamp=1234, headers={"trace": b"1"})
    (record,) = driver.records("out")
    assert (record.key, record.value, record.timestamp, record.headers) == ("k", "x", 1234, {"trace": b"1"})


def test_a_pattern_reads_all_topics_that_it_matches(ottla_streams: Streams) -> None:
    app = App("stateless")
    app.stream("log-a", "log-b").to("all")  # makes the topics
    app.stream(pattern="log-.*").map_values(native(lambda topic, value: F.concat(topic, F.lit(" "), value))).to("out")
    driver = ottla_streams(app)
    driver.send("log-a", "1")
    driver.send("log-b", "2")
    assert sorted(driver.read("out")) == [(None, "log-a 1"), (None, "log-b 2")]


def test_an_expression_with_a_missing_column_is_refused_by_name(ottla_streams: Streams) -> None:
    app = App("stateless")
    app.stream("in", value=Json("name string")).map_values("value.nam", name="shorten").to("out")
    with pytest.raises(PipelineError, match=r"shorten.*nam.*name"):
        ottla_streams(app).start()


def test_an_unknown_topic_is_refused_with_the_nearest_name(ottla_streams: Streams) -> None:
    app = App("stateless")
    app.stream("in").to("out")
    driver = ottla_streams(app)
    other = App("other")
    other.stream("inn").to("out")
    other.change(bootstrap=driver.app.settings.bootstrap, state_dir=driver.app.settings.state_dir)
    with pytest.raises(PipelineError, match="inn"):
        other.start()
