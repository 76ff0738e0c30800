"""Joins and changes of tables, told as stories: batches in, rows out. The rules are those of Kafka Streams."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.streams.operators import (
    changes,
    global_lookup,
    sessions,
    sliding,
    stream_stream,
    stream_table,
    table_table,
    top_n,
)
from ottla.testing import BrokerProcess
from support.frames import Feed, Record, Run
from support.waiting import wait_until


def test_a_stream_record_meets_the_tables_value_of_its_time(feed: Feed, run: Run) -> None:
    join = run(lambda: stream_table(feed.frame("clicks"), feed.frame("users"), "inner").drop("headers"))
    feed.add(users=[("a", "Ann", 10), ("a", "Anna", 20)], clicks=[("a", "1", 9), ("a", "2", 10), ("a", "3", 25)])
    assert join.rows() == [("a", "2", "Ann", 10), ("a", "3", "Anna", 25)]
    feed.add(clicks=[("a", "4", 5), ("b", "5", 30), (None, "6", 30), ("a", None, 30)])
    assert join.rows() == [("a", "4", "Anna", 5)]  # an earlier batch's table is seen whatever the time
    join.restart()
    feed.add(users=[("a", None, 40), (None, "Nobody", 40)], clicks=[("a", "7", 39), ("a", "8", 40)])
    assert join.rows() == [("a", "7", "Anna", 39)]


def test_a_left_join_keeps_stream_records_without_a_match_or_a_key(feed: Feed, run: Run) -> None:
    join = run(lambda: stream_table(feed.frame("clicks"), feed.frame("users"), "left").drop("headers"))
    feed.add(users=[("a", "Ann", 1)], clicks=[("a", "1", 2), ("b", "2", 2), (None, "3", 2), ("a", None, 2)])
    assert sorted(join.rows(), key=str) == [("a", "1", "Ann", 2), ("b", "2", None, 2), (None, "3", None, 2)]


def test_a_tables_offsets_decide_not_its_timestamps(feed: Feed, run: Run) -> None:
    join = run(lambda: stream_table(feed.frame("clicks"), feed.frame("users"), "inner").drop("headers"))
    feed.add(users=[("a", "new", 20), ("a", "newest", 10)], clicks=[("a", "1", 30)])
    assert join.rows() == [("a", "1", "newest", 30)]


def test_partitions_take_turns_by_the_timestamps_of_their_next_records(feed: Feed, run: Run) -> None:
    def moved(topic: str) -> DataFrame:  # as after a change of keys: one key in several partitions
        return feed.frame(topic).withColumn("partition", F.col("value").substr(1, 1).cast("int"))

    join = run(lambda: stream_table(moved("clicks"), moved("users"), "inner").drop("headers"))
    feed.add(
        users=[("a", "0 Ann", 10), ("a", "1 Bob", 5), ("a", "0 Ann again", 8)],
        clicks=[("a", "2 one", 6), ("a", "3 two", 12), ("a", "2 three", 4), ("a", "3 four", 9)],
    )
    assert join.rows() == [
        ("a", "2 one", "1 Bob", 6),
        ("a", "2 three", "1 Bob", 4),
        ("a", "3 two", "0 Ann again", 12),
        ("a", "3 four", "0 Ann again", 9),
    ]


def test_records_without_offsets_take_turns_by_timestamp(feed: Feed, run: Run) -> None:
    table = run(lambda: changes(feed.frame("table").drop("partition", "offset")))
    feed.add(table=[("a", "3", 3), ("a", "1", 1), ("a", "2", 2)])
    assert table.rows() == [("a", None, "1", 1), ("a", "1", "2", 2), ("a", "2", "3", 3)]


def test_state_of_another_type_is_refused(feed: Feed, run: Run) -> None:
    kind = ["string"]
    table = run(lambda: changes(feed.frame("table", kind[0])))
    feed.add(table=[("a", "1", 1)])
    assert table.rows() == [("a", None, "1", 1)]
    kind[0] = "struct<count:int>"
    table.restart()
    feed.add(table=[("a", {"count": 2}, 2)])
    with pytest.raises(StreamingQueryException, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"):
        table.rows()


def test_keys_and_values_may_be_of_any_type(feed: Feed, run: Run) -> None:
    key, user = "struct<shop:int,id:string>", "struct<name:string,tags:array<string>,ages:map<string,int>>"
    clicks = lambda: feed.frame("clicks", "struct<page:string,seconds:double>", key)  # noqa: E731
    join = run(lambda: stream_table(clicks(), feed.frame("users", user, key), "left").drop("headers"))
    ann = {"shop": 1, "id": "ann"}
    feed.add(users=[(ann, {"name": "Ann", "tags": ["x", "y"], "ages": {"dog": 3}}, 1)])
    join.rows()
    feed.add(clicks=[(ann, {"page": "/", "seconds": 0.5}, 2), ({"shop": 2, "id": "ann"}, {"page": "/"}, 3)])
    assert sorted(join.rows()) == [
        ((1, "ann"), ("/", 0.5), ("Ann", ["x", "y"], {"dog": 3}), 2),
        ((2, "ann"), ("/", None), None, 3),
    ]


def test_joined_tables_change_with_each_side(feed: Feed, run: Run) -> None:
    join = run(lambda: table_table(feed.frame("left"), feed.frame("right"), "inner"))
    feed.add(left=[("a", "1", 10), ("b", "1", 10)])
    assert join.rows() == []
    feed.add(right=[("a", "x", 5), ("a", "y", 20)])
    assert join.rows() == [("a", "1", "x", 10), ("a", "1", "y", 20)]
    feed.add(right=[("a", "y", 21)])
    assert join.rows() == []  # nothing has changed
    join.restart()
    feed.add(left=[("a", None, 30), ("b", None, 30)])
    assert join.rows() == [("a", None, None, 30)]  # b was never joined: nothing to delete
    feed.add(left=[("a", "2", 15)])
    assert join.rows() == [("a", "2", "y", 21)]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("left", [("a", "1", None, 1), ("a", "1", "x", 2), ("a", None, None, 3)]),
        ("outer", [("a", "1", None, 1), ("a", "1", "x", 2), ("a", None, "x", 3), ("a", None, None, 4)]),
    ],
)
def test_outer_joined_tables_keep_what_one_side_has(feed: Feed, run: Run, how: str, expected: list[object]) -> None:
    join = run(lambda: table_table(feed.frame("left"), feed.frame("right"), how))  # type: ignore[arg-type]
    feed.add(left=[("a", "1", 1), ("a", None, 3)], right=[("a", "x", 2), ("a", None, 4)])
    assert join.rows() == expected


def test_streams_join_within_the_window_with_all_duplicates(feed: Feed, run: Run) -> None:
    join = run(lambda: stream_stream(feed.frame("left"), feed.frame("right"), 10, 5, 5, "inner"))
    feed.add(left=[("a", "1", 100)], right=[("a", "w", 89), ("a", "x", 90), ("a", "y", 105), ("a", "z", 106)])
    assert join.rows() == [("a", "1", "x", 100), ("a", "1", "y", 105)]
    join.restart()
    feed.add(left=[("a", "1", 100), ("b", "2", 100), (None, "3", 100)], right=[("a", None, 100)])
    assert join.rows() == [("a", "1", "x", 100), ("a", "1", "y", 105)]


def test_a_stream_record_that_met_nobody_comes_out_alone_when_its_window_has_closed(feed: Feed, run: Run) -> None:
    join = run(lambda: stream_stream(feed.frame("left"), feed.frame("right"), 10, 10, 5, "left"))
    feed.add(left=[("a", "1", 100), ("a", "2", 130), (None, "3", 100)], right=[("a", "x", 135), ("b", "y", 100)])
    assert join.rows() == [("a", "2", "x", 135), (None, "3", None, 100), ("a", "1", None, 100)]
    feed.add(left=[("c", "4", 140)])
    feed.add(right=[("d", "z", 155)])
    assert join.rows() == []  # the window of 4 is [130, 150], with the grace 155 is still open
    join.restart()
    feed.add(right=[("d", "z", 156)])
    assert join.rows() == [("c", "4", None, 140)]
    feed.add(right=[("c", "w", 140)])
    assert join.rows() == [("c", "4", "w", 140)]  # out of order, but not too old
    feed.add(right=[("c", "v", 131)])
    assert join.rows() == []
    assert join.late == 1


def test_an_outer_join_gives_both_sides_alone(feed: Feed, run: Run) -> None:
    join = run(lambda: stream_stream(feed.frame("left"), feed.frame("right"), 0, 10, 0, "outer"))
    feed.add(left=[("a", "1", 100), ("b", "2", 100)], right=[("a", "x", 99), ("b", "y", 101), (None, "z", 1)])
    alone = [("a", None, "x", 99), (None, None, "z", 1)]  # no left record after 99 can join x
    assert sorted(join.rows(), key=str) == [alone[0], ("b", "2", "y", 101), alone[1]]
    feed.add(left=[("c", "3", 200)])
    assert join.rows() == [("a", "1", None, 100)]
    feed.add(left=[("c", "4", 300)])
    assert join.rows() == [("c", "3", None, 200)]


def test_a_tables_changes_have_the_old_and_the_new_value(feed: Feed, run: Run) -> None:
    table = run(lambda: changes(feed.frame("table")))
    feed.add(table=[("a", "1", 1), ("a", "1", 2), ("a", "2", 3), ("b", None, 3), (None, "x", 3)])
    assert table.rows() == [("a", None, "1", 1), ("a", "1", "2", 3)]
    table.restart()
    feed.add(table=[("a", None, 4), ("a", "3", 5)])
    assert table.rows() == [("a", "2", None, 4), ("a", None, "3", 5)]


def test_sessions_grow_merge_and_take_back_what_they_were(feed: Feed, run: Run) -> None:
    windows = run(lambda: sessions(feed.frame("clicks"), 10, 100))
    feed.add(clicks=[("a", "1", 100), ("a", "2", 125), ("b", "3", 100), (None, "4", 100)])
    assert sorted(windows.rows()) == [
        ("a", 100, 100, ["1"], 100),
        ("a", 125, 125, ["2"], 125),
        ("b", 100, 100, ["3"], 100),
    ]
    feed.add(clicks=[("a", "5", 110)])
    assert windows.rows() == [("a", 100, 100, None, 100), ("a", 100, 110, ["1", "5"], 110)]
    windows.restart()
    feed.add(clicks=[("a", "6", 115)])
    assert windows.rows() == [
        ("a", 100, 110, None, 110),
        ("a", 125, 125, None, 125),
        ("a", 100, 125, ["1", "5", "6", "2"], 125),
    ]
    feed.add(clicks=[("a", "7", 104)])
    assert windows.rows() == [("a", 100, 125, ["1", "7", "5", "6", "2"], 125)]  # nothing to take back


def test_final_sessions_come_once_when_they_have_closed_and_late_records_do_not(feed: Feed, run: Run) -> None:
    windows = run(lambda: sessions(feed.frame("clicks"), 10, 5, final=True))
    feed.add(clicks=[("a", "1", 100), ("a", "2", 105), ("b", "3", 120)])
    assert windows.rows() == []  # stream time 120 is not past 105 + 10 + 5
    feed.add(clicks=[("b", "4", 121), ("a", "5", 105)])
    assert windows.rows() == [("a", 100, 105, ["1", "2", "5"], 105)]
    windows.restart()
    feed.add(clicks=[("a", "late", 105), ("a", "6", 106)])
    assert windows.rows() == []
    assert windows.late == 1
    feed.add(clicks=[("c", "7", 200)])
    assert sorted(windows.rows()) == [("a", 106, 106, ["6"], 106), ("b", 120, 121, ["3", "4"], 121)]


def test_sliding_windows_end_at_and_start_after_records(feed: Feed, run: Run) -> None:
    windows = run(lambda: sliding(feed.frame("clicks"), 10, 50))
    feed.add(clicks=[("a", "1", 100)])
    assert windows.rows() == [("a", 90, 100, ["1"], 100)]
    feed.add(clicks=[("a", "2", 105)])
    assert windows.rows() == [("a", 95, 105, ["1", "2"], 105), ("a", 101, 111, ["2"], 105)]
    windows.restart()
    feed.add(clicks=[("a", "3", 103)])  # out of order
    assert windows.rows() == [
        ("a", 93, 103, ["1", "3"], 103),
        ("a", 95, 105, ["1", "3", "2"], 105),
        ("a", 101, 111, ["3", "2"], 105),
        ("a", 104, 114, ["2"], 105),
    ]


def test_final_sliding_windows_come_once_when_they_have_closed(feed: Feed, run: Run) -> None:
    windows = run(lambda: sliding(feed.frame("clicks"), 10, 0, final=True))
    feed.add(clicks=[("a", "1", 100), ("a", "2", 105)])
    assert windows.rows() == [("a", 90, 100, ["1"], 100)]
    feed.add(clicks=[("b", "3", 111)])
    assert windows.rows() == [("a", 95, 105, ["1", "2"], 105)]  # 111 itself is still open
    windows.restart()
    feed.add(clicks=[("b", "4", 112), ("a", "late", 99), ("a", "5", 101)])  # 5: [102, 112] is new, [101, 111] is open
    assert sorted(windows.rows()) == [("a", 101, 111, ["5", "2"], 105), ("b", 101, 111, ["3"], 111)]
    assert windows.late == 1
    feed.add(clicks=[("c", "6", 200)])
    assert sorted(windows.rows()) == [
        ("a", 102, 112, ["2"], 105),
        ("b", 102, 112, ["3", "4"], 112),
        ("b", 112, 122, ["4"], 112),
    ]


def test_top_n_keeps_the_best_across_batches(feed: Feed, run: Run) -> None:
    def best() -> DataFrame:
        rows = feed.frame("gains", "struct<symbol:string,gain:double>").groupBy("key")
        value, gain = F.col("value"), F.col("value.gain")
        return rows.agg(
            top_n(value["symbol"], gain, 2).alias("best"), top_n(value, gain, 1, lowest=True).alias("worst")
        )

    def gain(symbol: str, gain: float | None) -> Record:
        return ("day", {"symbol": symbol, "gain": gain}, 1)

    top = run(best, mode="update")
    feed.add(gains=[gain("b", 1.0), gain("none", None)])
    assert top.rows() == [("day", ["b"], [("b", 1.0)])]
    feed.add(gains=[gain("d", 2.0), gain("c", 3.0), gain("a", 2.0)])
    assert top.rows() == [("day", ["c", "a"], [("b", 1.0)])]
    top.restart()
    feed.add(gains=[gain("e", 0.5), gain("f", 2.5)])
    assert top.rows() == [("day", ["c", "f"], [("e", 0.5)])]


def test_a_global_tables_values_are_seen_by_tasks_that_begin_after_them(
    spark: SparkSession, feed: Feed, run: Run, ottla_shared_broker: BrokerProcess
) -> None:
    bootstrap, topic = ottla_shared_broker.bootstrap, "global-users"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 3)])[topic].result()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions()

    def put(commit: bool = True, **users: str | None) -> None:
        producer.begin_transaction()
        for key, value in users.items():
            producer.produce(topic, key=key, value=value)
        if commit:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()

    put(a="Ann", b="Bob")
    clicks = lambda: feed.frame("clicks").select(  # noqa: E731
        "value", global_lookup(F.col("key").cast("binary"), topic, bootstrap).cast("string")
    )
    join = run(clicks)
    feed.add(clicks=[("a", "1", 1), ("b", "2", 1), ("c", "3", 1), (None, "4", 1)])
    assert join.rows() == [("1", "Ann"), ("2", "Bob"), ("3", None), ("4", None)]
    put(commit=False, a="Nobody")
    put(b=None, c="Cid")
    feed.add(clicks=[("a", "5", 1), ("b", "6", 1), ("c", "7", 1)])
    assert join.rows() == [("5", "Ann"), ("6", None), ("7", "Cid")]
    tables = spark._jvm.ottla.GlobalTable  # type: ignore[union-attr]
    assert tables.sizes()[topic] == 2
    tables.closeAll()
    wait_until(lambda: topic not in tables.sizes())
    join.restart()  # a table that is closed is read again
    feed.add(clicks=[("a", "8", 1)])
    assert join.rows() == [("8", "Ann")]


def test_a_global_table_without_its_topic_says_so(feed: Feed, run: Run, ottla_shared_broker: BrokerProcess) -> None:
    key, bootstrap = F.col("key").cast("binary"), ottla_shared_broker.bootstrap
    join = run(lambda: feed.frame("clicks").select(global_lookup(key, "no-such-topic", bootstrap)))
    feed.add(clicks=[("a", "1", 1)])
    with pytest.raises(StreamingQueryException, match="global table of topic no-such-topic cannot be read"):
        join.rows()
