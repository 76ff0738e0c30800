from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import BrokerProcess
from support.apache_kafka import ApacheKafka, reason_to_skip
from support.consoles import fresh
from support.pipeline_topics import Topics
from support.tools import Tool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARKERS = "__ottla_markers"


@pytest.fixture
def topics(ottla_shared_broker: BrokerProcess) -> Topics:
    return Topics(ottla_shared_broker.bootstrap)


@pytest.fixture(scope="module")
def strict() -> Any:
    """A broker that makes no topics of itself."""
    with BrokerProcess(overrides={"auto.create.topics.enable": "false"}) as broker:
        yield Topics(broker.bootstrap)


class Pipeline:
    """A query from a topic to a topic, run over what is there each time it is told to."""

    def __init__(self, spark: SparkSession, topics: Topics, checkpoint: Path, *, partitions: int = 3) -> None:
        self.spark = spark
        self.topics = topics
        self.checkpoint = checkpoint
        self.query = fresh("query")
        self.input = topics.make("in", partitions)
        self.output = topics.make("out", 2)

    def source(self, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("ottla.Source").option("subscribe", self.input)
        options = {"kafka.bootstrap.servers": self.topics.bootstrap, "startingOffsets": "earliest", **options}
        return reader.options(**options).load()

    def rows(self) -> DataFrame:
        return self.source().selectExpr(f"'{self.output}' as topic", "key", "value")

    def run(self, frame: DataFrame | None = None, delivery: str = "exactly_once", **more: Any) -> None:
        from ottla.pipelines import sink
        from ottla.pipelines.explain import explain

        query = sink.write(
            self.rows() if frame is None else frame,
            bootstrap=self.topics.bootstrap,
            query=self.query,
            checkpoint=str(self.checkpoint),
            delivery=delivery,  # type: ignore[arg-type]
            trigger=sink.AvailableNow(),
            **more,
        )
        try:
            query.awaitTermination()
        except Exception as error:
            raise explain(error, query.name) from None

    def forget_end_of(self, batch: int) -> None:
        """As if the driver had died when the batch was written and not yet noted as done."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def pipeline(spark: SparkSession, topics: Topics, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, topics, tmp_path / "checkpoint")


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_all_parts_of_a_record_arrive(pipeline: Pipeline, delivery: str) -> None:
    pipeline.topics.fill(pipeline.input, ["full", "bare"])
    full = "cast(value as string) = 'full'"
    frame = pipeline.source().selectExpr(
        f"'{pipeline.output}' as topic",
        f"if({full}, 1, null) as partition",
        f"if({full}, key, null) as key",
        f"if({full}, cast(value as string), null) as value",
        f"if({full}, array(named_struct('key', 'a', 'value', cast('1' as binary)), "
        "named_struct('key', 'b', 'value', cast(null as binary))), null) as headers",
        f"if({full}, timestamp '2020-01-02 03:04:05.678', null) as timestamp",
    )
    before = datetime.now(UTC).timestamp() * 1000 - 1
    pipeline.run(frame, delivery)
    bare, full_one = sorted(pipeline.topics.read(pipeline.output), key=lambda seen: seen.value or b"")
    stamp = int(datetime(2020, 1, 2, 3, 4, 5, 678000, UTC).timestamp() * 1000)
    assert full_one == (1, b"full", b"full", stamp, [("a", b"1"), ("b", None)])
    assert (bare.key, bare.value, bare.headers) == (None, None, [])
    assert bare.timestamp >= before


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_updates_of_an_aggregate_are_written(pipeline: Pipeline, delivery: str) -> None:
    def counted() -> DataFrame:
        counts = pipeline.source().groupBy("value").count()
        return counts.selectExpr(f"'{pipeline.output}' as topic", "value as key", "cast(count as string) as value")

    pipeline.topics.fill(pipeline.input, ["a", "a", "b"])
    pipeline.run(counted(), delivery, mode="update")
    pipeline.topics.fill(pipeline.input, ["a"])
    pipeline.run(counted(), delivery, mode="update")
    assert sorted((seen.key, seen.value) for seen in pipeline.topics.read(pipeline.output)) == [
        (b"a", b"2"),
        (b"a", b"3"),
        (b"b", b"1"),
    ]


def test_a_frame_that_is_no_stream_is_written_too(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make()
    frame = spark.range(5).selectExpr("cast(id as string) as value")
    options = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic}
    frame.write.format("ottla.Sink").mode("append").options(**options).save()
    assert topics.values(topic) == ["0", "1", "2", "3", "4"]


def numbers(count: int) -> list[str]:
    return [f"{number:04}" for number in range(count)]


class TestABatchThatIsRunAgain:
    def test_is_written_again_at_least_once(self, pipeline: Pipeline) -> None:
        pipeline.topics.fill(pipeline.input, numbers(50))
        pipeline.run(delivery="at_least_once")
        pipeline.forget_end_of(0)
        pipeline.run(delivery="at_least_once")
        assert pipeline.topics.values(pipeline.output) == sorted(numbers(50) * 2)

    def test_is_not_written_again_exactly_once(self, pipeline: Pipeline) -> None:
        pipeline.topics.fill(pipeline.input, numbers(50))
        pipeline.run()
        pipeline.forget_end_of(0)
        pipeline.topics.fill(pipeline.input, ["later"])
        pipeline.run()
        assert pipeline.topics.values(pipeline.output) == [*numbers(50), "later"]

    def test_writes_the_tasks_that_were_not_written(self, pipeline: Pipeline) -> None:
        for partition in range(3):
            pipeline.topics.fill(pipeline.input, [f"{partition}"], partition=partition)
        value = "if(partition = 2, raise_error('of the third task'), value) as value"
        with pytest.raises(Exception, match="of the third task"):
            pipeline.run(pipeline.source().selectExpr(f"'{pipeline.output}' as topic", "key", value))
        written = pipeline.topics.values(pipeline.output)
        assert written  # two slots: the third task began when one of the others had ended
        assert set(written) <= {"0", "1"}
        assert {f"{task}" for task in pipeline.topics.markers(pipeline.query)} == set(written)
        pipeline.run()
        assert pipeline.topics.values(pipeline.output) == ["0", "1", "2"]

    @pytest.mark.parametrize("partitions", [3, 6])
    def test_gives_the_same_rows_to_the_same_tasks(
        self, spark: SparkSession, topics: Topics, tmp_path: Path, partitions: int
    ) -> None:
        pipeline = Pipeline(spark, topics, tmp_path, partitions=partitions)
        for partition in range(partitions):
            topics.fill(pipeline.input, [f"{partition}"], partition=partition)
        frame = pipeline.source().selectExpr(
            f"'{pipeline.output}' as topic", "key", "concat(partition, '@', spark_partition_id()) as value"
        )
        pipeline.run(frame, "at_least_once")
        pipeline.forget_end_of(0)
        pipeline.run(frame, "at_least_once")
        placed = [f"{partition}@{partition}" for partition in range(partitions)]
        assert topics.values(pipeline.output) == sorted(placed * 2)

    def test_of_a_checkpoint_begun_anew_is_another(self, pipeline: Pipeline) -> None:
        pipeline.topics.fill(pipeline.input, numbers(10))
        pipeline.run()
        shutil.rmtree(pipeline.checkpoint)
        pipeline.run()
        assert pipeline.topics.values(pipeline.output) == sorted(numbers(10) * 2)

    def test_of_a_checkpoint_older_than_the_topics_is_refused(self, pipeline: Pipeline, tmp_path: Path) -> None:
        pipeline.topics.fill(pipeline.input, ["a"])
        pipeline.run()
        shutil.copytree(pipeline.checkpoint, tmp_path / "kept")
        for value in "bc":
            pipeline.topics.fill(pipeline.input, [value])
            pipeline.run()
        pipeline.checkpoint = tmp_path / "kept"
        with pytest.raises(Exception, match=f"checkpoint of query {pipeline.query} is older .* batch 1, and batch 2"):
            pipeline.run()
        assert pipeline.topics.values(pipeline.output) == ["a", "b", "c"]


class Executor:
    """What runs tasks, with producers of its own; a task's rows are put in and ended by hand."""

    def __init__(self, spark: SparkSession, topics: Topics, query: str, topic: str) -> None:
        self.jvm: Any = spark._jvm
        self.array = spark.sparkContext._gateway.new_array  # type: ignore[union-attr]
        told = {"kafka.bootstrap.servers": topics.bootstrap, "delivery": "exactly_once", "query": query}
        told["kafka.client.id"] = fresh("executor")  # settings of its own, so nothing is shared with others
        told["topic"] = topic
        options = self.jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(self.jvm.java.util.HashMap(told))
        self.options = self.jvm.ottla.SinkOptions.of(options)
        schema = self.jvm.org.apache.spark.sql.types.StructType.fromDDL("value binary")
        self.columns = self.jvm.ottla.Columns.of(schema, self.options.topic())

    def task(self, batch: int, *values: str, known: bool = False) -> Any:
        """Task 0 of the batch, with rows in it, before its commit."""
        writer = self.jvm.ottla.ExactlyOnceWriter(self.options, self.columns, "id", 0, batch, known)
        for value in values:
            cells = self.array(self.jvm.java.lang.Object, 1)
            cells[0] = bytearray(value.encode())
            writer.write(self.jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(cells))
        return writer


class TestTasksOnSeveralExecutors:
    """Attempts at the same task, wherever they run and however long they linger, write a batch once."""

    @pytest.fixture(autouse=True)
    def _executors(self, spark: SparkSession, topics: Topics) -> None:
        self.topics, self.topic = topics, topics.make("out")
        query = fresh("query")
        self.a, self.b = (Executor(spark, topics, query, self.topic) for _ in range(2))
        self.a.jvm.ottla.Markers(self.a.options).provide(1)

    def assert_written(self, *values: str) -> None:
        assert self.topics.values(self.topic) == list(values)

    def test_an_attempt_bars_the_one_before_it(self) -> None:
        lost = self.a.task(0, "x")
        second = self.b.task(0, "x")
        second.commit()
        with pytest.raises(Exception, match=r"another task or another run of the query .* has taken over"):
            lost.commit()
        lost.abort()
        self.assert_written("x")

    def test_an_attempt_on_the_same_executor_bars_the_one_before_it(self) -> None:
        lost = self.a.task(0, "x")
        second = self.a.task(0, "x")
        with pytest.raises(Exception, match="has taken over"):
            lost.commit()
        lost.abort()
        second.commit()
        self.a.task(1, "y").commit()
        self.assert_written("x", "y")

    @pytest.mark.parametrize("elsewhere", [True, False])
    def test_an_attempt_after_one_that_committed_writes_nothing(self, elsewhere: bool) -> None:
        self.a.task(0, "x").commit()
        (self.b if elsewhere else self.a).task(0, "x").commit()
        self.a.task(1, "y").commit()
        self.assert_written("x", "y")

    def test_a_task_that_was_elsewhere_meanwhile_goes_on_here(self) -> None:
        for batch, executor in enumerate([self.a, self.b, self.a, self.a, self.b]):
            executor.task(batch, f"{batch}").commit()
        self.a.task(4, "4").commit()  # its producer does not know yet that it is barred
        self.assert_written("0", "1", "2", "3", "4")

    def test_an_attempt_that_is_aborted_leaves_nothing(self) -> None:
        failing = self.a.task(0, "x", "y")
        failing.abort()
        self.a.task(0, "x").commit()
        self.assert_written("x")

    def test_an_attempt_that_died_is_ended_by_its_successor(self) -> None:
        self.a.task(0, "x", "y")
        self.b.task(0, "x").commit()
        self.assert_written("x")

    def test_a_task_that_is_known_to_be_written_takes_its_rows_and_writes_nothing(self) -> None:
        self.a.task(0, "x", known=True).commit()
        self.assert_written()


def test_an_apache_kafka_will_do(spark: SparkSession, tmp_path: Path) -> None:
    if (reason := reason_to_skip()) is not None:
        if os.environ.get("CI"):
            pytest.fail(f"in CI the tests with Apache Kafka must run: {reason}")
        pytest.skip(reason)
    (tmp_path / "kafka").mkdir()
    kafka = ApacheKafka(tmp_path / "kafka")
    try:
        kafka.start()
        topics = Topics(kafka.bootstrap)
        pipeline = Pipeline(spark, topics, tmp_path / "checkpoint")
        TestABatchThatIsRunAgain().test_writes_the_tasks_that_were_not_written(pipeline)
        executors = [Executor(spark, topics, fresh("query"), topic := topics.make())]
        executors.append(Executor(spark, topics, executors[0].options.query(), topic))
        lost = executors[0].task(0, "x")
        executors[1].task(0, "x").commit()
        with pytest.raises(Exception, match="has taken over"):
            lost.commit()
        lost.abort()
        executors[0].task(1, "y").commit()
        assert topics.values(topic) == ["x", "y"]
    finally:
        kafka.kill()


def test_the_group_of_the_markers_has_no_lag(pipeline: Pipeline) -> None:
    for value in "ab":
        pipeline.topics.fill(pipeline.input, [value])
        pipeline.run()
    tool = Tool("ottla consumer-groups", pipeline.topics.bootstrap)
    shown = tool(f"--describe --group {pipeline.query}-exactly-once").out
    rows = [line.split() for line in shown if MARKERS in line]
    assert rows
    assert {(row[3], row[4], row[5]) for row in rows} == {("0", "0", "0")}


class TestErrors:
    def failing(self, pipeline: Pipeline, row: list[str], **more: Any) -> str:
        from ottla.pipelines.errors import PipelineError

        with pytest.raises(PipelineError) as raised:
            pipeline.run(pipeline.source().selectExpr(*row), **more)
        said = str(raised.value)
        assert "\n" not in said
        return said

    @pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
    def test_a_topic_that_is_not_there(
        self, spark: SparkSession, strict: Topics, tmp_path: Path, delivery: str
    ) -> None:
        pipeline = Pipeline(spark, strict, tmp_path)
        strict.fill(pipeline.input, ["a"])
        said = self.failing(pipeline, ["'nowhere' as topic", "value"], delivery=delivery)
        assert f"query {pipeline.query}: there is no topic nowhere at {strict.bootstrap}" in said

    @pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
    def test_a_record_that_is_too_large_for_the_broker(self, pipeline: Pipeline, delivery: str) -> None:
        small = pipeline.topics.make("small", 1, {"max.message.bytes": "1000"})
        pipeline.topics.fill(pipeline.input, ["a"])
        said = self.failing(pipeline, [f"'{small}' as topic", "repeat('a', 2000) as value"], delivery=delivery)
        assert f"a record for topic {small} is too large" in said
        assert pipeline.topics.read(small) == []

    def test_a_record_that_is_too_large_for_the_producer(self, pipeline: Pipeline) -> None:
        pipeline.topics.fill(pipeline.input, ["a"])
        row = [f"'{pipeline.output}' as topic", "repeat('a', 2000) as value"]
        said = self.failing(pipeline, row, options={"max.request.size": "1000"})
        assert f"a record for topic {pipeline.output} is too large" in said
        assert "raise kafka.max.request.size" in said

    def test_a_partition_that_is_not_there(self, pipeline: Pipeline) -> None:
        pipeline.topics.fill(pipeline.input, ["a"])
        said = self.failing(pipeline, [f"'{pipeline.output}' as topic", "value", "7 as partition"])
        assert f"partition 7 of topic {pipeline.output}, which has 2 partitions" in said

    @pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
    def test_a_broker_that_is_not_there(self, pipeline: Pipeline, delivery: str) -> None:
        pipeline.topics.fill(pipeline.input, ["a"])
        frame = pipeline.rows()
        pipeline.topics = Topics("127.0.0.1:1")
        from ottla.pipelines.errors import PipelineError

        with pytest.raises(PipelineError, match=r"^query \S+: the brokers at 127.0.0.1:1 do not answer.*$"):
            pipeline.run(frame, delivery, options={"max.block.ms": "1500"})

    def test_a_row_without_a_topic(self, pipeline: Pipeline) -> None:
        pipeline.topics.fill(pipeline.input, ["a"])
        assert "topic is null" in self.failing(pipeline, ["cast(null as string) as topic", "value"])

    @pytest.mark.parametrize(
        ("row", "said"),
        [
            (["value"], "has no column topic"),
            (["'t' as topic", "key"], "has no column value"),
            (["'t' as topic", "value", "offset"], "has a column offset; a record has topic, partition"),
            (["'t' as topic", "offset as value"], "column value is bigint and must be binary or string"),
        ],
    )
    def test_columns_that_do_not_fit(self, pipeline: Pipeline, row: list[str], said: str) -> None:
        assert said in self.failing(pipeline, row)

    def test_exactly_once_with_a_source_that_gives_rows_to_other_tasks(
        self, spark: SparkSession, pipeline: Pipeline
    ) -> None:
        from ottla.pipelines.errors import PipelineError

        options = {"kafka.bootstrap.servers": pipeline.topics.bootstrap, "subscribe": pipeline.input}
        frame = spark.readStream.format("kafka").options(**options).load().selectExpr("topic", "value")
        with pytest.raises(PipelineError, match=r"format\('ottla.Source'\) in place of 'kafka'"):
            pipeline.run(frame)

    def test_exactly_once_in_real_time(self, pipeline: Pipeline) -> None:
        from ottla.pipelines import sink
        from ottla.pipelines.errors import PipelineError

        with pytest.raises(PipelineError, match="real-time mode writes at least once"):
            sink.write(
                pipeline.rows(),
                bootstrap=pipeline.topics.bootstrap,
                query=pipeline.query,
                checkpoint=str(pipeline.checkpoint),
                delivery="exactly_once",
                trigger=sink.RealTime(),
            )


Fail = Callable[[str], str]


@pytest.fixture
def words(spark: SparkSession) -> Fail:
    """What the sink says of an error of Kafka's client, by its name."""
    jvm: Any = spark._jvm
    told = jvm.java.util.HashMap({"kafka.bootstrap.servers": "there:9092", "delivery": "exactly_once", "query": "q"})
    options = jvm.ottla.SinkOptions.of(jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(told))

    def say(name: str) -> str:
        error = getattr(jvm.org.apache.kafka.common.errors, name)("as the broker says it")
        return str(jvm.ottla.SinkFailure.of(error, "t", options).getMessage())

    return say


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("TopicAuthorizationException", "not authorised to write to topic t"),
        ("TransactionalIdAuthorizationException", "not authorised to use transactional ids that begin with q-"),
        ("GroupAuthorizationException", "not authorised to use the group q-exactly-once"),
        ("SaslAuthenticationException", "the brokers at there:9092 do not let us in: as the broker says it"),
        ("TimeoutException", "the brokers at there:9092 do not answer, writing to topic t: as the broker says it"),
        ("ProducerFencedException", "another task or another run of the query q has taken over"),
        ("UnknownServerException", "refused what was sent, writing to topic t: as the broker says it"),
    ],
)
def test_errors_of_brokers_in_words(words: Fail, error: str, said: str) -> None:
    assert said in words(error)
