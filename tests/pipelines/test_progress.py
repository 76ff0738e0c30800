"""What is told of queries: a real one on Spark, and the group's offsets, the metrics and the line by themselves."""

from __future__ import annotations

import io
import json

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

from ottla.pipelines import group_offsets, poison, progress_line
from ottla.pipelines.batches import Batch, read
from ottla.pipelines.cluster import Partition
from ottla.pipelines.group_offsets import GroupOffsets
from ottla.pipelines.metrics import PipelineMetrics
from ottla.pipelines.progress import Progress
from ottla.pipelines.progress_line import Figures, ProgressLine
from support.consoles import fresh
from support.prometheus import Page
from support.tools import Tool
from support.waiting import wait_until

AWAY = "127.0.0.1:1"  # nobody listens there
IDLE = "spark.sql.streaming.noDataProgressEventInterval"


class Topic:
    def __init__(self, bootstrap: str, partitions: int = 2) -> None:
        self.bootstrap, self.name = bootstrap, fresh("in")
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(30)
        self.producer = Producer({"bootstrap.servers": bootstrap})

    def feed(self, count: int, partition: int = 0) -> None:
        for number in range(count):
            self.producer.produce(self.name, str(number), "key", partition)
        assert self.producer.flush(30) == 0

    def at(self, *offsets: int) -> dict[Partition, int]:
        return {Partition(self.name, number): offset for number, offset in enumerate(offsets)}

    def committed(self, group: str) -> dict[Partition, int]:
        asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
        return {Partition(one.topic, one.partition): one.offset for one in asked.topic_partitions}


@pytest.fixture
def topic(ottla_shared_broker) -> Topic:
    return Topic(ottla_shared_broker.bootstrap)


@pytest.fixture
def group(topic) -> GroupOffsets:
    return GroupOffsets(fresh("app"), topic.bootstrap)


def test_what_spark_tells_of_a_batch_is_read():
    partitions = {"a": {"0": 5, "1": 7}, "b": {"0": 1}}
    told = {
        "batchId": 4,
        "batchDuration": 250,
        "durationMs": {"addBatch": 200},
        "numInputRows": 10,
        "processedRowsPerSecond": 40.0,
        "stateOperators": [
            {"numRowsTotal": 3, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2},
            {"numRowsTotal": 4, "memoryUsedBytes": 200, "numRowsDroppedByWatermark": 0},
        ],
        "sources": [
            {"description": "KafkaV2[Subscribe[a, b]]", "startOffset": partitions, "endOffset": partitions},
            {"description": "KafkaV2[Subscribe[a]]", "startOffset": {}, "endOffset": {"a": {"0": 4, "1": 9}}},
            {"description": "KafkaV2[Subscribe[c]]", "startOffset": {}, "endOffset": None},
            {"description": "RateStreamV2[rowsPerSecond=1]", "startOffset": None, "endOffset": 17},
        ],
    }
    offsets = {Partition("a", 0): 4, Partition("a", 1): 7, Partition("b", 0): 1}
    assert read(json.dumps(told)) == Batch(4, 0.25, 10, 40.0, 7, 300, 2, offsets)
    assert read(json.dumps({**told, "durationMs": {"triggerExecution": 1}})).idle
    assert read('{"batchId": 0, "sources": [{"description": "KafkaV2[x]", "startOffset": null}]}').first


def test_of_two_queries_that_read_the_same_partition_the_slower_one_counts(topic, group):
    group.expect("fast")
    group.expect("slow")
    group.done("fast", Batch(1, offsets=topic.at(9, 5)))
    assert not group.commit()  # nobody knows yet where the other one is
    assert topic.committed(group.group) == {}
    group.done("slow", Batch(1, offsets=topic.at(3, 5)))
    assert group.commit()
    assert topic.committed(group.group) == topic.at(3, 5)
    group.done("slow", Batch(2, offsets=topic.at(4, 8)))
    assert group.commit()
    assert topic.committed(group.group) == topic.at(4, 5)


def test_a_query_that_tells_nothing_is_not_waited_for_forever(topic, group, monkeypatch):
    group.expect("busy")
    group.expect("idle")
    group.expect("dead")
    group.done("busy", Batch(1, offsets=topic.at(1)))
    group.done("dead", None)
    assert not group.commit()
    monkeypatch.setattr(group_offsets, "PATIENCE", 0.0)
    assert group.commit()
    assert topic.committed(group.group) == topic.at(1)


def test_at_the_stop_what_is_known_is_committed(topic, group):
    group.expect("idle")
    group.done("busy", Batch(1, offsets=topic.at(1)))
    assert group.commit(last=True)
    assert topic.committed(group.group) == topic.at(1)


def test_committed_offsets_go_back_only_for_a_new_checkpoint(topic, group):
    group.done("query", Batch(5, offsets=topic.at(8, 8)))
    assert group.commit()
    again = GroupOffsets(group.group, topic.bootstrap)
    again.done("query", Batch(5, offsets=topic.at(7, 9)))  # started again, and a batch before
    assert again.commit()
    assert topic.committed(group.group) == topic.at(8, 9)
    reset = GroupOffsets(group.group, topic.bootstrap)
    reset.done("query", Batch(0, offsets=topic.at(2, 3), first=True))
    assert reset.commit()
    assert topic.committed(group.group) == topic.at(2, 3)
    reset.done("query", Batch(1, offsets=topic.at(1, 4)))
    assert reset.commit()
    assert topic.committed(group.group) == topic.at(2, 4)


def test_offsets_wait_for_a_broker_that_is_away(ottla_broker, caplog, monkeypatch):
    topic = Topic(ottla_broker.bootstrap)
    group = GroupOffsets(fresh("app"), topic.bootstrap)
    group.done("query", Batch(1, offsets=topic.at(1)))
    assert group.commit()
    ottla_broker.stop()
    monkeypatch.setattr(group_offsets, "TIMEOUT", 0.5)
    group.done("query", Batch(2, offsets=topic.at(2)))
    assert not group.commit()
    assert not group.commit()
    assert group.lag() is None
    assert caplog.text.count(f"the offsets of {group.group} are not committed at the moment") == 1
    ottla_broker.start()
    monkeypatch.setattr(group_offsets, "TIMEOUT", 10)
    wait_until(group.commit)
    assert topic.committed(group.group) == topic.at(2)


def test_the_lag_is_what_lies_beyond_the_offsets(topic, group):
    assert group.lag() is None
    topic.feed(5, 0)
    topic.feed(2, 1)
    group.done("query", Batch(1, offsets=topic.at(1, 2)))
    assert group.lag() == topic.at(4, 0)


def page(registry: CollectorRegistry) -> Page:
    return Page(generate_latest(registry).decode())


def test_metrics_add_up_over_batches_and_name_the_query():
    registry = CollectorRegistry()
    metrics = PipelineMetrics("app", registry)
    metrics.started("q", again=False)
    metrics.done("q", Batch(0, 0.5, 10, 20.0, 7, 700, 1))
    metrics.done("q", Batch(1, 0.2, 5, 25.0, 8, 800, 0))
    metrics.rejected({"parse": 2, "other": 0})
    metrics.rejected({"parse": 1})
    metrics.started("q", again=True)
    metrics.lags({Partition("in", 3): 12})
    found = page(registry)
    assert all(one.labels["application"] == "app" for one in found.samples)

    def value(name: str, **labels: str) -> float:
        (one,) = found.of(f"ottla_pipeline_{name}", **labels)
        return one.value

    assert value("batches_total", query="q") == 2
    assert value("input_rows_total", query="q") == 15
    assert value("processed_rows_per_second", query="q") == 25.0
    assert value("batch_seconds_sum", query="q") == pytest.approx(0.7)
    assert value("batch_seconds_bucket", query="q", le="0.25") == 1
    assert value("state_rows", query="q") == 8
    assert value("state_bytes", query="q") == 800
    assert value("late_rows_total", query="q") == 1
    assert value("rejected_rows_total", step="parse") == 3
    assert value("restarts_total", query="q") == 1
    assert value("running", query="q") == 1
    assert value("lag", topic="in", partition="3") == 12
    metrics.ended("q")
    (running,) = page(registry).of("ottla_pipeline_running", query="q")
    assert running.value == 0


def test_the_line_has_what_there_is_to_tell():
    figures = Figures("wordcount")
    assert figures.line() == "wordcount  0 rows/s  batch 0 ms"
    figures.done("a", Batch(0, 0.085, 50_000, state_rows=5000, late=2))
    figures.done("b", Batch(0, 0.01, 25_000, state_rows=321))
    figures.lag, figures.rejected = 1200, 3
    assert figures.line() == "wordcount  15,000 rows/s  batch 85 ms  lag 1,200  state 5,321 rows  rejected 3  late 2"


def test_on_a_terminal_the_line_is_rewritten_in_place_and_the_last_one_stays():
    screen, figures = io.StringIO(), Figures("app")
    line = ProgressLine(figures, Console(file=screen, force_terminal=True, width=40))
    for number in range(3):
        figures.done("q", Batch(number, 0.001 * number, 10))
        line.show()
    assert screen.getvalue().count("\n") == 0
    line.close()
    assert screen.getvalue().endswith("app  6 rows/s  batch 2 ms\n")


def test_elsewhere_a_line_comes_now_and_then(monkeypatch):
    screen, figures = io.StringIO(), Figures("app")
    line = ProgressLine(figures, Console(file=screen, width=20))
    line.show()
    assert screen.getvalue() == ""  # nothing to tell yet
    figures.done("q", Batch(0, 0.1, 500_000))
    line.show()
    monkeypatch.setattr(progress_line, "SECONDS_BETWEEN", 0.0)
    line.show()
    line.show()
    figures.done("q", Batch(1, 0.2, 500_000))
    line.show()
    line.close()
    assert screen.getvalue() == "app  100,000 rows/s  batch 100 ms\napp  200,000 rows/s  batch 200 ms\n"


def counted(spark, topic: Topic, checkpoint):
    from pyspark.sql import functions as F

    options = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name, "startingOffsets": "earliest"}
    frame = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=60).load()
    odd = F.when(F.col("value").cast("string").cast("int") % 2 == 1, "odd")
    counts = poison.guard(frame, odd, poison.skip, step="odd", bootstrap=topic.bootstrap).groupBy("key").count()
    writer = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.start()


def test_a_query_is_seen_as_a_consumer_group_and_in_metrics(spark, topic, tmp_path, monkeypatch):
    topic.feed(70, 0)
    topic.feed(50, 1)
    app = fresh("app")
    before = poison.rejected().get("odd", 0)
    progress = Progress(app, topic.bootstrap, console=False)
    query = counted(spark, topic, tmp_path / "checkpoint")
    try:
        progress.follow(query, "counts")
        query.processAllAvailable()
        wait_until(lambda: topic.committed(app) == topic.at(70, 50))
        wait_until(lambda: progress.lag == 0)
        described = Tool("ottla consumer-groups", topic.bootstrap)(f"--describe --group {app}").out
        assert sorted(line.split()[1:6] for line in described if topic.name in line) == [
            [topic.name, "0", "70", "70", "0"],
            [topic.name, "1", "50", "50", "0"],
        ]
        with monkeypatch.context() as patched:
            patched.setattr(group_offsets, "TIMEOUT", 0.5)
            blind = Progress(app, AWAY, console=False)  # its broker is away: no reason for a query to fail
            blind.follow(query, "counts")
            blind.stop()
            assert page(blind.registry).of("ottla_pipeline_input_rows_total")[0].value == 120
        assert query.isActive
    finally:
        query.stop()
    with_idle = Progress(fresh("app"), topic.bootstrap, console=False)
    spark.conf.set(IDLE, "1ms")
    try:
        query = counted(spark, topic, tmp_path / "checkpoint")
    finally:
        spark.conf.unset(IDLE)
    try:
        for one in (progress, with_idle):
            one.follow(query, "counts")
        wait_until(lambda: with_idle.lag == 0)  # which is known though there was nothing to do
        topic.feed(1, 0)
        query.processAllAvailable()
    finally:
        query.stop()
        progress.stop()  # which commits once more
        with_idle.stop()
    values = {one.name: one.value for one in page(with_idle.registry).samples}
    assert (values["ottla_pipeline_batches_total"], values["ottla_pipeline_input_rows_total"]) == (1, 1)
    assert topic.committed(app) == topic.at(71, 50)
    values = {one.name: one.value for one in page(progress.registry).samples}
    assert values["ottla_pipeline_input_rows_total"] == 121
    assert values["ottla_pipeline_batches_total"] >= 3  # 60 and 60 and 1
    (left_out,) = page(progress.registry).of("ottla_pipeline_rejected_rows_total", step="odd")
    assert left_out.value == poison.rejected()["odd"] - before == 60
    assert values["ottla_pipeline_state_rows"] == 1
    assert values["ottla_pipeline_restarts_total"] == 1
    assert values["ottla_pipeline_running"] == 0
    assert values["ottla_pipeline_lag"] == 0
