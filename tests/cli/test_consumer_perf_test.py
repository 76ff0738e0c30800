"""Lines are those of Kafka 4.3.1's tool, as it printed them against a broker."""

import re
import uuid

import pytest
from confluent_kafka import Producer

from ottla.cli import main

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
END = r"\d+, \d+, \d+\.\d{4}, \d+\.\d{4}"
HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


@pytest.fixture
def topic(group_broker) -> str:
    """A topic with 400 records of 512 bytes of value and 512 of key: 0.3906 MB."""
    name = f"perf-{uuid.uuid4()}"
    producer = Producer({"bootstrap.servers": group_broker.bootstrap})
    for _ in range(400):
        producer.produce(name, b"v" * 512, b"k" * 512)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def perf(group_broker, capsys):
    def run(*words: str) -> tuple[int, list[str], str]:
        at = ["--bootstrap-server", group_broker.bootstrap]
        status = main.run_by_kafka_name("kafka-consumer-perf-test.sh", [*at, *words])
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err

    return run


def test_one_line_sums_up_what_was_read(perf, topic) -> None:
    status, lines, _ = perf("--topic", topic, "--num-records", "400")
    assert status == 0
    assert lines[0] == HEADER
    assert re.fullmatch(rf"{TIME}, {TIME}, 0\.3906, \d+\.\d{{4}}, 400, \d+\.\d{{4}}, {END}", lines[1])
    assert len(lines) == 2


def test_the_older_names_work_and_the_header_can_go(perf, topic) -> None:
    words = ["--messages", "10", "--hide-header", "--date-format", "yyyy/MM/dd HH-mm-ss"]
    status, lines, errors = perf("--topic", topic, *words)
    assert status == 0
    assert errors == "Warning: --messages is deprecated. Use --num-records instead.\n"
    (line,) = lines
    time = r"\d{4}/\d\d/\d\d \d\d-\d\d-\d\d"
    assert re.fullmatch(rf"{time}, {time}, 0\.0098, \d+\.\d{{4}}, 10, \d+\.\d{{4}}, {END}", line)


def test_detailed_lines_come_at_each_interval(perf, topic) -> None:
    words = ["--include", topic.replace("-", "."), "--num-records", "400", "--show-detailed-stats"]
    status, lines, _ = perf(*words, "--reporting-interval", "1")
    assert status == 0
    assert lines[0] == HEADER.replace("start.time, end.time", "time, threadId")
    assert len(lines) >= 2
    for line in lines[1:]:
        assert re.fullmatch(rf"{TIME}, 0, \d+\.\d{{4}}, \d+\.\d{{4}}, \d+, \d+\.\d{{4}}, {END}", line)


def test_it_gives_up_when_no_more_records_come(perf, topic) -> None:
    status, lines, _ = perf("--topic", topic, "--num-records", "401", "--timeout", "4000", "--hide-header")
    assert status == 0
    assert lines[0] == (
        "WARNING: Exiting before consuming the expected number of records: timeout (4000 ms) exceeded. "
        "You can use the --timeout option to increase the timeout."
    )
    assert ", 400, " in lines[1]


def test_from_the_end_nothing_old_is_read(perf, topic) -> None:
    status, lines, _ = perf("--topic", topic, "--num-records=1", "--timeout=1000", "--from-latest", "--hide-header")
    assert status == 0
    assert ", 0.0000, 0.0000, 0, 0.0000, " in lines[1]


def test_the_consumers_own_counters_are_printed_when_wanted(perf, topic) -> None:
    status, lines, _ = perf("--topic", topic, "--num-records", "400", "--print-metrics", "--group", "counted")
    assert status == 0
    assert lines[3].split() == ["Metric", "Name", "Value"]
    counted = {name.split()[0]: value for name, value in (line.rsplit(" : ", 1) for line in lines[4:])}
    assert int(counted["client:rxmsgs:{client-id=perf-consumer-client}"]) >= 400


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--num-records", "1"], 2, "exactly one of --topic and --include"),
        (["--num-records", "1", "--topic", "a", "--include", "b"], 2, "exactly one of --topic and --include"),
        (["--topic", "a"], 2, "exactly one of --num-records and --messages"),
        (["--topic", "a", "--num-records", "1", "--reporting-interval", "0"], 2, "--reporting-interval"),
        (["--topic", "a", "--num-records", "1", "--date-format", "QQ"], 2, "'Q' in the date format"),
        (["--include", "a(", "--num-records", "1"], 2, "no regular expression"),
        (["--include", "no-such-.*", "--num-records", "1"], 1, "no topic matches 'no-such-.*'"),
        (["--topic", "a", "--num-records", "1", "--command-property", "x.y=1"], 1, "x.y"),
    ],
)
def test_what_cannot_be_run_is_refused(perf, words: list[str], status: int, told: str) -> None:
    got, _, errors = perf(*words)
    assert got == status
    assert told in errors.splitlines()[-1]
