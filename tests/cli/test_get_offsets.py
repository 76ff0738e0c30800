from uuid import uuid4

import pytest

from ottla.cli.common.requests import Connection
from support.requests import batch, produce_request
from support.tools import Tool


@pytest.fixture
def offsets(ottla_shared_broker) -> Tool:
    return Tool("kafka-get-offsets.sh", ottla_shared_broker.bootstrap)


@pytest.fixture
def topic(ottla_shared_broker) -> str:
    """Three partitions; three records in the first, at 1000 ms, two in the second, at 2000 ms."""
    name = f"offsets-{uuid4().hex[:8]}"
    Tool("kafka-topics", ottla_shared_broker.bootstrap).works(f"--create --topic {name} --partitions 3")
    connection = Connection("127.0.0.1", ottla_shared_broker.port)
    first, second = batch("a", "b", "c", timestamp=1000), batch("d", "e", timestamp=2000)
    connection.call(produce_request((name, 0, first), (name, 1, second)), 9)
    connection.close()
    return name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--topic T", ["T:0:3", "T:1:2", "T:2:0"]),
        ("--topic T --time -1", ["T:0:3", "T:1:2", "T:2:0"]),
        ("--topic T --time earliest", ["T:0:0", "T:1:0", "T:2:0"]),
        ("--topic T --time max-timestamp", ["T:0:0", "T:1:0"]),
        ("--topic T --time 1500", ["T:1:0"]),
        ("--topic T --time 9999", []),
        ("--topic T --partitions 0,2", ["T:0:3", "T:2:0"]),
        ("--topic-partitions T:1", ["T:1:2"]),
        ("--topic-partitions T:0-1,T:2-", ["T:0:3", "T:2:0"]),
        ("--topic-partitions T:-2", ["T:0:3", "T:1:2"]),
        ("--topic 'T|nobody'", ["T:0:3", "T:1:2", "T:2:0"]),
    ],
)
def test_offsets_are_shown_as_asked_for(offsets, topic, words: str, expected: list[str]) -> None:
    assert offsets.works(words.replace("T", topic)) == [line.replace("T", topic) for line in expected]


def test_offsets_are_json_for_programs(ottla_shared_broker, topic) -> None:
    ours = Tool("ottla get-offsets", ottla_shared_broker.bootstrap)
    rows = ours(f"--topic {topic} --partitions 1 --output json").json
    assert rows == [{"topic": topic, "partition": 1, "offset": 2}]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("--topic nobody", 1, "Could not match any topic-partitions with the specified filters"),
        ("--topic-partitions T --topic T", 2, "--topic-partitions cannot be used with --topic or --partitions"),
        ("--topic-partitions a:b", 2, "Invalid rule specification: a:b"),
        ("--topic T --time yesterday", 2, "Malformed time argument yesterday. Please use -1 or latest"),
        ("--topic T --partitions x", 2, "--partitions wants numbers"),
        ("--topic [", 1, "[ is an invalid regex"),
    ],
)
def test_bad_input_gets_one_line(offsets, words: str, status: int, told: str) -> None:
    said = offsets(words)
    assert (said.status, said.out, len(said.err)) == (status, [], 1)
    assert told in said.err[0]
