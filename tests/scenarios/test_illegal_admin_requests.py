"""Each administrative request that asks for what cannot be gets its error, and the broker is as it was before.

The table is support/illegal_requests.py; tests/apache_kafka/test_illegal_requests.py holds it against Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol import messages as m
from ottla.protocol.records import Record
from ottla.testing import BrokerProcess
from support.illegal_requests import GROUP, LOGGER, METRICS, NODE, ROWS, TOPIC, TOPICS, Row, directory, faults, prepare
from support.wire import Wire

BROKER = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data: Path = tmp_path_factory.mktemp("data")
    with BrokerProcess(f"{data / 'one'},{data / 'two'}", {"node.id": str(NODE)}) as broker:
        wire = Wire("127.0.0.1", broker.port)
        prepare(wire)
        wire.close()
        yield broker


@pytest.fixture(scope="module")
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    wire = Wire("127.0.0.1", broker.port)
    yield wire
    wire.close()


def name_of(row: Row) -> str:
    made = type(row.on("/data")).__name__.removesuffix("Request")
    return f"{made}-{row.code.name}"


def check(wire: Wire, row: Row, where: str) -> None:
    found = faults(wire.call(row.on(where), row.version))
    assert {code for code, _ in found} == {row.code}, found
    messages = [message for _, message in found if message is not None]
    assert all(messages), "an error with an empty message"
    assert not messages or any(row.words in message for message in messages), messages


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_what_cannot_be_gets_its_error(wire: Wire, row: Row) -> None:
    check(wire, row, directory(wire))


def test_the_table_covers_every_administrative_request() -> None:
    covered = {type(row.on("/data")).__name__.removesuffix("Request") for row in ROWS}
    without_illegal_input = {"DescribeLogDirs", "ListPartitionReassignments"}
    assert covered | without_illegal_input == {
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterReplicaLogDirs",
        "CreatePartitions",
        "CreateTopics",
        "DeleteRecords",
        "DeleteTopics",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeTopicPartitions",
        "ElectLeaders",
        "GetTelemetrySubscriptions",
        "IncrementalAlterConfigs",
        "ListConfigResources",
        "ListOffsets",
        "ListPartitionReassignments",
        "PushTelemetry",
        "UpdateFeatures",
    }
    assert len(ROWS) >= 60


def test_what_is_not_there_is_left_out_where_a_reply_has_no_place_for_an_error(wire: Wire) -> None:
    unknown = m.DescribeLogDirsRequest.Topic(topic="nowhere", partitions=[0, -1])
    for answer in wire.call(m.DescribeLogDirsRequest(topics=[unknown]), 5).results:
        assert (answer.error_code, answer.topics) == (0, [])
    asked = m.ListPartitionReassignmentsRequest.Topic(name="nowhere", partition_indexes=[0])
    reply = wire.call(m.ListPartitionReassignmentsRequest(topics=[asked], timeout_ms=30_000), 0)
    assert (reply.error_code, reply.topics) == (0, [])


def test_the_whole_table_changes_nothing(broker: BrokerProcess) -> None:
    wire = Wire("127.0.0.1", broker.port)
    before = everything(wire)
    where = directory(wire)
    for row in ROWS:
        check(wire, row, where)
    assert everything(wire) == before
    assert wire.produce("there", [Record(0, 1_700_000_000_000, b"k", b"v")], partition=1) >= 0
    assert "bug" not in broker.stderr
    assert "Traceback" not in broker.stderr
    wire.close()


def everything(wire: Wire) -> list[Any]:
    """All that the broker tells of itself."""
    named = [(TOPIC, name) for name in TOPICS] + [(BROKER, str(NODE)), (BROKER, ""), (LOGGER, str(NODE))]
    resources = [
        m.DescribeConfigsRequest.Resource(resource_type=type, resource_name=name, configuration_keys=None)
        for type, name in [*named, (METRICS, "s"), (GROUP, "g")]
    ]
    dirs = wire.call(m.DescribeLogDirsRequest(topics=None), 5).results
    return [
        wire.call(m.MetadataRequest(topics=None), 12),
        wire.call(m.DescribeConfigsRequest(resources=resources, include_synonyms=True), 4),
        wire.call(m.ListConfigResourcesRequest(resource_types=[]), 1),
        [(one.log_dir, [(topic.name, topic.partitions) for topic in one.topics]) for one in dirs],
        wire.call(m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=30_000), 0),
        wire.call(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4),
    ]
