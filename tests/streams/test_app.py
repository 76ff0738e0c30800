"""Applications as a whole: what they refuse, what becomes of bad records, how they go on after a stop."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import functions as F

from ottla.streams import App, DeadLetters, Json, Long, PipelineError, Processor, Record, Text, skip, tumbling, within
from ottla.streams.real_time import slots_needed
from ottla.streams.testing import Driver

Streams = Callable[..., Driver]


def test_a_record_that_does_not_fit_ends_the_application_with_its_place(ottla_streams: Streams) -> None:
    app = App("app")
    app.stream("in", value=Json("n bigint"), name="numbers").map_values("value.n").to("out")
    driver = ottla_streams(app)
    driver.send("in", b'{"n": 1}')
    driver.send("in", b"not json")
    with pytest.raises(PipelineError, match=r"numbers.*topic in, partition 0, offset 1.*json") as failure:
        driver.run()
    assert "\n" not in str(failure.value)


def test_records_that_do_not_fit_are_skipped_and_counted(ottla_streams: Streams) -> None:
    app = App("app", on_error=skip)
    app.stream("in", value=Json("n bigint")).map_values("value.n").to("out")
    driver = ottla_streams(app)
    for value in (b'{"n": 1}', b"not json", b'{"n": 2}'):
        driver.send("in", value)
    assert driver.read("out") == [(None, 1), (None, 2)]


def test_a_python_function_that_fails_sends_its_record_to_the_dead_letters(ottla_streams: Streams) -> None:
    app = App("app", on_error=DeadLetters("dead"))
    app.stream("in").map_values(lambda value: 12 // int(value), value=Long, name="divide").to("out")
    driver = ottla_streams(app)
    for value in ("3", "0", "x"):
        driver.send("in", value, key="k", headers={"trace": b"1"})
    assert driver.read("out") == [("k", 4)]
    letters = driver.records("dead")
    assert [(letter.key, letter.value) for letter in letters] == [(b"k", b"0"), (b"k", b"x")]
    assert b"ZeroDivisionError" in (letters[0].headers["ottla.error.exception"] or b"")
    assert letters[0].headers["ottla.error.offset"] == b"1"
    assert letters[0].headers["trace"] == b"1"


def test_late_records_go_to_the_dead_letters(ottla_streams: Streams) -> None:
    app = App("app", on_late=DeadLetters("dead"))
    app.stream("in").group_by_key().windowed_by(tumbling(seconds=1, grace=0)).count().to("out")
    driver = ottla_streams(app)
    driver.send("in", "early", key="a", timestamp=1_000)
    driver.send("in", "on", key="a", timestamp=9_000)
    driver.run()
    driver.run()
    driver.send("in", "late", key="a", timestamp=1_500)
    assert [(letter.key, letter.value) for letter in driver.records("dead")] == [(b"a", b"late")]


def test_foreach_and_peek_see_every_record(ottla_streams: Streams, tmp_path: Path) -> None:
    seen, peeked, counted = tmp_path / "seen", tmp_path / "peeked", tmp_path / "counted"

    def note(file: Path) -> Callable[[Any, Any], None]:
        def write(key: Any, value: Any) -> None:
            with file.open("a") as lines:
                lines.write(f"{key}={value}\n")

        return write

    app = App("app")
    app.stream("in").peek(note(peeked)).map_values(str.upper).foreach(note(seen))
    app.stream("in").group_by_key().count().to_stream().foreach(note(counted))
    driver = ottla_streams(app)
    driver.send("in", "x", key="a")
    driver.send("in", "y", key="b")
    driver.run()
    assert seen.read_text() == "a=X\nb=Y\n"
    assert peeked.read_text() == "a=x\nb=y\n"
    assert sorted(counted.read_text().splitlines()) == ["a=1", "b=1"]


def test_any_dataframe_of_spark_fits_in(ottla_streams: Streams) -> None:
    app = App("app")
    stream = app.stream("in").with_df(lambda df: df.withColumn("value", F.reverse("value")))
    stream.to("out")
    driver = ottla_streams(app)
    driver.send("in", "abc")
    assert driver.read("out") == [(None, "cba")]
    assert {"key", "value", "timestamp"} <= set(stream.df.columns)


def test_a_frame_without_a_value_is_refused(ottla_streams: Streams) -> None:
    app = App("app")
    app.stream("in").with_df(lambda df: df.drop("value"), name="mine").to("out")
    with pytest.raises(PipelineError, match="mine: the DataFrame has no column 'value'"):
        ottla_streams(app).start()


def test_progress_is_the_offsets_of_a_consumer_group(ottla_streams: Streams) -> None:
    app = App("app-group")
    app.stream("in").to("out")
    driver = ottla_streams(app)
    for value in "abc":
        driver.send("in", value)
    driver.run()
    app.stop()
    consumer = Consumer({"bootstrap.servers": app.settings.bootstrap, "group.id": "app-group"})
    (place,) = consumer.committed([TopicPartition("in", 0)], 10)
    consumer.close()
    assert place.offset == 3


def test_a_changed_state_is_refused_and_a_changed_step_goes_on(ottla_streams: Streams, tmp_path: Path) -> None:
    def application(expression: str, prefix: str) -> App:
        app = App("changing")
        words = app.stream("in").map_values(f"concat('{prefix}', value)")
        words.group_by("value").aggregate(expression, name="agg").to("out")
        return app

    driver = ottla_streams(application("count(*)", "a"))
    driver.send("in", "x")
    assert driver.read("out") == [("ax", 1)]
    driver.app.stop()
    settings = driver.app.settings
    other = application("count(*)", "b")
    other.change(bootstrap=settings.bootstrap, state_dir=settings.state_dir)
    other.start(driver.session).stop()
    changed = application("max(value)", "a")
    changed.change(bootstrap=settings.bootstrap, state_dir=settings.state_dir)
    with pytest.raises(PipelineError, match=r"topology of changing has changed.*count\(\*\).*max\(value\).*reset"):
        changed.start(driver.session)


class Reminder(Processor):
    def process(self, record: Record) -> None:
        self.context.register_timer(self.context.now + int(record.value))

    def on_timer(self, time: int) -> tuple[Any, Any]:
        return self.context.key, "now"


def test_timers_of_the_clock_fire_after_a_restart_though_no_record_comes(ottla_streams: Streams) -> None:
    app = App("reminder")
    app.stream("in").process(Reminder, value=Text, time="processing").to("out")
    driver = ottla_streams(app)
    driver.send("in", "5000", key="tea")
    driver.restart()
    assert driver.wait_for("out", 1) == [("tea", "now")]


def test_a_step_that_was_numbered_anew_is_told_its_old_name(ottla_streams: Streams) -> None:
    def application(more: bool, name: str | None = None) -> App:
        app = App("numbered")
        stream = app.stream("in")
        (stream.filter("value != 'b'") if more else stream).map_values("upper(value)").to("out", name=name)
        return app

    driver = ottla_streams(application(more=False))
    driver.send("in", "a")
    assert driver.read("out") == [(None, "A")]
    driver.restart()
    settings = driver.app.settings

    def change(app: App) -> App:
        app.change(bootstrap=settings.bootstrap, state_dir=settings.state_dir, interval_ms=0)
        return app

    told = r"to-3 is new and would read in from the start, which to-2 has read and is gone.*name='to-2'"
    with pytest.raises(PipelineError, match=told):
        change(application(more=True)).start(driver.session)
    driver.app = change(application(more=True, name="to-2"))
    driver.send("in", "b")
    driver.send("in", "c")
    assert driver.read("out") == [(None, "C")]


def test_a_checkpoint_of_another_application_is_refused(ottla_streams: Streams) -> None:
    app = App("first")
    app.stream("in").to("out", name="copy")
    driver = ottla_streams(app)
    driver.run()
    app.stop()
    other = App("second")
    other.stream("in").to("out", name="copy")
    other.change(bootstrap=app.settings.bootstrap, state_dir=app.settings.state_dir)
    app.state.path.rename(other.state.path)
    with pytest.raises(PipelineError, match=r"application first.*application second"):
        other.start(driver.session)


def test_an_unreachable_broker_is_named(ottla_streams: Streams) -> None:
    app = App("app", bootstrap="127.0.0.1:1")
    app.stream("in").to("out")
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1:1"):
        app.start()


def test_stores_answer_over_http(ottla_streams: Streams) -> None:
    app = App("app", http="127.0.0.1:0")
    app.stream("in").group_by("value").count("Counts").to("out")
    driver = ottla_streams(app)
    driver.send("in", "x")
    driver.store("Counts")
    address = driver.start().http_address
    with urllib.request.urlopen(f"http://{address}/stores/Counts/keys/x") as reply:
        assert json.load(reply)["value"] == 1


def test_exactly_once_through_two_queries(ottla_streams: Streams) -> None:
    app = App("eos", delivery="exactly_once")
    per_word = app.stream("in").flat_map_values(str.split, value=Text).group_by("value").count(name="words").to_stream()
    per_word.group_by("'all'").aggregate("sum(value)", name="total").to("out")
    driver = ottla_streams(app)
    driver.send("in", "a b a")
    assert driver.read("out") == [("all", 3)]
    driver.restart()
    driver.send("in", "c")
    assert driver.read("out") == [("all", 4)]


def test_real_time_is_refused_by_the_step_that_forbids_it() -> None:
    app = App("fast", latency="real-time")
    app.stream("in").map_values(str.upper, name="shout").to("out")
    with pytest.raises(PipelineError, match=r"shout is a Python function.*micro-batch"):
        app.start()
    counting = App("fast", latency="real-time")
    counting.stream("in").group_by_key().count(name="counts").to("out")
    with pytest.raises(PipelineError, match="counts keeps state"):
        counting.start()
    exact = App("fast", latency="real-time", delivery="exactly_once")
    exact.stream("in").map_values("upper(value)").to("out")
    with pytest.raises(PipelineError, match="at least once"):
        exact.start()


def joined(other: Callable[[App], Any], **options: Any) -> Any:
    app = App("a")
    return app.stream("in").join(other(app), "left", **options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: App("bad id"), "'bad id' is no application id"),
        (lambda: App("a", delivery="maybe"), "delivery is at_least_once or exactly_once"),  # type: ignore[arg-type]
        (lambda: App("a").stream(), "from topics by name"),
        (lambda: App("a").stream(pattern="("), "no regular expression"),
        (lambda: App("a").stream("in").map_values(3), "map-values-1 takes a function"),  # type: ignore[arg-type]
        (lambda: App("a").stream("in").map("upper(value)"), "two expressions"),
        (lambda: App("a").stream("in").peek("value"), "peek calls"),  # type: ignore[arg-type]
        (lambda: App("a").stream("in").repartition(0), "at least one partition"),
        (lambda: App("a").stream("in", name="../in"), "'../in' is no name of a step or a store"),
        (lambda: App("a").table("in", store="a store"), "'a store' is no name of a step or a store"),
        (lambda: App("a").stream("in", name=".."), "'..' is no name"),
        (lambda: App("a").stream("in").group_by_key().final(), "for windows"),
        (lambda: App("a").stream("in").group_by_key().windowed_by(tumbling(seconds=1)).final(), "give one"),
        (lambda: App("a").stream("in").group_by_key().aggregate(), "aggregate takes"),
        (lambda: App("a").stream("in").group_by_key().aggregate("sum(value)", value=Long), "are for Python functions"),
        (lambda: joined(lambda app: app.global_table("t"), how="outer", key="key"), "inner or left"),
        (lambda: joined(lambda app: app.global_table("t")), "needs key="),
        (lambda: joined(lambda app: app.table("t"), within=within(seconds=1)), "has no window"),
        (lambda: joined(lambda app: app.table("t"), key="value"), "key= is for global tables"),
        (lambda: joined(lambda app: app.stream("t")), "needs a window"),
        (lambda: tumbling(), "tumbling\\(seconds=5\\)"),
        (lambda: tumbling(seconds=1, grace=-1), "0 s or more"),
    ],
)
def test_a_mistake_in_the_topology_is_named_where_it_is_made(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        build()


def test_real_time_needs_slots_for_all_that_is_read_at_once() -> None:
    app = App("fast")
    app.stream("in").repartition(5).map_values("upper(value)").to("out")
    app.stream(pattern="log-.*").through("between").to("logs")
    there = {"in": 2, "log-a": 3, "log-b": 1, "other": 9}
    assert slots_needed(app.plan(), there) == 2 + 5 + (3 + 1) + 2
    assert slots_needed(app.plan(), {**there, "between": 4}) == 2 + 5 + (3 + 1) + 4


def test_native_steps_run_in_real_time(ottla_streams: Streams) -> None:
    app = App("fast", latency="real-time", master="local[2]")
    names = app.global_table("names")
    shouts = app.stream("in").filter("value <> 'x'").map_values("upper(value)")
    shouts.left_join(names, "concat(left, coalesce(right, '?'))", key="key").to("out")
    driver = ottla_streams(app)
    driver.send("names", "Ann", key="a")
    driver.flush()
    driver.start()
    for value in ("one", "x", "two"):
        driver.send("in", value, key="a")
    driver.flush()
    assert driver.wait_for("out", 2) == [("a", "ONEAnn"), ("a", "TWOAnn")]
    driver.send("in", "three", key="b")
    driver.flush()
    assert driver.wait_for("out", 1) == [("b", "THREE?")]


def test_real_time_needs_a_slot_for_each_partition(ottla_streams: Streams) -> None:
    app = App("fast", latency="real-time", master="local[2]")
    app.stream("in").map_values("upper(value)").to("out")
    driver = ottla_streams(app, partitions=3)
    with pytest.raises(PipelineError, match=r"a task slot per partition that is read: 3.*has 2.*local\[3\]"):
        driver.start()
