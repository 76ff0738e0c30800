"""The admin clients of confluent-kafka, kafka-python, kafkajs and kcat, with the requests that there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonNewTopic
from kafka.errors import TopicAlreadyExistsError

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record
from ottla.testing import BrokerProcess
from support.clients.client import ClientError
from support.clients.driven import ConnectedDriven, KafkaJsClient
from support.clients.every import CLIENTS
from support.clients.kcat import KcatClient
from support.clients.samples import AN_HOUR_AGO
from support.wire import TIMEOUT, Wire

# -- confluent-kafka -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def confluent(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def test_confluent_describes_the_cluster(confluent: AdminClient, broker: BrokerProcess) -> None:
    cluster = confluent.describe_cluster().result(TIMEOUT)
    assert [(node.id, node.host, node.port) for node in cluster.nodes] == [(0, "127.0.0.1", broker.port)]
    assert cluster.controller.id == 0
    assert cluster.cluster_id == confluent.list_topics(timeout=TIMEOUT).cluster_id


def test_confluent_creates_describes_and_deletes_topics(confluent: AdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    confluent.create_topics([NewTopic(name, 3)])[name].result(TIMEOUT)
    described = confluent.describe_topics(TopicCollection([name]))[name].result(TIMEOUT)
    assert [partition.leader.id for partition in described.partitions] == [0, 0, 0]
    assert not described.is_internal
    assert isinstance(described.topic_id, Uuid)
    confluent.delete_topics([name])[name].result(TIMEOUT)
    assert name not in confluent.list_topics(timeout=TIMEOUT).topics
    with pytest.raises(KafkaException) as gone:
        confluent.delete_topics([name])[name].result(TIMEOUT)
    assert gone.value.args[0].code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_confluent_may_try_a_creation_out(confluent: AdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    confluent.create_topics([NewTopic(name, 1)], validate_only=True)[name].result(TIMEOUT)
    assert name not in confluent.list_topics(timeout=TIMEOUT).topics


# -- kafka-python ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield admin
    admin.close()


def test_kafka_python_creates_lists_and_deletes_topics(python: KafkaAdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    python.create_topics([PythonNewTopic(name, num_partitions=2, replication_factor=1)])
    assert name in python.list_topics()
    (described,) = python.describe_topics([name])
    assert len(described["partitions"]) == 2
    with pytest.raises(TopicAlreadyExistsError):
        python.create_topics([PythonNewTopic(name, num_partitions=2, replication_factor=1)])
    python.delete_topics([name])
    assert name not in python.list_topics()


def test_kafka_python_describes_the_cluster(python: KafkaAdminClient, broker: BrokerProcess) -> None:
    cluster = python.describe_cluster()
    assert [node["port"] for node in cluster["brokers"]] == [broker.port]
    assert cluster["controller_id"] == 0


# -- kafkajs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafkajs(broker: BrokerProcess) -> Iterator[Callable]:
    client = next(client for client in CLIENTS if isinstance(client, KafkaJsClient))
    connected = client.connect(broker.bootstrap, patience=2)
    assert isinstance(connected, ConnectedDriven)
    yield lambda call, *argument: connected.ask("admin", call=call, argument=argument)
    connected.close()


def test_kafkajs_creates_describes_and_deletes_topics(kafkajs: Callable, new_name: Callable[[], str]) -> None:
    name = new_name()
    configs = [{"name": "retention.ms", "value": "1234"}]
    asked = {"topics": [{"topic": name, "numPartitions": 3, "configEntries": configs}]}
    assert kafkajs("createTopics", asked) is True
    assert kafkajs("createTopics", asked) is False  # it is there already
    assert name in kafkajs("listTopics")
    (topic,) = kafkajs("fetchTopicMetadata", {"topics": [name]})["topics"]
    assert sorted(partition["partitionId"] for partition in topic["partitions"]) == [0, 1, 2]
    described = kafkajs("describeConfigs", {"resources": [{"type": 2, "name": name, "configNames": ["retention.ms"]}]})
    assert described["resources"][0]["configEntries"][0]["configValue"] == "1234"
    kafkajs("deleteTopics", {"topics": [name]})
    assert name not in kafkajs("listTopics")


def test_kafkajs_is_told_why_a_topic_is_not_created(kafkajs: Callable) -> None:
    with pytest.raises(ClientError):
        kafkajs("createTopics", {"topics": [{"topic": "no spaces"}]})


def test_kafkajs_finds_offsets_and_times(kafkajs: Callable, wire: Wire, topic: str) -> None:
    wire.produce(topic, [Record(number, AN_HOUR_AGO + 1000 * number, None, b"x") for number in range(5)])
    assert kafkajs("fetchTopicOffsets", topic) == [{"partition": 0, "offset": "5", "high": "5", "low": "0"}]
    assert kafkajs("fetchTopicOffsetsByTimestamp", topic, AN_HOUR_AGO + 1500) == [{"partition": 0, "offset": "2"}]
    assert kafkajs("fetchTopicOffsetsByTimestamp", topic, AN_HOUR_AGO + 9000) == [{"partition": 0, "offset": "5"}]


def test_kafkajs_describes_the_cluster(kafkajs: Callable, broker: BrokerProcess) -> None:
    cluster = kafkajs("describeCluster")
    assert cluster["brokers"] == [{"nodeId": 0, "host": "127.0.0.1", "port": broker.port}]
    assert cluster["controller"] == 0


def test_kafkajs_writes_idempotently(broker: BrokerProcess, topic: str) -> None:
    client = next(client for client in CLIENTS if isinstance(client, KafkaJsClient))
    connected = client.connect(broker.bootstrap)
    record = [0, AN_HOUR_AGO, None, "eA==", []]
    for offset in ("0", "1", "2"):
        answer = connected.ask("write", topic=topic, partition=0, codec="none", records=[record], idempotent=True)
        assert answer["baseOffset"] == offset
    connected.close()


# -- kcat ------------------------------------------------------------------------------------------------------------


def test_kcat_lists_topics_and_queries_offsets(broker: BrokerProcess, wire: Wire, topic: str) -> None:
    kcat = KcatClient().connect(broker.bootstrap)
    wire.produce(topic, [Record(number, AN_HOUR_AGO + 1000 * number, None, b"x") for number in range(5)])
    listed = json.loads(kcat.run("-L", "-J", "-t", topic))
    assert listed["brokers"] == [{"id": 0, "name": broker.bootstrap}]
    (seen,) = listed["topics"]
    assert seen["partitions"] == [{"partition": 0, "leader": 0, "replicas": [{"id": 0}], "isrs": [{"id": 0}]}]
    assert kcat.run("-Q", "-t", f"{topic}:0:{AN_HOUR_AGO + 1500}").split() == f"{topic} [0] offset 2".encode().split()
