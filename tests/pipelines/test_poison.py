"""What becomes of records that do not fit or come too late, through a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME
from pyspark.sql import functions as F

from ottla.pipelines import columns, poison, sink
from ottla.pipelines.explain import explain
from ottla.pipelines.serdes import Json, Long, Text
from support.topic_streams import NOON, Place

QUOTE = Json("symbol string, ask double")


RECORDS = [
    (b"k1", b'{"symbol":"A","ask":1.5}'),
    (b"k2", b"{"),
    (b"k3", b'{"symbol":"B","ask":"x"}'),
    (b"\xff", b'{"symbol":"C"}'),
    (b"k5", None),
    (None, b'{"ask":2}'),
]
FINE = [("k1", ("A", 1.5), 0), ("k5", None, 4), (None, (None, 2.0), 5)]


def test_poison_is_left_out_and_counted(place: Place) -> None:
    topic = place.topic("in")
    place.send(topic, *RECORDS)
    frame = place.stream(topic, Text, QUOTE, poisoned=poison.skip, step=place.name)
    query = place.start(frame.select("key", "value", "offset"))
    assert place.rows(query) == FINE
    assert poison.rejected()[place.name] == 3


def test_poison_fails_the_query_in_one_line(place: Place) -> None:
    topic = place.topic("in")
    place.send(topic, *RECORDS)
    query = place.start(place.stream(topic, Text, QUOTE, step="prices").select("value"))
    with pytest.raises(Exception) as error:
        place.rows(query)
    assert str(explain(error.value)) == (
        f"step prices cannot take the record at topic {topic}, partition 0, offset 1: the value is no "
        "json(struct<symbol:string,ask:double>): Unexpected end-of-input: expected close marker for Object at byte 1"
    )


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_poison_goes_to_a_topic_with_where_from_and_why(place: Place, delivery: sink.Delivery) -> None:
    source, output, letters = place.topic("in"), place.topic("out"), place.topic("dead")
    place.send(source, *RECORDS, headers=[("trace", b"7")])
    policy = poison.DeadLetters(letters)
    frame = place.stream(source, Text, QUOTE, headers=True, poisoned=policy, step="prices")
    written = frame.select(
        F.lit(output).alias("topic"), Text.encode(F.col("key")).alias("key"), F.to_json("value").alias("value")
    )
    place.queries.append(
        sink.write(
            written,
            bootstrap=place.bootstrap,
            query=place.name,
            delivery=delivery,
            checkpoint=str(place.directory / "c"),
            trigger=sink.AvailableNow(),
        )
    )
    assert place.queries[0].awaitTermination(60)
    assert [message.key() for message in place.messages(output)] == [b"k1", b"k5", None]
    dead = place.messages(letters)
    assert [(message.key(), message.value()) for message in dead] == [RECORDS[1], RECORDS[2], RECORDS[3]]
    assert dead[1].timestamp() == (TIMESTAMP_CREATE_TIME, int(NOON.timestamp() + 2) * 1000)
    assert {name: value.decode() for name, value in dead[1].headers()} == {
        "trace": "7",
        "ottla.error.reason": 'the value is no json(struct<symbol:string,ask:double>): ask: "x" is no double',
        "ottla.error.exception": "Misfit",
        "ottla.error.step": "prices",
        "ottla.error.topic": source,
        "ottla.error.partition": "0",
        "ottla.error.offset": "2",
        "ottla.error.timestamp": str(int(NOON.timestamp() + 2) * 1000),
    }


def test_a_dead_letter_that_cannot_be_written_fails_the_query(place: Place) -> None:
    topic = place.topic("in")
    place.send(topic, *RECORDS[:2])
    policy = poison.DeadLetters(place.topic("dead"), {"max.request.size": "10"})
    query = place.start(place.stream(topic, Text, QUOTE, poisoned=policy).select("value"))
    with pytest.raises(Exception) as error:
        place.rows(query)
    assert f"a record for topic {policy.topic} is too large" in str(explain(error.value))


def test_late_rows_are_counted_one_by_one_and_none_is_dropped_unseen(place: Place) -> None:
    topic, letters = place.topic("in"), place.topic("dead")
    frame = place.stream(topic, Text, Long, headers=True)
    marked = frame.withWatermark("timestamp", "5 seconds").withColumn("window", F.window("timestamp", "10 seconds"))
    kept = poison.late(
        marked,
        F.col("window.end"),
        poison.DeadLetters(letters),
        step=place.name,
        bootstrap=place.bootstrap,
        record={"key": Text.encode(F.col("key")), "value": Long.encode(F.col("value"))},
    )
    counted = kept.groupBy("window", "key").agg(F.count("*").alias("n"))
    query = place.start(counted.select("key", F.unix_seconds("window.start") - int(NOON.timestamp()), "n"), "update")

    sent = 0
    for seconds in ([1, 2, 12, 3], [40, 41], [42], [1, 2, 29, 35, 43], [100], [101], [1, 42, 101]):
        place.send(topic, *[(b"k", Long.dumps(number)) for number in range(len(seconds))], seconds=list(seconds))
        sent += len(seconds)
        query.processAllAvailable()
    latest: dict[int, int] = {}
    for _, start, count in place.rows(query):
        latest[start] = count
    late = poison.rejected()[place.name]
    dropped = sum(state.numRowsDroppedByWatermark for p in query.recentProgress for state in p.stateOperators)
    assert dropped == 0
    assert late == len(place.messages(letters))
    assert late + sum(latest.values()) == sent
    assert latest == {0: 3, 10: 1, 30: 1, 40: 4, 100: 3}
    assert late == 5
    headers = dict(place.messages(letters)[0].headers())
    assert headers["ottla.error.exception"] == b"Late"
    ended = f"late: its window ended at {NOON:%F %H}:00:10.000 and the watermark is "
    assert headers["ottla.error.reason"].decode().startswith(ended)


def test_rows_are_late_by_the_watermark_that_the_operator_goes_by(place: Place) -> None:
    """In a batch it is that of the batch before: the first row after the one that moved it is still taken."""
    topic = place.topic("in")
    place.send(topic, *[(b"k", Long.dumps(number)) for number in range(3)], seconds=[41, 1, 2])
    frame = place.stream(topic, Text, Long, max_per_batch=1).withWatermark("timestamp", "5 seconds")
    kept = poison.late(
        frame.withColumn("window", F.window("timestamp", "10 seconds")),
        F.col("window.end"),
        poison.skip,
        step=place.name,
        bootstrap=place.bootstrap,
    )
    counted = kept.groupBy("window", "key").agg(F.collect_list("value").alias("taken"))
    query = place.start(counted.select("taken"), "update")
    assert place.rows(query) == [([0],), ([1],)]
    assert poison.rejected()[place.name] == 1


def test_a_batch_with_another_watermark_runs_the_code_of_the_last(place: Place) -> None:
    topic = place.topic("in")
    frame = place.stream(topic, Text, Long).withWatermark("timestamp", "5 seconds")
    kept = poison.late(frame, F.col("timestamp"), poison.skip, step=place.name, bootstrap=place.bootstrap)
    query = place.start(kept.dropDuplicatesWithinWatermark(["key"]).select("key"), "append")
    compiled = columns.jvm().org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    counts = []
    for second in range(0, 50, 10):
        place.send(topic, (b"k%d" % second, Long.dumps(second)), seconds=[second])
        query.processAllAvailable()
        counts.append(compiled.getCount())
    assert counts[-1] - counts[1] <= 3  # in each batch what the operator's own watermark is in, and nothing else
