"""AlterConfigs and IncrementalAlterConfigs: topics' settings change while the broker runs, and hold at once."""

from __future__ import annotations

from time import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from ottla.broker.retention import check_retention
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, build_batch
from support.wire import Wire

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def incremental(
    wire: Wire,
    *entries: tuple[int, str, str | None],
    topic: str = "t",
    type: int = TOPIC,
    validate_only: bool = False,
    version: int = 1,
) -> tuple[int, str | None]:
    configs = [
        messages.IncrementalAlterConfigsRequest.Config(name=name, config_operation=operation, value=value)
        for operation, name, value in entries
    ]
    resource = messages.IncrementalAlterConfigsRequest.Resource(
        resource_type=type, resource_name=topic, configs=configs
    )
    body = messages.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = wire.call(body, version).responses
    assert (answer.resource_type, answer.resource_name) == (type, topic)
    return answer.error_code, answer.error_message


def replace(wire: Wire, configs: dict[str, str | None], *, version: int = 2, **options: bool) -> int:
    entries = [messages.AlterConfigsRequest.Config(name=name, value=value) for name, value in configs.items()]
    resource = messages.AlterConfigsRequest.Resource(resource_type=TOPIC, resource_name="t", configs=entries)
    (answer,) = wire.call(messages.AlterConfigsRequest(resources=[resource], **options), version).responses
    return answer.error_code


def overrides(wire: Wire, topic: str = "t") -> dict[str, str]:
    """What DescribeConfigs shows as set on the topic itself."""
    asked = messages.DescribeConfigsRequest.Resource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
    (result,) = wire.call(messages.DescribeConfigsRequest(resources=[asked]), 4).results
    return {row.name: row.value for row in result.configs if row.config_source == 1}


def produce(wire: Wire, value: bytes = b"v", age_ms: int = 0) -> int:
    """The error."""
    batch = build_batch([Record(0, int(time() * 1000) - age_ms, None, value)])
    partition = messages.ProduceRequest.Partition(index=0, records=batch)
    topics = [messages.ProduceRequest.Topic(name="t", partition_data=[partition])]
    body = messages.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics)
    return int(wire.call(body, 9).responses[0].partition_responses[0].error_code)


# -- what is stored ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_settings_are_set_and_given_back_and_survive_a_restart(served, version):
    wire = served.wire()
    wire.create("t", configs={"segment.ms": "1000"})
    code, message = incremental(
        wire, (SET, "retention.ms", "5000"), (APPEND, "cleanup.policy", "compact"), version=version
    )
    assert (code, message) == (0, None)
    assert overrides(wire) == {
        "cleanup.policy": "delete,compact",
        "retention.ms": "5000",
        "segment.ms": "1000",
    }
    incremental(wire, (DELETE, "segment.ms", None), version=version)
    wire = served.restart().wire()
    assert overrides(wire) == {"cleanup.policy": "delete,compact", "retention.ms": "5000"}
    assert served.broker.partition("t", 0).log.config.retention_ms == 5000


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_older_request_replaces_all_settings(wire, version):
    wire.create("t", configs={"segment.ms": "1000"})
    assert replace(wire, {"retention.ms": "5000"}, version=version) == 0
    assert overrides(wire) == {"retention.ms": "5000"}
    assert replace(wire, {"retention.ms": None}, version=version) == ErrorCode.INVALID_REQUEST
    assert replace(wire, {"retention.ms": "x"}, version=version) == ErrorCode.INVALID_CONFIG
    assert overrides(wire) == {"retention.ms": "5000"}
    assert replace(wire, {}, version=version) == 0
    assert overrides(wire) == {}


def test_a_request_that_only_validates_changes_nothing(served, wire):
    wire.create("t")
    assert incremental(wire, (SET, "retention.ms", "5"), validate_only=True)[0] == 0
    assert incremental(wire, (SET, "retention.ms", "x"), validate_only=True)[0] == ErrorCode.INVALID_CONFIG
    assert replace(wire, {"retention.ms": "5"}, validate_only=True) == 0
    assert overrides(wire) == {}
    assert served.broker.partition("t", 0).config.retention_ms == 604_800_000


def test_an_illegal_value_is_refused_with_key_value_and_what_is_legal(wire):
    wire.create("t")
    code, message = incremental(wire, (SET, "segment.bytes", "13"))
    assert code == ErrorCode.INVALID_CONFIG
    assert all(word in message for word in ("segment.bytes", "13", "at least 14"))


@pytest.mark.parametrize("type", [BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, 0, 99])
def test_what_cannot_be_changed_says_so_and_does_not_spoil_the_rest(wire, type):
    wire.create("t")
    code, message = incremental(wire, (SET, "x", "1"), type=type, topic="0")
    refusal = ErrorCode.INVALID_REQUEST if type in (0, 99) else ErrorCode.INVALID_CONFIG
    assert (code, bool(message)) == (refusal, True)
    Resource = messages.IncrementalAlterConfigsRequest.Resource
    config = messages.IncrementalAlterConfigsRequest.Config(name="retention.ms", config_operation=SET, value="7")
    resources = [
        Resource(resource_type=TOPIC, resource_name="nope", configs=[config]),
        Resource(resource_type=type, resource_name="0", configs=[config]),
        Resource(resource_type=TOPIC, resource_name="t", configs=[config]),
    ]
    answers = wire.call(messages.IncrementalAlterConfigsRequest(resources=resources), 1).responses
    assert [(answer.resource_name, answer.error_code) for answer in answers] == [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("0", refusal),
        ("t", 0),
    ]
    assert overrides(wire) == {"retention.ms": "7"}


# -- what holds at once ------------------------------------------------------------------------------------------


def test_a_smaller_message_limit_holds_for_the_next_batch(wire):
    wire.create("t")
    assert produce(wire, b"x" * 500) == 0
    incremental(wire, (SET, "max.message.bytes", "400"))
    assert produce(wire, b"x" * 500) == ErrorCode.MESSAGE_TOO_LARGE
    incremental(wire, (DELETE, "max.message.bytes", None))
    assert produce(wire, b"x" * 500) == 0


def test_a_smaller_segment_begins_with_the_next_batch(served, wire):
    wire.create("t")
    for _ in range(3):
        produce(wire)
    incremental(wire, (SET, "segment.bytes", "100"))
    bases = served.broker.partition("t", 0).log.segment_base_offsets
    assert bases() == [0]
    produce(wire)
    produce(wire)
    assert bases() == [0, 3, 4]


def test_a_shorter_segment_age_counts_with_the_next_batch_and_a_large_jitter_does_no_harm(served, wire):
    wire.create("t", configs={"segment.jitter.ms": "500000000"})
    produce(wire, age_ms=10_000)
    produce(wire, age_ms=5_000)
    incremental(wire, (SET, "segment.ms", "7000"), (DELETE, "segment.jitter.ms", None))
    produce(wire)
    produce(wire)
    assert served.broker.partition("t", 0).log.segment_base_offsets() == [0, 2]


def test_a_shorter_retention_holds_at_the_next_check(served, wire):
    wire.create("t", configs={"segment.bytes": "100"})
    for _ in range(3):
        produce(wire, age_ms=60_000)
    served.run(check_retention(served.broker))
    assert served.broker.partition("t", 0).log_start_offset == 0
    incremental(wire, (SET, "retention.ms", "1000"))
    served.run(check_retention(served.broker))
    assert served.broker.partition("t", 0).log_start_offset == 3


def test_timestamps_are_judged_by_the_new_rules(wire):
    wire.create("t")
    assert produce(wire, age_ms=60_000) == 0
    incremental(wire, (SET, "message.timestamp.before.max.ms", "1000"))
    assert produce(wire, age_ms=60_000) == ErrorCode.INVALID_TIMESTAMP
    incremental(wire, (SET, "message.timestamp.type", "LogAppendTime"))
    assert produce(wire, age_ms=60_000) == 0


def test_flushing_can_be_asked_for_and_given_up_while_records_come(served, wire, until):
    wire.create("t")
    log = served.broker.partition("t", 0).log
    produce(wire)
    assert log.recovery_point == 0
    incremental(wire, (SET, "flush.messages", "1"))
    produce(wire)
    assert log.recovery_point == 2
    incremental(wire, (DELETE, "flush.messages", None))
    produce(wire)
    assert log.recovery_point == 2
    assert served.broker.partition("t", 0).high_watermark == 3
    incremental(wire, (SET, "flush.ms", "10"))
    until(lambda: log.recovery_point == 3)


# -- through a client --------------------------------------------------------------------------------------------


def test_confluents_admin_client_changes_topics(ottla_broker):
    admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap})
    admin.create_topics([NewTopic("t", 1)])["t"].result(10)

    def set_ones() -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, "t")
        rows = admin.describe_configs([resource])[resource].result(10)
        return {row.name: row.value for row in rows.values() if row.source == 1}

    def ask(*entries: tuple[str, str, AlterConfigOpType]) -> None:
        resource = ConfigResource(
            ResourceType.TOPIC,
            "t",
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=operation) for name, value, operation in entries
            ],
        )
        admin.incremental_alter_configs([resource])[resource].result(10)

    ask(("retention.ms", "5000", AlterConfigOpType.SET), ("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    assert set_ones() == {"retention.ms": "5000", "cleanup.policy": "delete,compact"}
    ask(("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT), ("retention.ms", "", AlterConfigOpType.DELETE))
    assert set_ones() == {"cleanup.policy": "compact"}
    with pytest.raises(KafkaException, match=r"retention\.ms"):
        ask(("retention.ms", "soon", AlterConfigOpType.SET))
    resource = ConfigResource(ResourceType.TOPIC, "t", set_config={"segment.ms": "1000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        future = admin.alter_configs([resource])[resource]
    future.result(10)
    ottla_broker.kill()
    ottla_broker.start()
    assert set_ones() == {"segment.ms": "1000"}
