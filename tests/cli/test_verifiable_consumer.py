"""Events are those of Kafka 4.3.1's tool, key by key; and with the producer the books must balance (A2 TST-001)."""

import json
import signal
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.cli import main


@pytest.fixture
def name() -> str:
    """Of a topic, and of a group."""
    return f"verifiable-{uuid.uuid4()}"


@pytest.fixture
def topic(group_broker, name) -> str:
    producer = Producer({"bootstrap.servers": group_broker.bootstrap})
    for number in range(6):
        producer.produce(name, f"välue {number}", str(number) if number else None)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def events(group_broker, capsys):
    """Runs the tool; gives its events without their times."""

    def run(topic: str, *words: str, status: int = 0) -> list[dict]:
        at = ["--bootstrap-server", group_broker.bootstrap, "--topic", topic, "--group-id", topic]
        assert main.run_by_kafka_name("kafka-verifiable-consumer.sh", [*at, *words]) == status
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert all(list(one)[:2] == ["timestamp", "name"] for one in found)
        return [{key: value for key, value in one.items() if key != "timestamp"} for one in found]

    return run


def committed(broker, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(group, 0)])
    (place,) = admin.list_consumer_group_offsets([asked])[group].result().topic_partitions
    return place.offset


def test_all_that_happens_to_a_member_is_told(events, topic, group_broker) -> None:
    place = {"topic": topic, "partition": 0}
    told = events(topic, "--max-messages", "4", "--verbose")
    consumed = [one for one in told if one["name"] == "records_consumed"]
    assert [one["name"] for one in told if one["name"] not in ("records_consumed", "offsets_committed")] == [
        "startup_complete",
        "partitions_assigned",
        *["record_data"] * 4,
        "partitions_revoked",
        "shutdown_complete",
    ]
    assert told[1] == {"name": "partitions_assigned", "partitions": [place]}
    records = [one for one in told if one["name"] == "record_data"]
    assert list(records[0].items()) == [
        ("name", "record_data"),
        ("key", None),
        ("value", "välue 0"),
        ("topic", topic),
        ("partition", 0),
        ("offset", 0),
    ]
    assert [one["key"] for one in records[1:]] == ["1", "2", "3"]
    assert sum(one["count"] for one in consumed) == 4
    assert consumed[0]["partitions"][0] == {
        **place,
        "count": consumed[0]["count"],
        "minOffset": 0,
        "maxOffset": consumed[0]["count"] - 1,
    }
    commits = [one for one in told if one["name"] == "offsets_committed"]
    assert commits[-1] == {"name": "offsets_committed", "offsets": [{**place, "offset": 4}], "success": True}
    assert committed(group_broker, topic) == 4
    again = events(topic, "--max-messages", "1", "--verbose")
    assert [one["value"] for one in again if one["name"] == "record_data"] == ["välue 4"]


def test_the_client_may_commit_by_itself(events, topic, group_broker) -> None:
    told = events(topic, "--max-messages", "6", "--enable-autocommit", "--assignment-strategy", "roundrobin")
    assert "offsets_committed" not in [one["name"] for one in told]
    assert committed(group_broker, topic) == 6


def test_without_an_offset_and_a_reset_policy_it_ends(events, topic) -> None:
    told = events(topic, "--reset-policy", "none", status=1)
    assert [one["name"] for one in told] == [
        "startup_complete",
        "partitions_assigned",
        "partitions_revoked",
        "shutdown_complete",
    ]


def test_it_stops_when_told(group_broker, topic) -> None:
    at = ["--bootstrap-server", group_broker.bootstrap, "--topic", topic, "--group-id", topic]
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "verifiable-consumer", *at], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(json.loads(line))
            if told[-1]["name"] == "offsets_committed" and told[-1]["offsets"][0]["offset"] == 6:
                process.send_signal(signal.SIGTERM)
                break
        told += [json.loads(line) for line in process.stdout]
    assert process.returncode == 0
    assert [one["name"] for one in told[-3:]] == ["shutdown_requested", "partitions_revoked", "shutdown_complete"]


def test_a_brokers_death_loses_nothing_that_was_acknowledged(ottla_broker_factory, name) -> None:
    broker = ottla_broker_factory(overrides={"group.initial.rebalance.delay.ms": "0"})
    tool = [sys.executable, "-m", "ottla.cli"]
    at = ["--bootstrap-server", broker.bootstrap, "--topic", name]
    with subprocess.Popen(
        [*tool, "verifiable-producer", *at, "--throughput", "500", "--acks", "-1"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(200)]
        broker.kill()
        broker.start()
        while True:  # until it goes on after the restart
            lines.append(process.stdout.readline())
            last = json.loads(lines[-1])
            if last["name"] == "producer_send_success" and len(lines) > 400:
                break
        process.send_signal(signal.SIGTERM)
        lines += process.stdout.readlines()
    sent = [json.loads(line) for line in lines]
    acknowledged = {(one["offset"], one["value"]) for one in sent if one["name"] == "producer_send_success"}
    last_offset = max(offset for offset, _ in acknowledged)
    words = ["verifiable-consumer", *at, "--group-id", name, "--verbose", "--max-messages", str(last_offset + 1)]
    read = subprocess.run([*tool, *words], capture_output=True, text=True, check=True, timeout=60).stdout
    records = [one for line in read.splitlines() if (one := json.loads(line))["name"] == "record_data"]
    assert acknowledged <= {(one["offset"], one["value"]) for one in records}
    assert [one["offset"] for one in records] == list(range(last_offset + 1))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--group-protocol", "x"], "'x' is not one of"),
        (["--group-protocol", "consumer", "--session-timeout", "5000"], "session.timeout.ms cannot be set"),
        (["--group-remote-assignor", "uniform"], "goes with --group-protocol consumer"),
        (["--reset-policy", "x"], "'x' is not one of"),
    ],
)
def test_illegal_settings_are_refused(words: list[str], told: str, capsys) -> None:
    assert main.run(["verifiable-consumer", "--topic", "t", "--group-id", "g", *words]) == 2
    assert told in capsys.readouterr().err
