"""What groups write into __consumer_offsets, read by Apache Kafka's own tool."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from support.apache_kafka import dump_log_segments, reason_to_skip
from support.consumer_wire import ConsumerMember
from support.group_wire import GroupMember, commit, find_coordinator
from support.wire import Wire

SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(autouse=True)
def _needs_kafka() -> None:
    reason = reason_to_skip()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def test_kafka_decodes_the_offsets_and_groups_that_ottla_writes(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        wire = Wire("127.0.0.1", broker.port)
        find_coordinator(wire, "readers")
        wire.create("orders")
        commit(wire, "readers", {("orders", 0): (42, 3, "a text")})
        commit(wire, "readers", {("orders", 0): (43, -1, "")}, 2, retention_time_ms=3_600_000)
        member = GroupMember(wire, "workers", "orders", instance="one")
        member.join()
        assignment = b"\0\0\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
        member.sync({member.id: assignment})
        member.leave()
        wire.close()
    segment = tmp_path / "data/__consumer_offsets-0/00000000000000000000.log"
    printed, complaints = dump_log_segments([segment], "--offsets-decoder", directory=tmp_path)
    assert complaints == ""
    records = [decoded(line) for line in printed.splitlines() if " payload: " in line]
    key = {"type": "1", "data": {"group": "readers", "topic": "orders", "partition": 0}}
    first, second, stable, empty = records
    assert first[0] == second[0] == key
    assert first[1]["version"] == "3"
    assert {**first[1]["data"], "commitTimestamp": 0} == {
        "offset": 42,
        "leaderEpoch": 3,
        "metadata": "a text",
        "commitTimestamp": 0,
    }
    assert (second[1]["version"], second[1]["data"]["offset"]) == ("1", 43)
    assert second[1]["data"]["expireTimestamp"] - second[1]["data"]["commitTimestamp"] == 3_600_000
    assert stable[0] == empty[0] == {"type": "2", "data": {"group": "workers"}}
    group = stable[1]["data"]
    assert (group["protocolType"], group["generation"], group["protocol"], group["leader"]) == (
        "consumer",
        1,
        "range",
        member.id,
    )
    (told,) = group["members"]
    assert (told["memberId"], told["groupInstanceId"], told["clientHost"]) == (member.id, "one", "/127.0.0.1")
    assert (told["sessionTimeout"], told["rebalanceTimeout"]) == (10_000, 20_000)
    assert told["subscription"] == {"topics": ["orders"], "userData": None, "ownedPartitions": []}
    assert told["assignment"]["assignedPartitions"] == [{"topic": "orders", "partitions": [0]}]
    assert (empty[1]["data"]["generation"], empty[1]["data"]["members"]) == (2, [])


def test_kafka_decodes_the_consumer_groups_that_ottla_writes(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        wire = Wire("127.0.0.1", broker.port)
        find_coordinator(wire, "g")
        wire.create("orders", 2)
        one = ConsumerMember(wire, "g", "orders", id="m-1", instance_id="i", rack_id="r")
        one.join(subscribed_topic_regex="ord.*")
        one.send(member_epoch=-1)
        wire.close()
    segment = tmp_path / "data/__consumer_offsets-0/00000000000000000000.log"
    printed, complaints = dump_log_segments([segment], "--offsets-decoder", directory=tmp_path)
    assert complaints == ""
    records = [decoded(line) for line in printed.splitlines() if " payload: " in line]
    values = {int(key["type"]): value["data"] for key, value in records if value is not None and key["type"] != "3"}
    assert sorted(values) == [5, 6, 7, 8, 16]
    assert {key: values[5][key] for key in ("instanceId", "rackId", "subscribedTopicNames", "rebalanceTimeoutMs")} == {
        "instanceId": "i",
        "rackId": "r",
        "subscribedTopicNames": ["orders"],
        "rebalanceTimeoutMs": 60_000,
    }
    (target,), (has,) = values[7]["topicPartitions"], values[8]["assignedPartitions"]
    assert (target["topicId"], target["partitions"]) == (has["topicId"], has["partitions"])
    assert sorted(has["partitions"]) == [0, 1]
    assert values[16]["topics"] == ["orders"]
    epochs = [value["data"]["epoch"] for key, value in records if key["type"] == "3"]
    assert epochs == [1, 2]
    gone = [key["type"] for key, value in records if value is None]
    assert sorted(gone) == ["16", "5", "7", "8"]


def decoded(line: str) -> tuple[dict, dict | None]:
    """Key and value of a record, which the tool shows as JSON; None for one that takes something away."""
    key, _, value = line.partition(" key: ")[2].partition(" payload: ")
    return json.loads(key), json.loads(value) if value != "<DELETE>" else None
