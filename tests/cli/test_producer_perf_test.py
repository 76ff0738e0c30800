"""Lines are those of Kafka 4.3.1's tool, as it printed them against a broker."""

import re
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.cli import main
from ottla.cli.producer_perf_test import Stats, percentiles

NUMBERS = r"[\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency"
WINDOW = re.compile(rf"(\d+) records sent, {NUMBERS}\.")
TOTAL = re.compile(
    rf"(\d+)( steady state)? records sent, {NUMBERS}, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)


@pytest.fixture
def topic() -> str:
    return f"perf-{uuid.uuid4()}"


@pytest.fixture
def perf(ottla_shared_broker, topic, capsys):
    """Runs the tool on a topic of its own; gives status, lines and errors."""

    def run(*words: str) -> tuple[int, list[str], str]:
        at = ["--topic", topic, "--bootstrap-server", ottla_shared_broker.bootstrap]
        status = main.run_by_kafka_name("kafka-producer-perf-test.sh", [*at, *words])
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err

    return run


def values(servers: str, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    try:
        place = TopicPartition(topic, 0, 0)
        end = consumer.get_watermark_offsets(place, timeout=10)[1]
        consumer.assign([place])
        found: list[bytes] = []
        while len(found) < end:
            found += [message.value() for message in consumer.consume(end - len(found), 5.0)]
        return found
    finally:
        consumer.close()


def test_the_summary_reads_as_kafkas(perf, ottla_shared_broker, topic) -> None:
    status, lines, _ = perf("--num-records", "500", "--record-size", "100", "--throughput", "-1")
    assert status == 0
    assert len(lines) == 1
    match = TOTAL.fullmatch(lines[0])
    assert match
    assert match[1] == "500"
    written = values(ottla_shared_broker.bootstrap, topic)
    assert len(written) == len(set(written)) == 500
    assert all(re.fullmatch(rb"[A-Z]{100}", value) for value in written)


def test_a_records_time_in_the_producers_queue_counts(perf) -> None:
    words = ["--num-records=3", "--record-size=10", "--throughput=10", "--command-property", "linger.ms=60000"]
    _, lines, _ = perf(*words)
    most = re.search(r"([\d.]+) ms max latency", lines[-1])
    assert most
    assert float(most[1]) >= 200  # the first waits for the last


def test_throughput_is_held_and_progress_told_while_it_runs(perf) -> None:
    status, lines, _ = perf(
        "--num-records", "600", "--record-size", "10", "--throughput", "1000", "--reporting-interval", "100"
    )
    assert status == 0
    windows = [WINDOW.fullmatch(line) for line in lines[:-1]]
    assert len(windows) >= 2
    assert all(windows)
    rate = re.search(r"([\d.]+) records/sec", lines[-1])
    assert rate
    assert float(rate[1]) < 1010


def test_the_warm_up_is_told_apart(perf) -> None:
    status, lines, _ = perf(
        "--num-records=300", "--record-size=10", "--throughput=200", "--warmup-records=20", "--reporting-interval=50"
    )
    assert status == 0
    assert lines[0] == ("Warmup first 20 records. Steady state results will print after the complete test summary.")
    assert lines.count("In steady state.") == 1
    after = [WINDOW.fullmatch(line) for line in lines[lines.index("In steady state.") + 1 : -2]]
    assert 0 < sum(int(one[1]) for one in after if one) <= 280
    totals = [TOTAL.fullmatch(line) for line in lines[-2:]]
    assert [(one[1], one[2]) for one in totals if one] == [("300", None), ("280", " steady state")]


def test_payloads_come_from_a_file_or_are_numbers(perf, ottla_shared_broker, topic, tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_text("ä,b,c,")
    status, lines, _ = perf(
        "--num-records=50", "--payload-file", str(file), "--payload-delimiter", ",", "--throughput=-1"
    )
    assert status == 0
    assert lines[:2] == [f"Reading payloads from: {file}", "Number of records read: 3"]
    assert set(values(ottla_shared_broker.bootstrap, topic)) == {"ä".encode(), b"b", b"c"}
    assert perf("--num-records=3", "--payload-monotonic", "--throughput=-1")[0] == 0
    assert values(ottla_shared_broker.bootstrap, topic)[-3:] == [b"0", b"1", b"2"]


def test_several_properties_follow_one_option_as_in_kafkas_tool(
    ottla_shared_broker, topic, tmp_path: Path, capsys
) -> None:
    config = tmp_path / "producer.properties"
    config.write_text("bootstrap.servers=nowhere:1\nlinger.ms=nonsense\n")
    words = ["--producer-props", f"bootstrap.servers={ottla_shared_broker.bootstrap}", "linger.ms=0", "acks=1"]
    more = ["--producer.config", str(config), "--num-records", "5", "--record-size", "1", "--throughput", "-1"]
    assert main.run(["producer-perf-test", "--topic", topic, *words, *more]) == 0
    assert TOTAL.fullmatch(capsys.readouterr().out.strip())


def test_the_producers_own_counters_are_printed_when_wanted(perf) -> None:
    status, lines, _ = perf("--num-records=5", "--record-size=10", "--throughput=-1", "--print-metrics")
    assert status == 0
    assert TOTAL.fullmatch(lines[0])
    assert lines[1] == ""
    assert lines[2].split() == ["Metric", "Name", "Value"]
    counted = {name.split()[0]: value for name, value in (line.rsplit(" : ", 1) for line in lines[3:])}
    assert counted["client:txmsgs:{client-id=perf-producer-client}"] == "5"


def test_records_that_are_refused_are_counted_and_told(ottla_shared_broker, capsys) -> None:
    words = ["--num-records", "3", "--record-size", "1", "--throughput", "-1", "--topic", "no topic"]
    at = ["--bootstrap-server", ottla_shared_broker.bootstrap]
    assert main.run(["producer-perf-test", *words, *at]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("0 records sent, ")
    assert said.err == "ottla: 3 records were not sent: INVALID_TOPIC_EXCEPTION: Broker: Invalid topic\n"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--num-records=0", "--record-size=1", "--throughput=-1"], 2, "--num-records"),
        (["--num-records=1", "--record-size=0", "--throughput=-1"], 2, "--record-size"),
        (["--num-records=1", "--throughput=-1"], 2, "exactly one of --record-size, --payload-file"),
        (["--num-records=1", "--throughput=-1", "--payload-monotonic", "--record-size=1"], 2, "exactly one of"),
        (["--num-records=1", "--record-size=1"], 2, "--throughput"),
        (["--num-records=1", "--record-size=1", "--throughput=fast"], 2, "'fast' is not a valid float"),
        (["--num-records=5", "--record-size=1", "--throughput=-1", "--warmup-records=5"], 2, "--warmup-records"),
        (["--num-records=5", "--record-size=1", "--throughput=-1", "--producer-props", "acks"], 2, "KEY=VALUE"),
        (["--num-records=5", "--record-size=1", "--throughput=-1", "--producer-props", "a.b=1"], 1, "a.b"),
        (["--num-records=5", "--record-size=1", "--throughput=-1", "--transaction-duration-ms=0"], 2, "duration"),
        (["--num-records=1", "--payload-file", "/nonexistent", "--throughput=-1"], 1, "cannot read /nonexistent"),
        (["--num-records=1", "--payload-file", "/dev/null", "--throughput=-1"], 1, "no payload in /dev/null"),
        (["--num-records=1", "--payload-file=/dev/null", "--payload-delimiter=", "--throughput=-1"], 2, "empty"),
    ],
)
def test_what_cannot_be_run_is_refused(perf, words: list[str], status: int, told: str) -> None:
    got, _, errors = perf(*words)
    assert got == status
    assert errors.count("\n") == 1
    assert told in errors


def test_windows_and_sums_are_computed_as_kafka_does(capsys) -> None:
    stats = Stats(4, interval=10.0)
    base = stats._start
    for latency, size, at in ((1, 1048576, 1.0), (3, 0, 2.0), (8, 1048576, 10.0), (20, 0, 11.0)):
        stats.record(latency, size, base + at)
    assert capsys.readouterr().out == (
        "3 records sent, 0.3 records/sec (0.20 MB/sec), 4.0 ms avg latency, 8.0 ms max latency.\n"
    )
    assert ", 8.00 ms avg latency, 20.00 ms max latency, 8 ms 50th, 20 ms 95th, " in stats.summary()
    assert percentiles(list(range(1000)), 0.5, 0.95, 0.99, 0.999) == [500, 950, 990, 999]
    assert percentiles([], 0.5) == [0]
