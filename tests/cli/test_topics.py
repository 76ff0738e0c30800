import re
import subprocess
import sys
from collections.abc import Callable
from resource import RUSAGE_CHILDREN, getrusage
from uuid import uuid4

import pytest

from ottla.testing import BrokerProcess
from support.tools import Tool


@pytest.fixture
def topics(ottla_shared_broker) -> Tool:
    return Tool("kafka-topics.sh", ottla_shared_broker.bootstrap)


@pytest.fixture
def ours(ottla_shared_broker) -> Tool:
    return Tool("ottla topics", ottla_shared_broker.bootstrap)


@pytest.fixture
def name() -> str:
    return f"topics-{uuid4().hex[:8]}"


def test_a_topic_is_created_described_altered_and_deleted(topics, name) -> None:
    assert topics.works(f"--create --topic {name} --partitions 2 --config retention.ms=5000") == [
        f"Created topic {name}."
    ]
    assert name in topics.works("--list")
    first, *rows = topics.works(f"--describe --topic {name}")
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=5000",
        first,
    )
    assert rows == [
        f"\tTopic: {name}\tPartition: {index}\tLeader: 0\tReplicas: 0\tIsr: 0\tElr: \tLastKnownElr: "
        for index in range(2)
    ]
    assert topics.works(f"--alter --topic {name} --partitions 4") == []
    assert len(topics.works(f"--describe --topic {name} --partition-size-limit-per-response 1")) == 5
    assert topics.works(f"--delete --topic {name}") == []
    assert name not in topics.works("--list")


def test_a_topic_is_found_by_its_id(topics, name) -> None:
    topics.works(f"--create --topic {name}")
    found = re.search(r"TopicId: (\S+)", topics.works(f"--describe --topic {name}")[0])
    assert found
    assert topics.works(f"--describe --topic-id {found[1]}")[0].startswith(f"Topic: {name}\t")
    nobody = "AAAAAAAAAAAAAAAAAAAAAQ"
    assert topics(f"--describe --topic-id {nobody}").out == [
        f"Error while executing topic command : TopicId '{nobody}' does not exist as expected"
    ]
    assert topics.works(f"--describe --topic-id {nobody} --if-exists") == []


def test_patterns_name_several_topics(topics, ours, name) -> None:
    for end in "abc":
        topics.works(f"--create --topic {name}-{end}")
    assert topics.works(f"--list --topic '{name}-[ab]'") == [f"{name}-a", f"{name}-b"]
    assert topics.works(f"--list --topic '{name}-a,{name}-c'") == [f"{name}-a", f"{name}-c"]
    refused = ours(f"--delete --topic '{name}-[ab]'")
    assert refused.status == 1
    assert refused.err == [
        f"ottla: Delete 2 topics: {name}-a, {name}-b, with all records: say --yes to do it without being asked"
    ]
    assert ours(f"--delete --topic '{name}-[ab]' --yes").status == 0
    assert topics.works(f"--list --topic '{name}-.*'") == [f"{name}-c"]


def test_only_changed_topics_and_partitions_in_need_are_described(topics, name) -> None:
    topics.works(f"--create --topic {name}-plain")
    topics.works(f"--create --topic {name}-own --config segment.ms=100000")
    (line,) = topics.works(f"--describe --topics-with-overrides --topic '{name}.*'")
    assert line.startswith(f"Topic: {name}-own\t")
    for quiet in ("--under-replicated", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert topics.works(f"--describe {quiet} --topic '{name}.*'") == []
    topics.works(f"--create --topic {name}-strict --config min.insync.replicas=2")
    (line,) = topics.works(f"--describe --under-min-isr --topic '{name}.*'")
    assert line.startswith(f"\tTopic: {name}-strict\tPartition: 0\t")
    assert len(topics.works(f"--describe --at-min-isr-partitions --topic '{name}.*'")) == 2


def test_results_are_json_for_programs(ours, name) -> None:
    ours.works(f"--create --topic {name} --partitions 2 --config cleanup.policy=compact")
    listed = ours(f"--topic {name} --output json").json
    assert listed == [{"topic": name, "partitions": 2, "replication_factor": 1, "internal": False}]
    rows = ours(f"--describe --topic {name} --output json").json
    assert [(row["partition"], row["leader"], row["isr"]) for row in rows] == [(0, 0, [0]), (1, 0, [0])]
    assert rows[0]["configs"] == {"cleanup.policy": "compact"}
    (row,) = ours(f"--describe --topics-with-overrides --topic {name} --output json").json
    assert (row["partitions"], row["configs"]) == (2, {"cleanup.policy": "compact"})


def test_replicas_are_placed_by_hand_or_without_racks(topics, name) -> None:
    topics.works(f"--create --topic {name} --replica-assignment 0,0,0")
    assert len(topics.works(f"--describe --topic {name}")) == 4
    topics.works(f"--alter --topic {name} --partitions 5 --replica-assignment 0,0,0,0,0")
    assert len(topics.works(f"--describe --topic {name}")) == 6
    topics.works(f"--create --topic {name}-2 --partitions 2 --replication-factor 1 --disable-rack-aware")
    assert len(topics.works(f"--describe --topic {name}-2")) == 3


ERROR = "Error while executing topic command : "


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--create --topic {here}", "Topic '{here}' already exists."),
        ("--create --topic {no} --replication-factor 2", "2 replicas need 2 brokers, and there are 1"),
        (
            "--create --topic {no} --replication-factor 0",
            "The replication factor must be between 1 and 32767 inclusive",
        ),
        ("--create --topic {no} --partitions 0", "The partitions must be greater than 0"),
        ("--create --topic {no} --config a=b", "unknown key a"),
        (
            "--create --topic {no} --replica-assignment 0:0",
            "Partition replica lists may not contain duplicate entries: 0",
        ),
        ("--create --topic {no} --replica-assignment 0,0:1", "Partition 1 has different replication factor: [0, 1]"),
        ("--create --topic {no} --replica-assignment 7", "partition 0 is assigned to broker 7, which is not there"),
        ("--create --topic {no} --partitions 1 --replication-factor 2 --disable-rack", "2 replicas need 2 brokers"),
        ("--create --topic {no}/x", "the topic name '{no}/x' has characters other than"),
        ("--alter --topic {here} --partitions 1", "Topic already has 1 partition(s)."),
        ("--alter --topic {here} --partitions 0", "Invalid NewPartitions"),
        ("--create --topic {no} --partitions 100001", "Invalid NewTopic"),
        ("--create --topic ''", ""),
        ("--alter --topic {no} --partitions 2", "Topic '{no}' does not exist as expected"),
        ("--delete --topic {no}", "Topic '{no}' does not exist as expected"),
        ("--describe --topic {no}", "Topic '{no}' does not exist as expected"),
    ],
)
def test_what_cannot_be_done_is_told_as_kafka_tells_it(topics, ours, name, words: str, told: str) -> None:
    topics.works(f"--create --topic {name}")
    before = topics.works("--describe")
    words, told = (text.format(no=f"{name}-no", here=name) for text in (words, told))
    said = topics(words)
    assert said.status == 1
    assert said.out[-1].startswith(ERROR + told)
    said = ours(words + " --yes")
    assert said.status == 1
    assert said.err[-1].startswith("ottla: " + told)
    assert topics.works("--describe") == before


@pytest.mark.parametrize("words", ["--alter --topic N --partitions 2", "--delete --topic N", "--describe --topic N"])
def test_with_if_exists_a_missing_topic_is_no_error(topics, name, words: str) -> None:
    assert topics.works(words.replace("N", name) + " --if-exists") == []
    topics.works(f"--create --topic {name}")
    assert topics.works(f"--create --topic {name} --if-not-exists") == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--create --list --topic t", "exactly one action is wanted"),
        ("--create", "--create needs --topic"),
        ("--delete", "--delete needs --topic"),
        ("--alter --topic t", "--alter needs --partitions"),
        ("--alter --topic t --partitions 3 --config a=b", "--config is for --create"),
        ("--list --config a=b", "--config cannot go with --list; it is for --create"),
        ("--describe --partitions 3", "--partitions cannot go with --describe; it is for --create and --alter"),
        ("--create --topic t --partitions x", "'x' is not a valid integer"),
        ("--create --topic t --config a", "--config 'a' must be KEY=VALUE"),
        ("--create --topic t --replica-assignment a", "--replica-assignment 'a' must be like 0:1,1:2"),
        ("--create --topic t --partitions 1 --replica-assignment 0", "--replica-assignment cannot go with"),
        ("--create --topic t --disable-rack-aware", "--disable-rack-aware needs --partitions"),
        ("--list --if-exists", "--if-exists cannot go with --list"),
        ("--list --topics-with-overrides", "--topics-with-overrides cannot go with --list"),
        ("--describe --topics-with-overrides --under-replicated", "--topics-with-overrides cannot go with a report"),
        ("--describe --partition-size-limit-per-response 0", "0 is not in the range"),
        ("--list --partition-size-limit-per-response 9", "--partition-size-limit-per-response cannot go with --list"),
        ("--list --partitions 0", "--partitions cannot go with --list"),
        ("--create --topic t --output json", "--output cannot go with --create"),
    ],
)
def test_what_is_asked_for_wrongly_gets_one_line_and_status_2(topics, words: str, told: str) -> None:
    said = topics(words)
    assert (said.status, said.out) == (2, [])
    assert len(said.err) == 1
    assert told in said.err[0]


def test_a_bad_pattern_is_told(topics) -> None:
    said = topics("--list --topic '['")
    assert said.status == 1
    assert said.err[0].startswith("kafka-topics.sh: [ is an invalid regex")


def test_where_topics_may_not_be_deleted_none_is(
    ottla_broker_factory: Callable[..., BrokerProcess],
) -> None:
    broker = ottla_broker_factory(overrides={"delete.topic.enable": "false"})
    topics = Tool("kafka-topics", broker.bootstrap)
    topics.works("--create --topic t")
    said = topics("--delete --topic t")
    assert said.status == 1
    assert said.out[0].startswith(ERROR)
    assert topics.works("--list") == ["t"]


def test_a_tool_starts_quickly_and_without_the_services(ottla_shared_broker) -> None:
    code = (
        "import sys; from ottla.cli.main import run; "
        f"run(['topics', '--bootstrap-server', '{ottla_shared_broker.bootstrap}']); "
        "print('pyspark' in sys.modules, 'rich' in sys.modules, file=sys.stderr)"
    )
    best = 9.0
    for _ in range(3):
        before = getrusage(RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        after = getrusage(RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.stderr == "False False\n"
    assert best < 0.8  # seconds of the processor; 0.2 where nothing measures coverage
