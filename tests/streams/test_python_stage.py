"""Users' Python functions on Arrow batches: what comes out, what fails and how, what travels to the workers."""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Bytes, Json, Long, Serde, Text
from ottla.streams import python_stage
from ottla.streams.python_code import Typed
from ottla.streams.python_stage import Stage, Work
from ottla.streams.steps import (
    Case,
    Filter,
    FilterNot,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    MapValuesWithKey,
    Output,
    Peek,
    Record,
    SelectKey,
    Step,
    Tree,
)

Pairs = Sequence[tuple[Any, Any]]


def batch(pairs: Pairs, key: pa.DataType | None = None, value: pa.DataType | None = None) -> pa.RecordBatch:
    """Records of the topic "in", partition 3, offsets from 100, a second apart."""
    count = len(pairs)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "key": pa.array([k for k, _ in pairs], key or pa.string()),
        "value": pa.array([v for _, v in pairs], value or pa.string()),
        "timestamp": pa.array([i * 1_000_000 for i in range(count)], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "headers": pa.array([[{"key": "n", "value": str(i).encode()}] for i in range(count)], header),
        "topic": pa.array(["in"] * count),
        "partition": pa.array([3] * count, pa.int32()),
        "offset": pa.array(range(100, 100 + count), pa.int64()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def through(
    pairs: Pairs, *steps: Step, key: Serde = Text, value: Serde = Text, to: tuple[Serde, Serde] = (Text, Text)
) -> list[dict[str, Any]]:
    """The rows that a chain of steps makes."""
    work = Work(Tree(steps), key, value, Typed(*to), "stage")
    given = batch(pairs, _arrow(key), _arrow(value))
    return _rows(work, given)


def to_sinks(pairs: Pairs, tree: Tree, key: Serde = Text, value: Serde = Text) -> list[dict[str, Any]]:
    return _rows(Work(tree, key, value, None, "stage"), batch(pairs, _arrow(key), _arrow(value)))


def _rows(work: Work, given: pa.RecordBatch) -> list[dict[str, Any]]:
    stage = Stage(work, work.schema(given.schema.names))
    return [row for made in stage(given) for row in made.to_pylist()]


def _arrow(serde: Serde) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(serde.type, timezone="UTC")


def pairs_of(rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(row["key"], row["value"]) for row in rows]


WORDS: Pairs = [("a", "the cat"), ("b", ""), (None, None), ("c", "The dog sat")]


def test_each_step_does_what_its_name_says() -> None:
    some = [("a", "1"), ("b", "22"), ("c", "333")]
    assert pairs_of(through(some, Map(lambda key, value: (value, key)))) == [("1", "a"), ("22", "b"), ("333", "c")]
    assert pairs_of(through(some, MapValues(lambda value: value + "!"))) == [("a", "1!"), ("b", "22!"), ("c", "333!")]
    assert pairs_of(through(some, MapValuesWithKey(lambda k, v: k + v))) == [("a", "a1"), ("b", "b22"), ("c", "c333")]
    assert pairs_of(through(some, FlatMap(lambda k, v: [(v, k)] * (len(v) - 1)))) == [("22", "b")] + [("333", "c")] * 2
    assert pairs_of(through(some, FlatMapValues(lambda value: list(value[1:])))) == [("b", "2"), ("c", "3"), ("c", "3")]
    assert pairs_of(through(some, Filter(lambda key, value: key > "a"))) == [("b", "22"), ("c", "333")]
    assert pairs_of(through(some, FilterNot(lambda key, value: key > "a"))) == [("a", "1")]
    assert pairs_of(through(some, SelectKey(lambda key, value: value[0]))) == [("1", "1"), ("2", "22"), ("3", "333")]
    seen: list[tuple[Any, Any]] = []
    assert pairs_of(through(some, Peek(lambda key, value: seen.append((key, value))))) == some == seen


def test_a_word_count_s_words_keep_time_headers_and_origin_of_their_line() -> None:
    rows = through(
        WORDS,
        Filter(lambda value: value is not None),
        FlatMapValues(lambda value: value.lower().split()),
        Map(lambda key, word: (word, word)),
        Filter(lambda key, value: value != "the"),
    )
    assert pairs_of(rows) == [("cat", "cat"), ("dog", "dog"), ("sat", "sat")]
    assert [(row["offset"], row["timestamp"].second) for row in rows] == [(100, 0), (103, 3), (103, 3)]
    assert [row["headers"] for row in rows] == [[{"key": "n", "value": n}] for n in (b"0", b"3", b"3")]
    assert all(row["reason"] is None and row["raw_value"] is None for row in rows)


def test_a_function_gets_what_its_parameters_ask_for() -> None:
    some = [("a", "x")]
    whole = Record("a", "x", 0, [("n", b"0")], "in", 3, 100)
    got: list[Any] = []
    through(
        some,
        Peek(lambda value: got.append(value)),
        Peek(lambda key, value: got.append((key, value))),
        Peek(lambda value, record: got.append((value, record))),
        Peek(lambda record: got.append(record)),
        Peek(lambda record, key, value: got.append((record, key, value))),
        Peek(lambda value, sink=got.append: sink(value)),
        Peek(print),
    )
    assert got == ["x", ("a", "x"), ("x", whole), whole, (whole, "a", "x"), "x"]
    assert pairs_of(through([("7", "8")], MapValues(int), MapValues(lambda v: v + 1), to=(Text, Long))) == [("7", 9)]
    assert pairs_of(through(some, MapValues(str.upper))) == [("a", "X")]


def test_a_record_has_the_key_and_value_of_the_step_that_gets_it() -> None:
    rows = through([("a", "x")], Map(lambda k, v: (v, k)), MapValues(lambda record: f"{record.key}{record.value}"))
    assert pairs_of(rows) == [("x", "xa")]


@pytest.mark.parametrize("function", [lambda: 1, lambda a, b, c: a, lambda value, *, needed: value, 7])
def test_a_function_with_other_parameters_is_refused(function: Any) -> None:
    with pytest.raises(PipelineError, match=r"^shout (has|takes) a function"):
        through([], MapValues(function, name="shout"))


def test_a_failing_function_costs_its_record_only() -> None:
    rows = through([("a", "1"), ("b", "one"), ("c", "3")], MapValues(int, name="number"), to=(Text, Long))
    assert pairs_of(rows) == [("a", 1), ("c", 3), (None, None)]
    failed = rows[-1]
    assert failed["reason"] == "ValueError in number: invalid literal for int() with base 10: 'one'"
    assert (failed["topic"], failed["partition"], failed["offset"]) == ("in", 3, 101)
    assert (failed["raw_key"], failed["raw_value"]) == (b"b", b"one")


def test_a_record_that_fails_late_has_no_outputs_at_all() -> None:
    def halves(value: str) -> Iterator[str]:
        yield value[:1]
        if value == "bad":
            raise RuntimeError("no\nmore")
        yield value[1:]

    tree = Tree((FlatMapValues(halves),), (Output("one", Text, Text), Output("two", Text, Text)))
    rows = to_sinks([("a", "xy"), ("b", "bad"), ("c", "zz")], tree)
    assert [(row["topic"], row["value"]) for row in rows if row["reason"] is None] == [
        *[("one", b"x"), ("two", b"x"), ("one", b"y"), ("two", b"y")],
        *[("one", b"z"), ("two", b"z"), ("one", b"z"), ("two", b"z")],
    ]
    failed = [row for row in rows if row["reason"] is not None]
    assert [(row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in failed] == [
        ("in", 3, 101, b"b", b"bad")
    ]
    assert failed[0]["reason"] == "RuntimeError in flat_map_values: no more"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Map(lambda k, v: v), "TypeError in map: a (key, value) is needed, not 'xy'"),
        (Map(lambda k, v: (k, v, 1)), "TypeError in map: a (key, value) is needed, not ('a', 'xy', 1)"),
        (FlatMap(lambda k, v: [v]), "TypeError in flat_map: a (key, value) is needed, not 'xy'"),
        (FlatMap(lambda k, v: None), "TypeError in flat_map: 'NoneType' object is not iterable"),
        (FlatMapValues(lambda v: v), "TypeError in flat_map_values: a list or other iterable of results is needed"),
        (MapValues(lambda v: 5), "in map_values: 5 is no text"),
        (MapValues(lambda v: "\ud800"), "UnicodeEncodeError in map_values: "),
        (SelectKey(lambda k, v: b"x"), "in select_key: b'x' is no text"),
        (Filter(lambda v: v.nothing), "AttributeError in filter: 'str' object has no attribute 'nothing'"),
        (MapValues(lambda v: next(iter(()))), "StopIteration in map_values"),
    ],
)
def test_what_a_step_cannot_give_is_said(step: Step, reason: str) -> None:
    (row,) = through([("a", "xy")], step)
    assert reason in row["reason"]
    assert "\n" not in row["reason"]


def test_numbers_that_do_not_fit_fail_alone() -> None:
    rows = through([("a", "1"), ("b", "2"), ("c", "3")], MapValues(lambda v: 10 ** (18 * int(v))), to=(Text, Long))
    assert [(row["value"], row["offset"]) for row in rows] == [(10**18, 100), (None, 101), (None, 102)]
    assert [row["reason"].split()[:3] for row in rows[1:]] == [["OverflowError", "in", "map_values:"]] * 2


def test_text_that_is_no_unicode_fails_alone_among_several_outputs() -> None:
    tree = Tree((FlatMapValues(lambda v: [v, "\ud800" if v == "b" else v]),), (Output("out", Text, Text),))
    rows = to_sinks([("1", "a"), ("2", "b"), ("3", "c")], tree)
    assert [row["value"] for row in rows] == [b"a", b"a", b"c", b"c", b"b"]
    assert [row["reason"] is not None for row in rows] == [False] * 4 + [True]


def test_the_first_traceback_of_a_task_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def broken(value: str) -> str:
        raise KeyError(value)

    with caplog.at_level(logging.WARNING, logger="ottla.streams"):
        through([("a", "1"), ("b", "2")], MapValues(broken))
    (told,) = [record for record in caplog.records if record.name == "ottla.streams"]
    assert "KeyError in map_values: '1'" in told.getMessage()
    assert told.exc_info is not None
    assert "raise KeyError(value)" in "".join(traceback.format_exception(*told.exc_info))


def test_json_is_seen_as_objects_and_written_back() -> None:
    rows = through(
        [("a", '{"n": 1}'), ("b", "[]")],
        MapValues(lambda value: {**value, "n": value["n"] + 1}),
        value=Json,
        to=(Text, Json),
    )
    assert [Json.to_python(row["value"]) for row in rows if row["reason"] is None] == [{"n": 2}]
    assert rows[-1]["reason"].startswith("TypeError in map_values")
    assert rows[-1]["raw_value"] == b"[]"


def test_an_untouched_key_and_value_change_their_serde() -> None:
    assert pairs_of(through([("a", "x")], Peek(lambda v: None), to=(Text, Text))) == [("a", "x")]
    rows = through([("a", b"x")], Peek(lambda v: None), value=Bytes, to=(Text, Text))
    assert "b'x' is no text" in rows[0]["reason"]


def test_branches_all_get_a_record_and_a_split_gives_it_to_the_first() -> None:
    tree = Tree(
        (MapValues(str.lower),),
        (Output("all", Text, Text),),
        (
            Tree((Filter(lambda v: "error" in v),), (Output("errors", Text, Text),)),
            Tree((MapValues(len),), (Output("lengths", Text, Long),)),
        ),
        (
            Case(lambda v: v.startswith("a"), Tree((), (Output("a", Text, Text),))),
            Case(lambda v: v.startswith("ab"), Tree((), (Output("never", Text, Text),))),
            Case(None, Tree((SelectKey(lambda v: "rest"),), (Output("rest", Text, Text),))),
        ),
    )
    rows = to_sinks([("1", "ABC error"), ("2", "X")], tree)
    assert [(row["topic"], row["key"], row["value"]) for row in rows] == [
        ("all", b"1", b"abc error"),
        ("errors", b"1", b"abc error"),
        ("lengths", b"1", Long.dumps(9)),
        ("a", b"1", b"abc error"),
        ("all", b"2", b"x"),
        ("lengths", b"2", Long.dumps(1)),
        ("rest", b"rest", b"x"),
    ]


def test_a_topic_may_be_chosen_for_each_record() -> None:
    output = Output(lambda key, value, record: f"{record.topic}-{value}", Text, Text)
    rows = to_sinks([("a", "x"), ("b", "y")], Tree((), (output,)))
    assert [(row["topic"], row["partition"], row["key"]) for row in rows] == [
        ("in-x", None, b"a"),
        ("in-y", None, b"b"),
    ]


def test_a_topic_must_be_named() -> None:
    rows = to_sinks([("a", "x")], Tree((), (Output(lambda v: None, Text, Text, name="route"),)))
    assert rows[0]["reason"] == "TypeError in route: the name of a topic is needed, not None"


def test_columns_that_the_frame_lacks_are_absent_or_null() -> None:
    bare = batch([("a", "x")]).select(["key", "value"])
    typed = _rows(Work(Tree((MapValues(str.upper),)), Text, Text, Typed(Text, Text), ""), bare)
    assert typed == [{"key": "a", "value": "X", "reason": None, "raw_key": None, "raw_value": None}]
    sink = _rows(Work(Tree((Peek(lambda record: record),), (Output("t", Text, Text),)), Text, Text, None, ""), bare)
    assert (sink[0]["topic"], sink[0]["timestamp"], sink[0]["headers"], sink[0]["offset"]) == ("t", None, None, None)


def test_too_many_loops_within_loops_are_refused_in_words() -> None:
    with pytest.raises(PipelineError, match="flat_map_values is one of too many Python steps in a row"):
        through([], *[FlatMapValues(lambda v: [v])] * 30)


# Against the plainest way to do it -------------------------------------------------------------------------------

STEPS: list[tuple[type[Step], list[Callable[..., Any]]]] = [
    (Map, [lambda k, v: (v, k), lambda k, v: (k[1:], v + k), lambda k, v: (k, int(v))]),
    (MapValues, [lambda v: v + "x", lambda v: v[2:], lambda v: int(v), lambda v: None]),
    (MapValuesWithKey, [lambda k, v: k + v]),
    (FlatMap, [lambda k, v: [(c, v) for c in v], lambda k, v: [], lambda k, v: [(k, v), (v, k)]]),
    (FlatMapValues, [lambda v: v.split("1"), lambda v: [v] * (len(v) % 3)]),
    (Filter, [lambda v: len(v) > 1, lambda k, v: k < v]),
    (FilterNot, [lambda v: "2" in v]),
    (SelectKey, [lambda k, v: v[:1], lambda v: v[5]]),
    (Peek, [lambda k, v: k + v]),
]


def naive(steps: Sequence[Step], key: Any, value: Any) -> list[tuple[Any, Any]]:
    """All (key, value) that come of one record."""
    if not steps:
        if not all(item is None or isinstance(item, str) for item in (key, value)):
            raise ValueError
        return [(key, value)]
    step, rest = steps[0], steps[1:]
    try:
        result = step.function(key, value)
    except TypeError:
        result = step.function(value)
    match step:
        case Map():
            return naive(rest, *result)
        case FlatMap():
            return [made for pair in result for made in naive(rest, *pair)]
        case MapValues() | MapValuesWithKey():
            return naive(rest, key, result)
        case FlatMapValues():
            return [made for each in result for made in naive(rest, key, each)]
        case SelectKey():
            return naive(rest, result, value)
        case Filter():
            return naive(rest, key, value) if result else []
        case FilterNot():
            return [] if result else naive(rest, key, value)
    return naive(rest, key, value)


@st.composite
def a_step(draw: st.DrawFn) -> Step:
    kind, functions = draw(st.sampled_from(STEPS))
    return kind(draw(st.sampled_from(functions)))


texts = st.none() | st.text("12ab", max_size=6)


@given(st.lists(a_step(), max_size=6), st.lists(st.tuples(texts, texts), max_size=8))
def test_any_chain_gives_what_calling_its_functions_one_by_one_gives(steps: list[Step], records: Pairs) -> None:
    expected, failed = [], []
    for number, (key, value) in enumerate(records):
        try:
            expected += naive(steps, key, value)
        except Exception:
            failed.append(100 + number)
    rows = through(records, *steps)
    assert pairs_of([row for row in rows if row["reason"] is None]) == expected
    assert [row["offset"] for row in rows if row["reason"] is not None] == failed


@given(st.lists(a_step(), max_size=3), st.lists(a_step(), max_size=3), st.lists(st.tuples(texts, texts), max_size=6))
def test_two_branches_give_what_two_chains_give(left: list[Step], right: list[Step], records: Pairs) -> None:
    branches = [Tree(tuple(steps), (Output(name, Text, Text),)) for name, steps in (("l", left), ("r", right))]
    rows = to_sinks(records, Tree((), (), tuple(branches)))
    expected: list[tuple[Any, Any, Any]] = []
    for key, value in records:
        try:
            both = [("l", naive(left, key, value)), ("r", naive(right, key, value))]
        except Exception:
            continue
        expected += [(name, k and k.encode(), v and v.encode()) for name, made in both for k, v in made]
    sent = [(row["topic"], row["key"], row["value"]) for row in rows if row["reason"] is None]
    empty = [(topic, key or None, value or None) for topic, key, value in sent]
    assert empty == [(topic, key or None, value or None) for topic, key, value in expected]


# In Spark ----------------------------------------------------------------------------------------------------------


def frame(spark: SparkSession, pairs: Pairs) -> DataFrame:
    rows = [(k, v, "in", 0, n) for n, (k, v) in enumerate(pairs)]
    made = spark.createDataFrame(rows, "key string, value string, topic string, partition int, offset long")
    return made.selectExpr("*", "timestamp_seconds(offset) as timestamp")


def test_a_function_that_cannot_be_pickled_is_named_before_anything_runs() -> None:
    with socket.socket() as connection:
        work = Work(Tree((MapValues(lambda v: connection.fileno(), name="ask"),)), Text, Text, Typed(Text, Text), "")
        with pytest.raises(PipelineError, match=r"^ask has a function .* because of 'connection' .*make it inside"):
            python_stage.parcel(work, work.functions())


def test_a_chain_runs_in_spark_s_workers(spark: SparkSession) -> None:
    suffix = "!"
    steps = [
        FlatMapValues(lambda value: value.split()),
        MapValues(lambda value: value + suffix),
        Filter(lambda v: v != "b!"),
    ]
    made = python_stage.run(
        frame(spark, [("k", "a b c"), ("l", "b d"), ("m", None)]),
        Text,
        Text,
        steps,
        out_key=Text,
        out_value=Text,
        name="words",
    )
    rows = made.orderBy("offset").collect()
    assert [(row.key, row.value, row.offset) for row in rows] == [
        ("k", "a!", 0),
        ("k", "c!", 0),
        ("l", "d!", 1),
        (None, None, 2),
    ]
    assert rows[-1].reason == "AttributeError in flat_map_values: 'NoneType' object has no attribute 'split'"
    assert rows[0].timestamp.timestamp() == 0


def test_a_tree_makes_rows_for_the_sink_in_spark_s_workers(spark: SparkSession) -> None:
    tree = Tree((), (Output(lambda v: f"to-{v}", Text, Text), Output("all", Text, Json)))
    made = python_stage.run_to_sinks(frame(spark, [("k", "a")]), Text, Text, tree, name="route")
    assert [(row.topic, row.partition, bytes(row.key), bytes(row.value)) for row in made.collect()] == [
        ("to-a", None, b"k", b"a"),
        ("all", None, b"k", b'"a"'),
    ]


def test_a_module_beside_the_user_s_script_is_found_in_spark_s_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shouting.py").write_text("def shout(value): return value.upper()")
    monkeypatch.syspath_prepend(str(tmp_path))
    import shouting  # type: ignore[import-not-found]

    steps = [MapValues(shouting.shout)]
    made = python_stage.run(frame(spark, [("k", "a")]), Text, Text, steps, out_key=Text, out_value=Text, name="shout")
    assert [row.value for row in made.collect()] == ["A"]
