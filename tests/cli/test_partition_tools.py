"""delete-records, log-dirs, leader-election and preferred-replica-election."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ottla.cli.common.requests import Connection
from support.requests import batch, produce_request
from support.tools import Tool

T1 = '{"topic": "t", "partition": 1, "offset": 1}'


class Tools:
    """Kafka's tools on the shared broker, a topic with two partitions of three records, and files for them."""

    def __init__(self, broker: Any, directory: Path) -> None:
        self._bootstrap, self._directory = broker.bootstrap, directory
        self.topic = f"tools-{uuid4().hex[:8]}"
        self("kafka-topics").works(f"--create --topic {self.topic} --partitions 2")
        connection = Connection("127.0.0.1", broker.port)
        parts = [(self.topic, index, batch("a", "b", "c")) for index in range(2)]
        connection.call(produce_request(*parts), 9)
        connection.close()

    def __call__(self, name: str) -> Tool:
        return Tool(name, self._bootstrap, self._directory)

    def write(self, *partitions: dict[str, Any], **more: Any) -> None:
        entries = [{"topic": self.topic, **one} for one in partitions]
        (self._directory / "f.json").write_text(json.dumps({"partitions": entries, **more}))

    def write_text(self, text: str) -> None:
        (self._directory / "f.json").write_text(text)

    def starts(self) -> list[str]:
        return self("kafka-get-offsets").works(f"--topic {self.topic} --time earliest")


@pytest.fixture
def tools(ottla_shared_broker, tmp_path: Path) -> Tools:
    return Tools(ottla_shared_broker, tmp_path)


def test_records_are_deleted_before_an_offset(tools) -> None:
    tools.write({"partition": 0, "offset": 2}, {"partition": 1, "offset": -1}, version=1)
    assert tools("kafka-delete-records").works("--offset-json-file f.json") == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {tools.topic}-0\tlow_watermark: 2",
        f"partition: {tools.topic}-1\tlow_watermark: 3",
    ]
    assert tools.starts() == [f"{tools.topic}:0:2", f"{tools.topic}:1:3"]


def test_where_records_cannot_be_deleted_the_others_are(tools) -> None:
    tools.write({"partition": 0, "offset": 1}, {"partition": 1, "offset": 99})
    said = tools("ottla delete-records")("--offset-json-file f.json --yes --output json")
    assert said.status == 1
    assert [(row["low_watermark"], (row["error"] or "")[:19]) for row in said.json] == [
        (1, ""),
        (None, "OFFSET_OUT_OF_RANGE"),
    ]
    refused = tools("ottla delete-records")("--offset-json-file f.json")
    assert "say --yes to do it without being asked" in refused.err[0]


@pytest.mark.parametrize("name", ["kafka-delete-records", "kafka-leader-election"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "f.json is not valid JSON"),
        ("[" * 100_000, "f.json is not valid JSON"),
        ("[]", "f.json must hold a JSON object"),
        ("{}", 'f.json must have a list of objects as "partitions"'),
        ('{"partitions": [1]}', 'f.json must have a list of objects as "partitions"'),
        ('{"partitions": [], "version": 2}', "not supported version field value 2"),
        ('{"partitions": [{"partition": 1, "offset": 1}]}', 'needs a text as "topic"'),
        ('{"partitions": [{"topic": "t", "partition": "1", "offset": 1}]}', 'needs a whole number as "partition"'),
        ('{"partitions": [{"topic": "t", "partition": -1, "offset": 1}]}', "f.json: there is no partition -1"),
        ('{"partitions": [{"topic": "t", "partition": 4294967296, "offset": 1}]}', "there is no partition 4294967296"),
        (
            f'{{"partitions": [{", ".join(2 * [T1])}]}}',
            "contains duplicate topic partitions: t-1",
        ),
    ],
)
def test_a_bad_file_gets_one_line(tools, name: str, text: str, told: str) -> None:
    tools.write_text(text)
    words = "--offset-json-file f.json" if "delete" in name else "--election-type preferred --path-to-json-file f.json"
    said = tools(name)(words)
    assert (said.status, said.out, len(said.err)) == (1, [], 1)
    assert told in said.err[0]
    assert "cannot read none.json: No such file" in tools(name)(words.replace("f.json", "none.json")).err[0]
    assert tools.starts() == [f"{tools.topic}:0:0", f"{tools.topic}:1:0"]


def test_directories_and_sizes_are_shown(tools, ottla_shared_broker) -> None:
    first, second, found = tools("kafka-log-dirs").works(f"--describe --topic-list {tools.topic}")
    assert first == "Querying brokers for log directories information"
    assert second == "Received log directory information from brokers 0"
    (broker,) = json.loads(found)["brokers"]
    (place,) = broker["logDirs"]
    assert place["logDir"] == str(ottla_shared_broker.data_dir)
    assert [one["partition"] for one in place["partitions"]] == [f"{tools.topic}-0", f"{tools.topic}-1"]
    assert all(one["size"] > 60 for one in place["partitions"])
    rows = tools("ottla log-dirs")(f"--topic-list {tools.topic} --broker-list 0 --output json").json
    assert [(row["broker"], row["partition"], row["is_future"]) for row in rows] == [
        (0, f"{tools.topic}-{index}", False) for index in range(2)
    ]
    said = tools("kafka-log-dirs")("--describe --broker-list 0,8")
    assert said.status == 1
    assert said.err == [
        "kafka-log-dirs: ERROR: The given brokers do not exist from --broker-list: 8. Current existent brokers: 0"
    ]
    assert tools("kafka-log-dirs")("--describe --broker-list a").status == 2


def test_leaders_are_elected_where_that_is_of_use(tools) -> None:
    elect = tools("kafka-leader-election")
    one = f"--topic {tools.topic} --partition 1"
    assert elect.works(f"--election-type preferred {one}") == [
        f"Valid replica already elected for partitions {tools.topic}-1"
    ]
    assert elect.works("--election-type PREFERRED --all-topic-partitions") == []
    tools.write({"partition": 0}, {"partition": 7})
    said = elect("--election-type unclean --path-to-json-file f.json")
    assert said.status == 1
    assert said.out[0] == f"Valid replica already elected for partitions {tools.topic}-0"
    assert said.out[1].startswith(f"Error completing leader election (UNCLEAN) for partition: {tools.topic}-7: UNKNOWN")
    assert said.err == ["kafka-leader-election: 1 replica(s) could not be elected"]
    asked = tools("ottla leader-election")(f"--election-type unclean {one}")
    assert "loses the records that the new leader does not have: say --yes" in asked.err[0]
    rows = tools("ottla leader-election")(f"--election-type unclean {one} --yes --output json").json
    assert rows == [{"topic": tools.topic, "partition": 1, "outcome": "not needed", "error": None}]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--election-type preferred", "exactly one action is wanted"),
        ("--election-type preferred --topic t", "--topic and --partition go together"),
        ("--election-type preferred --all-topic-partitions --partition 1", "--topic and --partition go together"),
        ("--election-type wild --all-topic-partitions", "'wild' is not one of"),
        ("--all-topic-partitions", "Missing option '--election-type'"),
        ("--election-type preferred --topic t --partition -1", "-1 is not in the range"),
    ],
)
def test_an_election_that_is_asked_for_wrongly_gets_one_line(tools, words: str, told: str) -> None:
    said = tools("kafka-leader-election")(words)
    assert (said.status, said.out, len(said.err)) == (2, [], 1)
    assert told in said.err[0]


def test_preferred_replicas_lead(tools) -> None:
    tools.write({"partition": 0}, {"partition": 1})
    elect = tools("kafka-preferred-replica-election.sh")
    both = f"Set([{tools.topic},0], [{tools.topic},1])"
    assert elect.works("--path-to-json-file f.json") == [
        f"Successfully started preferred replica election for partitions {both}"
    ]
    (line,) = elect.works("")
    assert f"[{tools.topic},0], [{tools.topic},1]" in line
    tools.write({"partition": 9})
    said = elect("--path-to-json-file f.json")
    assert said.status == 1
    assert said.out[0].startswith(
        f"Error completing preferred replica election for partition: {tools.topic}-9: UNKNOWN"
    )
