"""The harness of streams: what it expects of an input, what it takes for right and wrong, what it measures. The engine
is a small program of the tests' own; the two real ones run where they can be had, with CI set everywhere."""

import os
import shutil
import struct
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest

from bench import report
from bench.__main__ import options
from bench.loadgen import LoadGenerator, has_rdkafka
from bench.ottla import Ottla
from bench.process import BenchError
from bench.streams.engines import Engine, Job, KafkaStreams, OttlaStreams
from bench.streams.inputs import PARTITIONS, Expected, Input, Topology
from bench.streams.judge import Check
from bench.streams.rounds import Plan, run
from bench.streams.workloads import CatchUp, ColdStart, Latency, Stage, streams

ROOT = Path(__file__).resolve().parents[2]
KAFKA_STREAMS = KafkaStreams(ROOT)

needs_rdkafka = pytest.mark.skipif(
    not shutil.which("gcc") or not has_rdkafka(), reason="librdkafka-dev (and gcc) are not installed here"
)


class UpperCase:
    """An engine that knows one topology, and may get it wrong."""

    name = "kafka"
    label = "upper case"

    def __init__(self, wrong: str = "", isolation: str = "read_committed") -> None:
        self._options = [isolation, wrong]

    def install(self) -> None:
        pass

    def version(self) -> str:
        return "1"

    def prepare(self, job: Job) -> list[str]:
        program = ROOT / "tests" / "support" / "upper_case.py"
        return [sys.executable, str(program), job.bootstrap, job.input, job.output, *self._options]


@pytest.fixture(scope="module")
def generator(tmp_path_factory) -> LoadGenerator:
    return LoadGenerator(tmp_path_factory.mktemp("loadgen"))


@pytest.fixture
def stage(generator, tmp_path) -> Stage:
    return Stage(UpperCase(), Ottla(ROOT), tmp_path, generator, 1, "once")


def counted(source: Input, stop: int) -> dict[bytes, int]:
    """By the definition of each topology, record by record."""
    counts: Counter[bytes] = Counter()
    for _, key, value, timestamp in source.records(0, stop):
        match source.topology:
            case "count":
                counts[key] += 1
            case "window":
                counts[key + struct.pack(">q", timestamp // 1000 * 1000)] += 1
            case "words":
                counts.update(value.lower().split(b" "))
    return dict(counts)


@pytest.mark.parametrize("topology", ["count", "window", "words"])
def test_final_counts_are_those_of_the_records(topology: Topology):
    source, stop = Input(topology), 123_456 if topology != "words" else 1_234
    assert source.expected(stop).finals == counted(source, stop)


def test_every_record_comes_out_in_upper_case_or_with_the_tables_value():
    for topology in ("map", "join"):
        source, total = Input(topology), 0
        table = {key: value for _, key, value, _ in source.table()}
        for _, key, value, _ in source.records(0, 5000):
            total += zlib.crc32(value.upper() if topology == "map" else value + b" " + table[key])
        assert source.expected(5000) == Expected(records=5000, checksum=total)


def test_a_key_stays_in_its_partition_and_the_table_agrees():
    source = Input("join")
    places = {key: partition for partition, key, _, _ in source.table()}
    assert len(places) == 100_000
    assert set(places.values()) == set(range(PARTITIONS))
    assert all(places[key] == partition for partition, key, _, _ in source.records(0, 10_000))


def test_values_have_their_size_and_the_same_input_is_the_same_again():
    once, again = ([record[:3] for record in Input("words").records(0, 1000)] for _ in range(2))
    assert once == again
    assert {len(value) for _, _, value in once} == {100}


def long(number: int) -> bytes:
    return struct.pack(">q", number)


def test_counts_are_complete_when_each_key_has_reached_its_last():
    check = Check()
    check.expect(Expected(finals={b"a": 2, b"b": 1}))
    check.take(0, 5, b"a", long(1))
    check.take(1, 7, b"b", long(1))
    assert not check.complete
    check.take(0, 6, b"a", long(2))
    assert check.complete
    assert check.marks == {0: 6, 1: 7}
    check.expect(Expected(finals={b"a": 3, b"b": 1}))
    check.take(0, 9, b"a", long(3))
    assert check.complete
    assert check.marks == {0: 9}


@pytest.mark.parametrize(("key", "count"), [(b"a", 3), (b"a", 1), (b"c", 1)])
def test_a_count_beside_the_right_one_is_refused(key, count):
    check = Check()
    check.expect(Expected(finals={b"a": 2}))
    check.take(0, 0, b"a", long(2))
    with pytest.raises(BenchError, match="a wrong result"):
        check.take(0, 1, key, long(count))


@pytest.mark.parametrize("values", [[b"x"], [b"x", b"z"], [b"x", b"y", b"y"]])
def test_records_that_are_missing_wrong_or_too_many_are_refused(values):
    check = Check()
    check.expect(Expected(records=2, checksum=zlib.crc32(b"x") + zlib.crc32(b"y")))
    for offset, value in enumerate(values):
        check.take(0, offset, b"k", value)
    with pytest.raises(BenchError, match="a wrong result"):
        check.verify()


@needs_rdkafka
def test_a_small_run_gives_every_figure_and_leaves_nothing_behind(generator, tmp_path):
    workloads = [
        CatchUp("catching-up", "map", "at_least_once", 5000, with_memory=True),
        Latency("latency", "map", "at_least_once", (100, 200), 0.5),
        ColdStart("start", "map"),
    ]
    lines: list[str] = []
    plan = Plan(workloads, repeats=1, scale=1)
    measured = run([UpperCase()], plan, Ottla(ROOT), generator, tmp_path / "run", lines.append)
    assert measured.failures == []
    assert [figure.key for figure in measured.figures] == [
        *(f"catching-up.{key}" for key in ("rate", "cpu", "memory")),
        *(f"latency-{rate}.{key}" for rate in (100, 200) for key in ("p50", "p99")),
        "start.seconds",
    ]
    assert all(measured.values[figure.key]["kafka"][0] > 0 for figure in measured.figures)
    assert len(lines) == 1 + 3
    assert list((tmp_path / "run").iterdir()) == []


@needs_rdkafka
def test_an_engine_that_gets_one_record_wrong_is_found_out(stage):
    (record,) = Input("map").records(0, 1)
    stage.engine = UpperCase(wrong=record[2].decode())
    with pytest.raises(BenchError, match="a wrong result: 400 records of 400"):
        CatchUp("wrong", "map", "at_least_once", 2000).run(stage)


@needs_rdkafka
def test_an_engine_that_starts_before_the_clock_is_found_out(stage):
    stage.engine = UpperCase(isolation="read_uncommitted")
    with pytest.raises(BenchError, match="a wrong result: 2,400 records of 400"):
        CatchUp("early", "map", "at_least_once", 2000).run(stage)


@needs_rdkafka
def test_an_engine_that_ends_is_told_with_its_last_words(stage):
    stage.engine.prepare = lambda job: [sys.executable, "-c", "raise SystemExit('no such topology')"]
    with pytest.raises(BenchError, match="the application has ended without output\nno such topology"):
        ColdStart("dead", "map").run(stage)


@pytest.mark.skipif(shutil.which("java") is None, reason="no java")
def test_the_version_of_kafka_streams_is_told_beside_jars_of_like_names(tmp_path):
    directory = tmp_path / "build" / "kafka-streams"
    directory.mkdir(parents=True)
    for name in ("kafka-streams-4.3.1.jar", "kafka-streams-test-utils-4.3.1.jar", "kafka-clients-4.3.1.jar"):
        (directory / name).touch()
    assert KafkaStreams(tmp_path).version().startswith("4.3.1 on Java ")


def test_settings_of_kafka_streams_follow_the_goal(tmp_path):
    throughput = KAFKA_STREAMS.settings(Job("count", "at_least_once", "throughput", "b:1", tmp_path))
    latency = KAFKA_STREAMS.settings(Job("count", "exactly_once", "latency", "b:1", tmp_path))
    assert "producer.linger.ms" not in throughput
    assert latency["statestore.cache.max.bytes"] == "0"
    assert (latency["processing.guarantee"], "commit.interval.ms" in latency) == ("exactly_once_v2", False)


def installed(engine: Engine) -> Engine:
    try:
        engine.install()
    except BenchError as error:
        if os.environ.get("CI"):
            pytest.fail(f"in CI both engines must run: {error}")
        pytest.skip(str(error))
    return engine


@needs_rdkafka
@pytest.mark.slow
@pytest.mark.parametrize("topology", ["words", "join"])
def test_kafka_streams_gives_the_right_result_on_ottlas_broker(stage, topology):
    reason = KAFKA_STREAMS.missing()
    if reason and not os.environ.get("CI"):
        pytest.skip(reason)  # make test has fetched what it could
    stage.engine = installed(KAFKA_STREAMS)
    assert CatchUp("real", topology, "exactly_once", 2000).run(stage)["real.rate"] > 0


@needs_rdkafka
@pytest.mark.slow
@pytest.mark.usefixtures("spark_can_start")
def test_ottlas_streams_give_the_right_result(stage):
    stage.engine = installed(OttlaStreams())
    assert CatchUp("real", "window", "exactly_once", 2000).run(stage)["real.rate"] > 0


def test_streams_are_a_family_and_a_run_of_their_own(capsys):
    names = [workload.name for workload in streams()]
    assert options(["--workloads", "streams"]).names == options(["--streams"]).names == names
    assert options(["--workloads", "streams-map"]).streams
    assert not options([]).streams
    assert (options(["--streams"]).full, options(["--streams", "--scale", "0.5"]).full) == (True, False)
    with pytest.raises(SystemExit):
        options(["--workloads", "streams,e2e-500"])
    assert "workloads of streams and of brokers do not go into one run" in capsys.readouterr().err


def test_every_topology_is_measured_with_both_guarantees_and_for_latency():
    keys = {figure.key for workload in streams() for figure in workload.figures()}
    for topology in ("map", "count", "window", "words", "join"):
        assert {f"streams-{topology}.rate", f"streams-{topology}-once.rate"} <= keys
        assert {f"streams-latency-{topology}-2000.p99", f"streams-latency-{topology}-once-2000.p99"} <= keys


def test_the_page_of_streams_names_the_engines_and_the_broker():
    notes = run([], Plan([], 1, 1), Ottla(ROOT), None, Path("."), print)
    about = {
        "subject": "streams",
        "taken": "2026-01-02",
        "repeats": 3,
        "machine": {"processor": "P", "cores": "2", "memory": "4 GiB", "kernel": "Linux 6", "system": "Debian"},
        "systems": {engine.name: {"label": engine.label, "version": "1"} for engine in (OttlaStreams(), KAFKA_STREAMS)},
    }
    page = report.markdown(report.build(notes, **about))
    assert page.startswith("# ottla's streams and Kafka Streams on one machine\n")
    assert "(bench-streams.svg)" in page
    assert "- Kafka Streams 1\n- 3 rounds, 2026-01-02\n" in page
    assert "which is ottla's" in page
