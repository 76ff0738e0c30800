"""Kafka's own AdminClient (Java, 4.3) gets from ottla what it gets from Kafka, request by request.

The expected results are those that the same program gets from Apache Kafka 4.3.1, except for words of messages and
documentation.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.admin_scenario import Scenario
from support.prometheus import Page


def entry(value: str | None, source: str, type: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"value": value, "source": source, "type": type, "readOnly": read_only, "sensitive": False}


RESULTS = {
    "createTopics defaults": 1,
    "createTopics validateOnly": False,  # whether the topic is there
    "createTopics placement": 2,
    "createTopics mixed": {
        "bad name!": "InvalidTopicException",
        "bad-config": "InvalidConfigurationException",
        "mixed-good": "ok",
        "no-partitions": "InvalidPartitionsException",
        "scenario": "TopicExistsException",
        "too-many-replicas": "InvalidReplicationFactorException",
        "unknown-broker": "InvalidReplicaAssignmentException",
    },
    "describeTopics": {"internal": False, "isr": 1, "leader": 0, "sameId": True},
    "createPartitions validateOnly": 3,
    "createPartitions": 4,
    "createPartitions mixed": {
        "nowhere": "UnknownTopicOrPartitionException",
        "placed": "ok",
        "scenario": "InvalidPartitionsException",
    },
    "describeProducers": {"timestamp": 1_700_000_000_009, "epoch": 0, "sequence": 9, "inTransaction": False},
    "listOffsets earliest": {"offset": 0, "timestamp": -1},
    "listOffsets latest": {"offset": 10, "timestamp": -1},
    "listOffsets maxTimestamp": {"offset": 9, "timestamp": 1_700_000_000_009},
    "listOffsets forTimestamp": {"offset": 4, "timestamp": 1_700_000_000_004},
    "listOffsets earliestLocal": {"offset": 0, "timestamp": -1},
    "listOffsets latestTiered": {"offset": -1, "timestamp": -1},
    "deleteRecords": {"low": 4, "earliest": 4},
    "alterConfigs topic": {
        "set": entry("2000000", "DYNAMIC_TOPIC_CONFIG", "INT"),
        "deleted": entry("1048588", "DEFAULT_CONFIG", "INT"),
    },
    "alterConfigs topic list": ["delete,compact", "compact", "delete"],
    "alterConfigs topic validateOnly": "9000000000000",
    "alterConfigs broker": {
        "set": entry("2", "DYNAMIC_BROKER_CONFIG", "INT"),
        "deleted": entry("1", "DEFAULT_CONFIG", "INT"),
    },
    "alterConfigs logger": {
        "set": entry("DEBUG", "DYNAMIC_BROKER_LOGGER_CONFIG", "UNKNOWN"),
        "deleted": entry("INFO", "DYNAMIC_BROKER_LOGGER_CONFIG", "UNKNOWN"),
    },
    "alterConfigs client metrics": entry("100", "DYNAMIC_CLIENT_METRICS_CONFIG", "INT"),
    "alterConfigs group": {
        "set": entry("50000", "DYNAMIC_GROUP_CONFIG", "INT"),
        "deleted": entry("45000", "DEFAULT_CONFIG", "INT"),
    },
    "alterConfigs mixed": {
        "ConfigResource(type=TOPIC, name='placed')": "ok",
        "ConfigResource(type=TOPIC, name='scenario')": "InvalidConfigurationException",
    },
    "listConfigResources": [
        "BROKER 0",
        "CLIENT_METRICS java-subscription",
        "TOPIC mixed-good",
        "TOPIC of-defaults",
        "TOPIC placed",
        "TOPIC scenario",
    ],
    "listConfigResources all": True,
    "describeLogDirs": {"directories": 2, "replicas": 4, "sized": True},
    "describeReplicaLogDirs": {"known": True, "moving": False},
    "alterReplicaLogDirs": {"moved": True, "latest": {"offset": 10, "timestamp": -1}},
    "electLeaders": 0,
    "electLeaders not needed": "ElectionNotNeededException",
    "electLeaders unclean not needed": "ElectionNotNeededException",
    "electLeaders unknown": "UnknownTopicOrPartitionException",
    "reassign to itself": 0,
    "listPartitionReassignments": 0,
    "describeCluster": {"nodes": 1, "controller": True, "idLength": 22},
    "deleteTopics": 0,
}

ERRORS = {
    "describeTopics unknown": ("UnknownTopicOrPartitionException", ""),
    "deleteRecords beyond": ("OffsetOutOfRangeException", ""),
    "describeConfigs unknown topic": ("UnknownTopicOrPartitionException", ""),
    "alterConfigs topic bad": ("InvalidConfigurationException", "retention.ms"),
    "alterConfigs broker read-only": ("InvalidRequestException", "log.dirs"),
    "alterConfigs logger bad": ("InvalidConfigurationException", "LOUD"),
    "alterReplicaLogDirs unknown directory": ("LogDirNotFoundException", ""),
    "reassign to an unknown broker": ("InvalidReplicaAssignmentException", "77"),
    "reassign to nobody": ("IllegalArgumentException", ""),  # the client's own word
    "reassign twice to one": ("InvalidReplicaAssignmentException", ""),
    "cancel no reassignment": ("NoReassignmentInProgressException", ""),
    "reassign an unknown partition": ("UnknownTopicOrPartitionException", ""),
    "updateFeatures too high": ("InvalidUpdateVersionException", "Invalid update version 9 for feature group.version"),
    "updateFeatures unknown": ("InvalidUpdateVersionException", "Invalid update version 1 for feature no.such"),
    "deleteTopics unknown": ("UnknownTopicOrPartitionException", ""),
}

ON_THEIR_OWN = {
    "createTopics",
    "describeConfigs topic",
    "describeConfigs topic default",
    "describeConfigs broker",
    "alterConfigs cluster default",
    "describeFeatures",
    "updateFeatures validateOnly",
    "updateFeatures",
    "clientInstanceId",
    "producer clientInstanceId",
    "consumer clientInstanceId",
}


def result(scenario: Scenario, call: str) -> Any:
    assert "result" in scenario.calls[call], scenario.calls[call]
    return scenario.calls[call]["result"]


@pytest.mark.parametrize("call", RESULTS)
def test_a_call_gets_what_kafka_gives(scenario: Scenario, call: str) -> None:
    assert result(scenario, call) == RESULTS[call]


@pytest.mark.parametrize("call", ERRORS)
def test_a_call_fails_as_it_does_with_kafka(scenario: Scenario, call: str) -> None:
    error, words = ERRORS[call]
    assert scenario.calls[call].get("error") == error, scenario.calls[call]
    assert words in scenario.calls[call]["message"]
    assert scenario.calls[call]["message"]


def test_every_call_is_judged(scenario: Scenario) -> None:
    assert scenario.calls.keys() == RESULTS.keys() | ERRORS.keys() | ON_THEIR_OWN


def test_a_topic_is_created_with_its_settings(scenario: Scenario) -> None:
    made = result(scenario, "createTopics")
    assert (made["partitions"], made["factor"], made["retention"]) == (3, 1, "9000000000000")
    assert len(made["id"]) == 22


def test_settings_are_described_with_synonyms_and_documentation(scenario: Scenario) -> None:
    own = result(scenario, "describeConfigs topic")
    assert (own["value"], own["source"], own["type"]) == ("9000000000000", "DYNAMIC_TOPIC_CONFIG", "LONG")
    assert own["synonyms"][0] == "retention.ms=9000000000000 DYNAMIC_TOPIC_CONFIG"
    assert own["documentation"]
    default = result(scenario, "describeConfigs topic default")
    assert default["synonyms"] == ["log.segment.bytes=1073741824 DEFAULT_CONFIG"]
    broker = result(scenario, "describeConfigs broker")
    assert (broker["value"], broker["readOnly"], broker["type"]) == ("1", True, "INT")
    assert broker["synonyms"] == ["num.partitions=1 DEFAULT_CONFIG"]
    assert broker["documentation"]


def test_a_default_for_all_brokers_holds_for_each_broker_and_its_topics(scenario: Scenario) -> None:
    seen = result(scenario, "alterConfigs cluster default")
    of_all = entry("7200000", "DYNAMIC_DEFAULT_BROKER_CONFIG", "LONG")
    assert seen["ofAll"] == seen["ofBroker"] == of_all
    assert seen["ofTopic"]["value"] == "7200000"
    assert seen["ofTopic"]["synonyms"][0] == "log.retention.ms=7200000 DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert seen["afterwards"] == "DEFAULT_CONFIG"


def test_features_are_described_and_changed_as_far_as_they_are_supported(scenario: Scenario) -> None:
    features = result(scenario, "describeFeatures")
    changes = [scenario.calls[call] for call in ("updateFeatures validateOnly", "updateFeatures")]
    if "group.version" in features:
        lowest, highest, holds = features["group.version"]
        assert 0 == lowest < highest == holds
        assert [change["result"] for change in changes] == [[0, highest, holds], [0, highest, 0]]
    else:
        assert {change["error"] for change in changes} == {"InvalidUpdateVersionException"}


@pytest.mark.parametrize("call", ["clientInstanceId", "producer clientInstanceId"])
def test_clients_learn_their_instance_id(scenario: Scenario, call: str) -> None:
    assert re.fullmatch(r"[\w-]{22}", result(scenario, call))


def test_metrics_of_java_clients_reach_prometheus(scenario: Scenario) -> None:
    page = Page(scenario.metrics)
    (sent,) = page.of("org_apache_kafka_producer_record_send_total", client_id="java-metrics")
    assert sent.value == 5
    assert sent.labels == {
        "client_id": "java-metrics",
        "client_instance_id": result(scenario, "producer clientInstanceId"),
        "client_software_name": "apache-kafka-java",
        "client_software_version": "4.3.1",
    }
    read, consumer_id = result(scenario, "consumer clientInstanceId")
    assert read == 5
    consumed = "org_apache_kafka_consumer_fetch_manager_records_consumed_total"
    by_topic, in_all = sorted(
        page.of(consumed, client_instance_id=consumer_id), key=lambda one: "topic" not in one.labels
    )
    assert (by_topic.value, by_topic.labels["topic"], in_all.value) == (5, "placed", 5)
    assert not page.of(consumed, client_id="java-admin")
    assert page.value("ottla_client_metrics_dropped_total") == 0
    assert page.value("ottla_client_metrics_refused_total") == 0


def test_the_broker_has_nothing_to_complain_about(scenario: Scenario) -> None:
    assert "Traceback" not in scenario.log
    assert "bug" not in scenario.log
