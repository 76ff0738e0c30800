"""Events are those of Kafka 4.3.1's tool, key by key."""

import json
import signal
import subprocess
import sys
import uuid

import pytest

from ottla.cli import main
from ottla.cli.verifiable_producer import java_class


@pytest.fixture
def topic() -> str:
    return f"verifiable-{uuid.uuid4()}"


@pytest.fixture
def events(ottla_shared_broker, capsys):
    """Runs the tool; gives its events without their times."""

    def run(*words: str) -> list[dict]:
        at = ["--bootstrap-server", ottla_shared_broker.bootstrap]
        assert main.run_by_kafka_name("kafka-verifiable-producer.sh", [*at, *words]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert all(list(one)[:2] == ["timestamp", "name"] for one in found)
        return [{key: value for key, value in one.items() if key != "timestamp"} for one in found]

    return run


def test_each_record_is_told_with_its_place(events, topic) -> None:
    *told, last = events("--topic", topic, "--max-messages", "3", "--repeating-keys", "2", "--value-prefix", "7")
    assert told == [
        {"name": "startup_complete"},
        *(
            {
                "name": "producer_send_success",
                "key": str(number % 2),
                "value": f"7.{number}",
                "offset": number,
                "topic": topic,
                "partition": 0,
            }
            for number in range(3)
        ),
        {"name": "shutdown_complete"},
    ]
    assert list(told[1]) == ["name", "key", "value", "offset", "topic", "partition"]
    assert list(last) == ["name", "sent", "acked", "target_throughput", "avg_throughput"]
    assert (last["sent"], last["acked"], last["target_throughput"]) == (3, 3, -1)
    assert last["avg_throughput"] > 0


def test_a_record_that_is_refused_is_told_as_javas_client_tells_it(events) -> None:
    told = events("--topic", "no topic", "--max-messages", "1")
    assert list(told[1].items())[:5] == [
        ("name", "producer_send_error"),
        ("topic", "no topic"),
        ("key", None),
        ("value", "0"),
        ("exception", "class org.apache.kafka.common.errors.InvalidTopicException"),
    ]
    assert "message" in told[1]
    assert (told[-1]["sent"], told[-1]["acked"]) == (1, 0)


def test_without_acknowledgements_the_offset_is_unknown(events, topic) -> None:
    assert events("--topic", topic, "--max-messages", "1", "--acks", "0")[1]["offset"] == -1


def test_times_of_records_begin_where_asked(events, topic, ottla_shared_broker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    events("--topic", topic, "--max-messages", "2", "--message-create-time", "1000000000000")
    consumer = Consumer({"bootstrap.servers": ottla_shared_broker.bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert 1000000000000 <= message.timestamp()[1] < 1000000060000


def test_it_stops_when_told_and_says_what_was_done(ottla_shared_broker, topic) -> None:
    command = [sys.executable, "-m", "ottla.cli", "verifiable-producer", "--topic", topic, "--throughput", "50"]
    with subprocess.Popen(
        [*command, "--bootstrap-server", ottla_shared_broker.bootstrap], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        lines += process.stdout.readlines()
    assert process.returncode == 0
    told = [json.loads(line) for line in lines]
    assert [one["name"] for one in told[-2:]] == ["shutdown_complete", "tool_data"]
    successes = [one["value"] for one in told if one["name"] == "producer_send_success"]
    assert successes == [str(number) for number in range(told[-1]["acked"])]
    assert told[-1]["sent"] == told[-1]["acked"] >= 2


@pytest.mark.parametrize("words", [["--acks", "2"], ["--repeating-keys", "0"], ["--value-prefix", "a"]])
def test_illegal_values_are_refused(words: list[str], capsys) -> None:
    assert main.run(["verifiable-producer", "--topic", "t", *words]) == 2
    assert words[0] in capsys.readouterr().err


def test_errors_have_the_names_of_javas_exceptions() -> None:
    package = "org.apache.kafka.common.errors."
    assert java_class("_MSG_TIMED_OUT") == package + "TimeoutException"
    assert java_class("NOT_ENOUGH_REPLICAS") == package + "NotEnoughReplicasException"
    assert java_class("MSG_SIZE_TOO_LARGE") == package + "RecordTooLargeException"
