"""confluent-kafka's AdminClient, with every administrative request that it can make."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import ElectionType, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record
from ottla.testing import BrokerProcess
from support.wire import TIMEOUT, Wire


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def topic(admin: AdminClient, new_name: Callable[[], str]) -> str:
    """A topic of two partitions."""
    name = new_name()
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(TIMEOUT)
    return name


@pytest.fixture
def filled(topic: str, wire: Wire) -> TopicPartition:
    """Partition 0 of a topic, with ten records, a second between each."""
    wire.produce(topic, [Record(at, 1_700_000_000_000 + 1000 * at, b"k", b"v") for at in range(10)])
    return TopicPartition(topic, 0)


def partitions(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions)


def setting(admin: AdminClient, type: ResourceType, name: str, key: str) -> ConfigEntry:
    resource = ConfigResource(type, name)
    return admin.describe_configs([resource], request_timeout=TIMEOUT)[resource].result(TIMEOUT)[key]


def change(
    admin: AdminClient, type: ResourceType, name: str, *changes: tuple[str, str | None, AlterConfigOpType]
) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=operation) for key, value, operation in changes]
    resource = ConfigResource(type, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT)


def code(failed: pytest.ExceptionInfo[KafkaException]) -> ErrorCode:
    return ErrorCode(failed.value.args[0].code())


def test_topics_are_placed_where_the_administrator_says(admin: AdminClient, new_name: Callable[[], str]) -> None:
    good, bad = new_name(), new_name()
    made = admin.create_topics(
        [NewTopic(good, 3, replica_assignment=[[0], [0], [0]]), NewTopic(bad, 1, replica_assignment=[[9]])]
    )
    made[good].result(TIMEOUT)
    assert partitions(admin, good) == 3
    with pytest.raises(KafkaException) as failed:
        made[bad].result(TIMEOUT)
    assert code(failed) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_partitions_are_added(admin: AdminClient, topic: str) -> None:
    admin.create_partitions([NewPartitions(topic, 5)], validate_only=True)[topic].result(TIMEOUT)
    assert partitions(admin, topic) == 2
    admin.create_partitions([NewPartitions(topic, 4, replica_assignment=[[0], [0]])])[topic].result(TIMEOUT)
    assert partitions(admin, topic) == 4
    with pytest.raises(KafkaException) as failed:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT)
    assert code(failed) is ErrorCode.INVALID_PARTITIONS


def test_records_are_deleted(admin: AdminClient, filled: TopicPartition) -> None:
    upto = TopicPartition(filled.topic, 0, 4)
    assert admin.delete_records([upto])[upto].result(TIMEOUT).low_watermark == 4
    beyond = TopicPartition(filled.topic, 0, 11)
    with pytest.raises(KafkaException) as failed:
        admin.delete_records([beyond])[beyond].result(TIMEOUT)
    assert code(failed) is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.max_timestamp(), 9),
        (OffsetSpec.for_timestamp(1_700_000_003_500), 4),
        (OffsetSpec.for_timestamp(1_800_000_000_000), -1),
    ],
    ids=["earliest", "latest", "max", "time", "future"],
)
@pytest.mark.parametrize("isolation", [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED])
def test_offsets_are_listed(
    admin: AdminClient, filled: TopicPartition, spec: OffsetSpec, offset: int, isolation: IsolationLevel
) -> None:
    listed = admin.list_offsets({filled: spec}, isolation_level=isolation)
    assert listed[filled].result(TIMEOUT).offset == offset


def test_settings_of_a_topic_are_changed_one_by_one(admin: AdminClient, topic: str) -> None:
    change(
        admin,
        ResourceType.TOPIC,
        topic,
        ("retention.ms", "1000", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
    )
    assert setting(admin, ResourceType.TOPIC, topic, "retention.ms").value == "1000"
    assert setting(admin, ResourceType.TOPIC, topic, "cleanup.policy").value == "delete,compact"
    change(
        admin,
        ResourceType.TOPIC,
        topic,
        ("retention.ms", None, AlterConfigOpType.DELETE),
        ("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT),
    )
    assert setting(admin, ResourceType.TOPIC, topic, "cleanup.policy").value == "compact"
    entry = setting(admin, ResourceType.TOPIC, topic, "retention.ms")
    assert (entry.value, ConfigSource(entry.source), entry.is_default) == (
        "604800000",
        ConfigSource.DEFAULT_CONFIG,
        True,
    )


def test_settings_of_a_topic_are_replaced_all_at_once(admin: AdminClient, topic: str) -> None:
    change(admin, ResourceType.TOPIC, topic, ("retention.ms", "1000", AlterConfigOpType.SET))
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"flush.ms": "5000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        admin.alter_configs([resource])[resource].result(TIMEOUT)
    assert setting(admin, ResourceType.TOPIC, topic, "flush.ms").value == "5000"
    assert setting(admin, ResourceType.TOPIC, topic, "retention.ms").is_default


def test_a_setting_is_described_with_its_synonyms(admin: AdminClient, topic: str) -> None:
    entry = setting(admin, ResourceType.TOPIC, topic, "segment.bytes")
    assert not entry.is_read_only
    assert not entry.is_sensitive
    assert list(entry.synonyms) == ["log.segment.bytes"]


def test_settings_of_a_broker_are_changed_while_it_runs(admin: AdminClient) -> None:
    change(admin, ResourceType.BROKER, "0", ("log.cleaner.threads", "3", AlterConfigOpType.SET))
    entry = setting(admin, ResourceType.BROKER, "0", "log.cleaner.threads")
    assert (entry.value, ConfigSource(entry.source)) == ("3", ConfigSource.DYNAMIC_BROKER_CONFIG)
    change(admin, ResourceType.BROKER, "0", ("log.cleaner.threads", None, AlterConfigOpType.DELETE))
    assert setting(admin, ResourceType.BROKER, "0", "log.cleaner.threads").value == "1"


@pytest.mark.parametrize(
    ("type", "name", "key", "value", "expected"),
    [
        (ResourceType.TOPIC, None, "retention.ms", "soon", ErrorCode.INVALID_CONFIG),
        (ResourceType.TOPIC, None, "no.such.key", "1", ErrorCode.INVALID_CONFIG),
        (ResourceType.TOPIC, "nowhere", "retention.ms", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.BROKER, "0", "log.dirs", "elsewhere", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_set_is_refused(
    admin: AdminClient, topic: str, type: ResourceType, name: str | None, key: str, value: str, expected: ErrorCode
) -> None:
    with pytest.raises(KafkaException) as failed:
        change(admin, type, topic if name is None else name, (key, value, AlterConfigOpType.SET))
    assert code(failed) is expected


def test_leaders_that_are_there_need_no_election(admin: AdminClient, topic: str) -> None:
    asked = [TopicPartition(topic, 0), TopicPartition(topic, 7)]
    answer = admin.elect_leaders(ElectionType.PREFERRED, asked).result(TIMEOUT)
    codes = {partition.partition: ErrorCode(error.code()) for partition, error in answer.items()}
    assert codes == {0: ErrorCode.ELECTION_NOT_NEEDED, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
