"""What groups write into __consumer_offsets, read by Apache Kafka's own tool."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from support.apache_kafka import dump_log_segments, reason_to_skip
from support.group_wire import GroupMember, commit, find_coordinator
from support.wire import Wire

SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


def test_kafka_decodes_the_offsets_and_groups_that_ottla_writes(tmp_path: Path) -> None:
    reason = reason_to_skip()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
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


def decoded(line: str) -> tuple[dict, dict]:
    """Key and value of a record, which the tool shows as JSON."""
    key, _, value = line.partition(" key: ")[2].partition(" payload: ")
    return json.loads(key), json.loads(value)
