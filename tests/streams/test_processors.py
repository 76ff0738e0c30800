"""Processors: their states, timers and times to live, what is taken back when they fail, and what Spark keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from pyspark.sql import DataFrame

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Json, Long, Serde, Text
from ottla.streams.keyed_python import NO_KEY
from ottla.streams.processors import Context, Processor, Work, process
from ottla.streams.steps import Record
from support.frames import Feed, Run
from support.keyed import Store
from support.waiting import wait_until


def work(processor: Callable[[], Processor], out: Serde = Json, delay: int = 0) -> Work:
    return Work(Text, Text, processor, Text, out, "watch", delay)


def forwarded(rows: list[dict[str, Any]]) -> list[tuple[Any, Any, int]]:
    good = [row for row in rows if row["reason"] is None]
    return [(row["key"], Json.to_python(row["value"]), row["time"]) for row in good]


def reasons(rows: list[dict[str, Any]]) -> list[str]:
    return [row["reason"] for row in rows if row["reason"] is not None]


class Total(Processor):
    """Sums the numbers of a key; tells each sum, one way or the other."""

    def init(self, context: Context) -> None:
        self.total = context.value_state("total", Long)

    def process(self, record: Record) -> Iterator[tuple[Any, Any]]:
        total = (self.total.get() or 0) + int(record.value)
        self.total.set(total)
        yield record.key, total


def test_a_value_is_kept_for_each_key() -> None:
    store = Store(work(Total))
    assert forwarded(store.run([(b"a", "1", 5), (b"b", "2", 6), (b"a", "3", 7)])) == [
        ("a", 1, 5),
        ("a", 4, 7),
        ("b", 2, 6),
    ]
    assert forwarded(store.run([(b"a", "10", 8)])) == [("a", 14, 8)]


def test_a_key_that_fills_several_arrow_batches_goes_on() -> None:
    store = Store(work(Total), rows_per_batch=2)
    assert [total for _, total, _ in forwarded(store.run([(b"a", "1", 0)] * 5 + [(b"b", "1", 0)] * 3))] == [
        *[1, 2, 3, 4, 5],
        *[1, 2, 3],
    ]


class Diary(Processor):
    """Does to its states what the record says."""

    def init(self, context: Context) -> None:
        self.words = context.list_state("words", Text)
        self.counts = context.map_state("counts", Text, Long)
        self.last = context.value_state("last", Json)

    def process(self, record: Record) -> tuple[Any, Any] | None:
        match record.value.split():
            case ["say", *words]:
                self.words.extend(words)
                for word in words:
                    self.counts[word] = self.counts.get(word, 0) + 1
                self.last.set({"words": words})
            case ["forget", word]:
                self.words.set(each for each in self.words if each != word)
                self.counts.remove(word)
            case ["forget"]:
                self.words.clear()
                self.counts.clear()
                self.last.clear()
            case ["fail"]:
                self.words.append("lost")
                self.counts.put("lost", 1)
                self.counts.clear()
                self.last.set(None)
                self.context.forward("lost", None)
                raise LookupError("as told")
            case ["tell"]:
                return "told", [self.words.get(), dict(self.counts.items()), self.last.get()]
        return None


def test_lists_and_maps_are_kept_changed_and_forgotten() -> None:
    store = Store(work(Diary))

    def say(*texts: str) -> list[Any]:
        return [told for _, told, _ in forwarded(store.run([(b"k", text, 1) for text in texts]))]

    assert say("tell") == [[[], {}, None]]
    assert store.states == {}
    assert say("say a b a", "tell") == [[["a", "b", "a"], {"a": 2, "b": 1}, {"words": ["a", "b", "a"]}]]
    assert say("forget a", "say c") == []
    assert say("tell") == [[["b", "c"], {"b": 1, "c": 1}, {"words": ["c"]}]]
    assert say("forget") == []
    assert store.states == {}


def test_a_record_that_fails_has_no_effect() -> None:
    store = Store(work(Diary))
    store.run([(b"k", "say a", 1)])
    before = dict(store.states)
    rows = store.run([(b"k", "fail", 2)])
    assert forwarded(rows) == []
    assert reasons(rows) == ["LookupError in watch: as told"]
    assert store.states == before
    assert forwarded(store.run([(b"k", text, 3) for text in ("say b", "fail", "tell")])) == [
        ("told", [["a", "b"], {"a": 1, "b": 1}, {"words": ["b"]}], 3)
    ]


def test_the_record_that_fails_is_told_with_its_origin_and_bytes() -> None:
    (row,) = Store(work(Total)).run([(b"a", "x", 5)])
    assert row["reason"].startswith("ValueError in watch: invalid literal")
    assert [row[name] for name in ("raw_key", "raw_value", "time", "topic", "partition", "offset")] == [
        b"a",
        b"x",
        5,
        "in",
        0,
        0,
    ]


class Unfit(Processor):
    def init(self, context: Context) -> None:
        self.total = context.value_state("total", Long)

    def process(self, record: Record) -> None:
        self.total.set(record.value)
        self.context.forward(record.key, record.value)


def test_a_state_that_does_not_fit_its_serde_rejects_the_records_of_its_key() -> None:
    store = Store(work(Unfit))
    rows = store.run([(b"a", "x", 1), (b"a", "y", 2)])
    assert forwarded(rows) == []
    assert [reason.split(":")[0] for reason in reasons(rows)] == ["ValueError in watch"] * 2
    assert store.states == {}


class Wait(Processor):
    """Tells what has come when a timer says so."""

    def init(self, context: Context) -> None:
        self.waiting = context.list_state("waiting", Text)

    def process(self, record: Record) -> None:
        assert record.timestamp is not None
        if record.value == "stop":
            self.context.delete_timer(record.timestamp)
        else:
            self.waiting.append(record.value)
            self.context.register_timer(record.timestamp + 10)
        if record.value == "fail":
            raise ValueError(record.value)

    def on_timer(self, time: int) -> list[tuple[Any, Any]]:
        told = [(self.context.key, [time, self.context.stream_time, *self.waiting])]
        self.waiting.clear()
        return told


def test_timers_fire_once_when_their_time_has_come() -> None:
    store = Store(work(Wait))
    assert store.run([(b"a", "1", 5), (b"a", "2", 7), (b"b", "3", 8), (b"b", "fail", 90)]) != []
    assert store.timers == {(b"a", 15), (b"a", 17), (b"b", 18)}
    assert forwarded(store.run([], watermark=17)) == [("a", [15, 17, "1", "2"], 15), ("a", [17, 17], 17)]
    assert forwarded(store.run([(b"b", "stop", 18)], watermark=17)) == []
    assert store.timers == set()


def test_timers_keep_to_stream_time_when_the_watermark_is_behind() -> None:
    store = Store(work(Wait, delay=100))
    store.run([(b"a", "1", 205)])
    assert store.timers == {(b"a", 115)}
    assert forwarded(store.run([], watermark=115)) == [("a", [215, 215, "1"], 215)]


class Hasty(Processor):
    def process(self, record: Record) -> None:
        self.context.register_timer(1)


def test_a_timer_without_on_timer_is_refused() -> None:
    assert reasons(Store(work(Hasty)).run([(b"a", "1", 5)])) == [
        "ValueError in watch: a timer was set, and there is no on_timer for it"
    ]


class Fading(Processor):
    def init(self, context: Context) -> None:
        self.value = context.value_state("value", Text, ttl=1)
        self.many = context.list_state("many", Text, ttl=2)
        self.named = context.map_state("named", Text, Text, ttl=3)

    def process(self, record: Record) -> tuple[Any, Any]:
        seen = [self.value.get(), self.many.get(), self.named.items()]
        if record.value:
            self.value.set(record.value)
            self.many.append(record.value)
            self.named[record.value] = record.value
        return record.key, seen


def test_values_fade_away_each_in_its_time() -> None:
    store = Store(work(Fading))

    def see(text: str, now: int) -> Any:
        ((_, seen, _),) = forwarded(store.run([(b"a", text, 1)], now=now))
        return seen

    see("x", 1000)
    assert see("", 1999) == ["x", ["x"], [["x", "x"]]]
    see("y", 2500)
    assert see("", 3100) == ["y", ["y"], [["x", "x"], ["y", "y"]]]
    assert see("", 4600) == [None, [], [["y", "y"]]]


class Teller(Processor):
    def process(self, record: Record) -> None:
        told = [record.key, record.value, record.topic, record.partition, record.offset]
        self.context.forward("1", told)
        self.context.forward("2", [name for name, _ in record.headers or []], timestamp=7, headers=[("h", None)])


def test_a_record_tells_all_and_forward_sets_time_and_headers() -> None:
    rows = Store(work(Teller)).run([(NO_KEY, None, 5)])
    assert forwarded(rows) == [("1", [None, None, "in", 0, 0], 5), ("2", ["n"], 7)]
    assert [row["headers"] for row in rows] == [[{"key": "n", "value": b"1"}], [{"key": "h", "value": None}]]


class Twice(Processor):
    def init(self, context: Context) -> None:
        context.value_state("x", Text)
        context.list_state("x", Text)


class Late(Processor):
    def process(self, record: Record) -> None:
        self.context.value_state("late", Text)


class Never(Processor):
    def init(self, context: Context) -> None:
        context.value_state("x", Text, ttl=0)


class Broken(Processor):
    def init(self, context: Context) -> None:
        raise OSError("no such thing")


@pytest.mark.parametrize(
    ("processor", "said"),
    [
        (Twice, "two states with the name 'x'"),
        (Never, "time to live of the state 'x' must be above 0"),
        (Broken, "watch: init failed with OSError: no such thing"),
        (dict, "watch takes a class that derives from Processor"),
    ],
)
def test_a_processor_that_cannot_run_is_refused_before_it_does(processor: Any, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        work(processor).learn()


def test_states_are_named_in_init() -> None:
    assert reasons(Store(work(Late)).run([(b"a", "1", 1)])) == [
        "PipelineError in watch: the state 'late' must be named in init"
    ]


def test_what_is_returned_is_one_pair_and_what_is_yielded_many() -> None:
    class Odd(Processor):
        results: ClassVar[dict[str, Any]] = {"pair": ("a", 1), "many": [("a", 1), ["b", 2]], "text": "ab", "none": None}

        def process(self, record: Record) -> Any:
            return self.results[record.value]

    def made(what: str) -> list[dict[str, Any]]:
        return Store(work(Odd)).run([(b"k", what, 1)])

    assert [forwarded(made(what)) for what in ("pair", "many", "none")] == [
        [("a", 1, 1)],
        [("a", 1, 1), ("b", 2, 1)],
        [],
    ]
    assert reasons(made("text")) == ["TypeError in watch: a (key, value) is needed, not 'a'"]


# In Spark ----------------------------------------------------------------------------------------------------------


def processed(frame: DataFrame, processor: type[Processor], value: Serde, mode: Any = "processing") -> DataFrame:
    made = process(frame, Text, Text, processor, out_key=Text, out_value=value, time_mode=mode, name="watch")
    return made.select("key", "value", "timestamp", "reason", "raw_value")


def test_spark_keeps_states_over_a_restart_and_gives_failed_records(feed: Feed, run: Run) -> None:
    query = run(lambda: processed(feed.frame("in"), Total, Long))
    feed.add(**{"in": [("a", "1", 1), (None, "5", 2), ("a", "2", 3), ("b", "x", 4)]})
    reason = "ValueError in watch: invalid literal for int() with base 10: 'x'"
    assert sorted(query.rows(), key=str) == [
        ("a", 1, 1, None, None),
        ("a", 3, 3, None, None),
        (None, 5, 2, None, None),
        (None, None, 4, reason, b"x"),
    ]
    query.restart()
    feed.add(**{"in": [("a", "4", 5), (None, "6", 6)]})
    assert sorted(query.rows(), key=str) == [("a", 7, 5, None, None), (None, 11, 6, None, None)]


def test_spark_fires_timers_of_stream_time(feed: Feed, run: Run) -> None:
    query = run(lambda: processed(feed.frame("in"), Wait, Json, "event").select("key", "timestamp"))
    keys = "abcdefgh"
    feed.add(**{"in": [*((key, "1", 5) for key in keys), ("a", "2", 30)]})
    assert sorted(query.rows()) == [(key, 15) for key in keys]
    query.restart()
    feed.add(**{"in": [("z", "3", 41)]})
    assert query.rows() == [("a", 40)]


class Alarm(Processor):
    """Rings by the clock, once for each record."""

    def init(self, context: Context) -> None:
        self.count = context.value_state("count", Long, ttl=3600)

    def process(self, record: Record) -> None:
        self.count.set((self.count.get() or 0) + 1)
        self.context.register_timer(self.context.now + int(record.value))

    def on_timer(self, time: int) -> tuple[Any, Any]:
        return self.context.key, self.count.get()


def test_spark_fires_timers_of_the_clock_without_new_records_and_stands_still_otherwise(feed: Feed, run: Run) -> None:
    query = run(lambda: processed(feed.frame("in"), Alarm, Long).select("key", "value"))
    feed.add(**{"in": [("a", "1000000", 1), ("b", "1", 2)]})
    rung = query.rows()  # ends, though there is a timer to come
    wait_until(lambda: rung.extend(query.rows()) or rung)
    assert rung == [("b", 1)]
    query.restart()
    feed.add(**{"in": [("b", "-1", 3)]})
    assert query.rows() == [("b", 2)]
