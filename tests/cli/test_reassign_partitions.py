import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import pytest

from ottla.testing import BrokerProcess
from support.tools import Tool

DONE = "Reassignment of replica t-0-0 completed successfully."
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def tool(ottla_shared_broker, tmp_path: Path) -> Tool:
    return Tool("kafka-reassign-partitions.sh", ottla_shared_broker.bootstrap, tmp_path)


@pytest.fixture
def topic(ottla_shared_broker) -> str:
    name = f"reassign-{uuid4().hex[:8]}"
    Tool("kafka-topics", ottla_shared_broker.bootstrap).works(f"--create --topic {name} --partitions 2")
    return name


def entry(topic: str, partition: int = 0, replicas: Any = (0,), **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "replicas": list(replicas), **more}


def write(directory: Path, *partitions: Any) -> None:
    (directory / "r.json").write_text(json.dumps({"version": 1, "partitions": partitions}))


def test_an_assignment_is_proposed_executed_and_verified(tool, topic, tmp_path, ottla_shared_broker) -> None:
    (tmp_path / "topics.json").write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    data = str(ottla_shared_broker.data_dir)
    lines = tool.works("--generate --topics-to-move-json-file topics.json --broker-list 0,1")
    assert [lines[0], lines[2], lines[3]] == [
        "Current partition replica assignment",
        "",
        "Proposed partition reassignment configuration",
    ]
    current = {"version": 1, "partitions": [entry(topic, index, log_dirs=[data]) for index in range(2)]}
    assert lines[1] == json.dumps(current, separators=(",", ":"))
    proposed = json.loads(lines[4])
    assert proposed["partitions"] == [entry(topic, index, log_dirs=["any"]) for index in range(2)]
    (tmp_path / "r.json").write_text(lines[4])
    assert tool.works("--execute --reassignment-json-file r.json") == [
        "Current partition replica assignment",
        "",
        lines[1],
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        f"Successfully started partition reassignments for {topic}-0,{topic}-1",
    ]
    done = [
        "Status of partition reassignment:",
        f"Reassignment of partition {topic}-0 is completed.",
        f"Reassignment of partition {topic}-1 is completed.",
        "",
    ]
    cleared = [
        "Clearing broker-level throttles on broker 0",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    assert tool.works("--verify --reassignment-json-file r.json") == [*done, *cleared]
    assert tool.works("--verify --reassignment-json-file r.json --preserve-throttles") == done
    assert tool.works("--list") == ["No partition reassignments found."]
    assert tool.works("--cancel --reassignment-json-file r.json") == [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
        *cleared,
    ]
    assert Tool("ottla reassign-partitions", ottla_shared_broker.bootstrap)("--output json").json == []


def test_what_was_never_begun_is_told(tool, topic, tmp_path) -> None:
    write(tmp_path, entry(topic, 0, [1, 0]), entry(topic, 5))
    lines = tool.works("--verify --reassignment-json-file r.json --preserve-throttles")
    for line in (
        f"There is no active reassignment of partition {topic}-0, but replica set is 0 rather than 1,0.",
        f"There is no active reassignment of partition {topic}-5, but replica set is  rather than 0.",
    ):
        assert line in lines


def test_a_replica_moves_to_another_directory_and_back(
    tmp_path: Path, ottla_broker_factory: Callable[..., BrokerProcess]
) -> None:
    disks = [tmp_path / "a", tmp_path / "b"]
    broker = ottla_broker_factory(data_dir=f"{disks[0]},{disks[1]}")
    Tool("kafka-topics", broker.bootstrap).works("--create --topic t")
    tool = Tool("kafka-reassign-partitions", broker.bootstrap, tmp_path)
    here = disks[0] if (disks[0] / "t-0").exists() else disks[1]
    there = disks[1 - disks.index(here)]
    write(tmp_path, entry("t", log_dirs=[str(there)]))
    verify = "--verify --reassignment-json-file r.json"
    assert tool.works(verify)[2] == f"Partition t-0 on broker 0 is not being moved from log dir {here} to {there}."
    lines = tool.works("--execute --reassignment-json-file r.json --replica-alter-log-dirs-throttle 1000000")
    assert lines[-3:] == [
        "The replica-alter-dir throttle limit was set to 1000000 B/s",
        "Successfully started partition reassignment for t-0",
        f"Successfully started moving log directory to {there} for replica t-0 with broker 0 ",
    ]
    deadline = monotonic() + 30
    while (told := tool.works(verify + " --preserve-throttles")[2]) != DONE:
        assert told == "Reassignment of replica t-0-0 is still in progress."
        assert monotonic() < deadline
        sleep(0.02)
    assert (there / "t-0").exists()
    configs = Tool("kafka-configs", broker.bootstrap)
    assert configs.works("--describe --broker 0")[1].startswith(f"  {RATE}=1000000 ")
    tool.works(verify)
    assert configs.works("--describe --broker 0") == ["Dynamic configs for broker 0 are:"]


def test_a_throttle_that_would_do_nothing_is_refused_before_anything_changes(
    tool, topic, tmp_path, ottla_shared_broker
) -> None:
    write(tmp_path, entry(topic))
    said = tool("--execute --reassignment-json-file r.json --throttle 5000")
    assert said.status == 1
    assert "there is one broker so far, so nothing is replicated" in said.out[-1]
    configs = Tool("kafka-configs", ottla_shared_broker.bootstrap)
    assert configs.works(f"--describe --topic {topic}") == [f"Dynamic configs for topic {topic} are:"]


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([entry("T", replicas=[])], "Partition replica list cannot be empty"),
        ([entry("T", replicas=[0, 0])], "Partition replica lists may not contain duplicate entries: T-0 contains mul"),
        ([entry("T"), entry("T")], "r.json contains duplicate topic partitions: T-0"),
        ([entry("T", replicas=[1])], "Unknown broker id 1"),
        ([entry("T", replicas=["0"])], 'r.json: T-0 needs a list of brokers\' ids as "replicas"'),
        ([entry("T", replicas=[True])], "r.json: T-0 needs a list of brokers' ids"),
        ([entry("T", partition=7)], "Unable to find partition: T-7"),
        ([entry("T-no")], "Topic T-no not found."),
        ([entry("T", log_dirs=[])], "Size of replicas list [0] is different from size of log dirs list []"),
        ([entry("T", log_dirs=[1])], '"log_dirs" of T-0 must be a list of directories'),
        ([entry("T", log_dirs=["/no/such"])], "Failed to alter dir for T-0-0: LOG_DIR_NOT_FOUND"),
        ([{"topic": "T"}], 'r.json: every entry needs a whole number as "partition"'),
    ],
)
def test_an_assignment_that_cannot_be_is_told(tool, topic, tmp_path, partitions: Any, told: str) -> None:
    text = json.dumps({"partitions": partitions}).replace('"T', f'"{topic}')
    (tmp_path / "r.json").write_text(text)
    said = tool("--execute --reassignment-json-file r.json")
    assert said.status == 1
    assert told.replace("T-", f"{topic}-").replace("Topic T", f"Topic {topic}") in said.out[-1]
    assert said.out[-1].startswith("Error: ")


@pytest.mark.parametrize(
    ("text", "brokers", "told"),
    [
        ({"topics": [{"topic": "T"}, {"topic": "T"}]}, "0", "List of topics to reassign contains duplicate entries: T"),
        ({"topics": [{"topic": "no-such-topic"}]}, "0", "Topic no-such-topic not found."),
        ({"topics": [{}]}, "0", 'needs a text as "topic"'),
        ({}, "0", 'must have a list of objects as "topics"'),
        ({"topics": [{"topic": "T"}]}, "7", "none of the brokers 7 is there"),
        ({"topics": [{"topic": "T"}]}, "0,0", "Broker list contains duplicate entries: 0"),
    ],
)
def test_a_proposal_that_cannot_be_is_told(tool, topic, tmp_path, text: Any, brokers: str, told: str) -> None:
    (tmp_path / "topics.json").write_text(json.dumps(text).replace('"T"', f'"{topic}"'))
    said = tool(f"--generate --topics-to-move-json-file topics.json --broker-list {brokers}")
    assert said.status == 1
    assert said.out[-1].startswith("Error: ")
    assert told.removesuffix(" T") in said.out[-1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--execute --verify", "exactly one action is wanted"),
        ("--execute", "--execute needs --reassignment-json-file"),
        ("--generate --broker-list 0", "--generate needs --topics-to-move-json-file and --broker-list"),
        ("--generate --topics-to-move-json-file f --broker-list x", "--broker-list wants ids"),
        ("--list --throttle 5000", "--throttle cannot go with --list; it is for --execute"),
        ("--execute --reassignment-json-file f --throttle 5", "5 is not in the range x>=1024"),
        ("--verify --reassignment-json-file f --additional", "--additional cannot go with --verify"),
    ],
)
def test_what_is_asked_for_wrongly_gets_one_line(tool, words: str, told: str) -> None:
    said = tool(words)
    assert (said.status, said.out, len(said.err)) == (2, [], 1)
    assert told in said.err[0]
