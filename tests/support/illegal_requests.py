"""Administrative requests that ask for what cannot be: one row each, with the error that it gets.

The broker has the node id 1, two data directories and the topics of TOPICS; nothing else is there. What Kafka answers
is the same unless a row says otherwise (and docs/choices.md why).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ottla.protocol import messages as m
from ottla.protocol.errors import ErrorCode as E
from support.wire import Wire

# of two partitions each
TOPICS: dict[str, dict[str, str]] = {"there": {}, "compacted": {"cleanup.policy": "compact"}, "with.dot": {}}
NODE = 1
LONG = "x" * 250
HASTY = b"the hasty client"
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class Row(NamedTuple):
    request: Any  # or a function that makes it, with the path of a data directory
    version: int
    code: E
    words: str = ""  # that the message has, where the reply has a place for one
    kafka: E | None = None  # what Kafka says, where it is something else
    ask_kafka: bool = True

    def on(self, directory: str) -> Any:
        return self.request(directory) if callable(self.request) else self.request


def faults(reply: Any) -> list[tuple[E, str | None]]:
    """The errors in a reply, wherever they stand, with their messages."""
    return list(_faults(reply))


def _faults(part: Any) -> Iterator[tuple[E, str | None]]:
    if isinstance(part, list):
        for one in part:
            yield from _faults(one)
    elif isinstance(part, m.Message):
        if getattr(part, "error_code", 0):
            yield E(part.error_code), getattr(part, "error_message", None)
        for name in part.__slots__:
            yield from _faults(getattr(part, name, None))


def directory(wire: Wire) -> str:
    """One of the broker's data directories."""
    return str(wire.call(m.DescribeLogDirsRequest(topics=[]), 4).results[0].log_dir)


def prepare(wire: Wire) -> None:
    for name, configs in TOPICS.items():
        wire.create(name, 2, configs)
    assert wire.call(get(HASTY), 0).error_code == 0


# -- requests in few words -----------------------------------------------------------------------------------------


def new_topic(
    name: str = "new",
    partitions: int = 1,
    factor: int = 1,
    placed: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> m.CreateTopicsRequest.Topic:
    return m.CreateTopicsRequest.Topic(
        name=name,
        num_partitions=-1 if placed is not None else partitions,
        replication_factor=-1 if placed is not None else factor,
        assignments=[
            m.CreateTopicsRequest.Assignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (placed or {}).items()
        ],
        configs=[m.CreateTopicsRequest.Config(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(*topics: m.CreateTopicsRequest.Topic) -> m.CreateTopicsRequest:
    return m.CreateTopicsRequest(topics=list(topics), timeout_ms=30_000)


def grow(name: str, count: int, placed: Sequence[Sequence[int]] | None = None, times: int = 1) -> Any:
    assignments = placed and [m.CreatePartitionsRequest.Assignment(broker_ids=list(one)) for one in placed]
    topic = m.CreatePartitionsRequest.Topic(name=name, count=count, assignments=assignments)
    return m.CreatePartitionsRequest(topics=[topic] * times, timeout_ms=30_000)


def truncate(name: str, partition: int, offset: int) -> Any:
    row = m.DeleteRecordsRequest.Partition(partition_index=partition, offset=offset)
    return m.DeleteRecordsRequest(topics=[m.DeleteRecordsRequest.Topic(name=name, partitions=[row])], timeout_ms=30_000)


def change(type: int, name: str, *entries: tuple[int, str, str | None]) -> Any:
    configs = [
        m.IncrementalAlterConfigsRequest.Config(name=key, config_operation=operation, value=value)
        for operation, key, value in entries
    ]
    resource = m.IncrementalAlterConfigsRequest.Resource(resource_type=type, resource_name=name, configs=configs)
    return m.IncrementalAlterConfigsRequest(resources=[resource])


def replace(type: int, name: str, **configs: str | None) -> Any:
    entries = [m.AlterConfigsRequest.Config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return m.AlterConfigsRequest(
        resources=[m.AlterConfigsRequest.Resource(resource_type=type, resource_name=name, configs=entries)]
    )


def describe(type: int, name: str) -> Any:
    resource = m.DescribeConfigsRequest.Resource(resource_type=type, resource_name=name, configuration_keys=None)
    return m.DescribeConfigsRequest(resources=[resource])


def move(path: str, name: str, partition: int) -> Any:
    topic = m.AlterReplicaLogDirsRequest.Topic(name=name, partitions=[partition])
    return m.AlterReplicaLogDirsRequest(dirs=[m.AlterReplicaLogDirsRequest.Dir(path=path, topics=[topic])])


def producers(name: str, partition: int) -> Any:
    return m.DescribeProducersRequest(
        topics=[m.DescribeProducersRequest.Topic(name=name, partition_indexes=[partition])]
    )


def elect(type: int, name: str, partition: int) -> Any:
    asked = m.ElectLeadersRequest.TopicPartitions(topic=name, partitions=[partition])
    return m.ElectLeadersRequest(election_type=type, topic_partitions=[asked], timeout_ms=30_000)


def reassign(name: str, partition: int, replicas: list[int] | None) -> Any:
    row = m.AlterPartitionReassignmentsRequest.Partition(partition_index=partition, replicas=replicas)
    return m.AlterPartitionReassignmentsRequest(
        timeout_ms=30_000,
        topics=[m.AlterPartitionReassignmentsRequest.Topic(name=name, partitions=[row])],
    )


def feature(name: str, level: int, type: int = 1, times: int = 1) -> Any:
    update = m.UpdateFeaturesRequest.FeatureUpdate(feature=name, max_version_level=level, upgrade_type=type)
    return m.UpdateFeaturesRequest(feature_updates=[update] * times, timeout_ms=30_000)


def delete(name: str | None = None, id: bytes = bytes(16)) -> Any:
    return m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.Topic(name=name, topic_id=id)], timeout_ms=30_000)


def offsets(name: str, partition: int, timestamp: int = -1, epoch: int = -1) -> Any:
    row = m.ListOffsetsRequest.Partition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    return m.ListOffsetsRequest(replica_id=-1, topics=[m.ListOffsetsRequest.Topic(name=name, partitions=[row])])


def get(id: bytes) -> Any:
    return m.GetTelemetrySubscriptionsRequest(client_instance_id=id)


def push(id: bytes, subscription: int = 0, codec: int = 0, metrics: bytes = b"") -> Any:
    return m.PushTelemetryRequest(
        client_instance_id=id, subscription_id=subscription, compression_type=codec, metrics=metrics
    )


def listing(*types: int) -> Any:
    return m.ListConfigResourcesRequest(resource_types=list(types))


def pages(name: str) -> Any:
    return m.DescribeTopicPartitionsRequest(
        topics=[m.DescribeTopicPartitionsRequest.Topic(name=name)], response_partition_limit=10
    )


RETENTION = (SET, "retention.ms", "1")

ROWS = [
    # CreateTopics
    Row(create(new_topic("")), 7, E.INVALID_TOPIC_EXCEPTION, "empty"),
    Row(create(new_topic(".")), 7, E.INVALID_TOPIC_EXCEPTION, "."),
    Row(create(new_topic("..")), 7, E.INVALID_TOPIC_EXCEPTION, ".."),
    Row(create(new_topic("a/b")), 7, E.INVALID_TOPIC_EXCEPTION, "a/b"),
    Row(create(new_topic("a b")), 7, E.INVALID_TOPIC_EXCEPTION, "a b"),
    Row(create(new_topic("Grüße")), 7, E.INVALID_TOPIC_EXCEPTION, "Grüße"),
    Row(create(new_topic(LONG)), 7, E.INVALID_TOPIC_EXCEPTION, "249"),
    Row(create(new_topic("there")), 7, E.TOPIC_ALREADY_EXISTS, "there"),
    Row(create(new_topic("there")), 2, E.TOPIC_ALREADY_EXISTS, "there"),
    Row(create(new_topic("with_dot")), 7, E.INVALID_TOPIC_EXCEPTION, "with.dot"),
    Row(create(new_topic("new"), new_topic("new")), 7, E.INVALID_REQUEST, "new"),
    Row(create(new_topic(partitions=0)), 7, E.INVALID_PARTITIONS, "0 partitions"),
    Row(create(new_topic(partitions=-2)), 7, E.INVALID_PARTITIONS, "-2 partitions"),
    Row(create(new_topic(partitions=10_001)), 7, E.POLICY_VIOLATION, "10000"),
    Row(create(new_topic(partitions=2**31 - 1)), 7, E.POLICY_VIOLATION, "10000"),
    Row(create(new_topic(factor=0)), 7, E.INVALID_REPLICATION_FACTOR, "factor of 0"),
    Row(create(new_topic(factor=-2)), 7, E.INVALID_REPLICATION_FACTOR, "factor of -2"),
    Row(create(new_topic(factor=2)), 7, E.INVALID_REPLICATION_FACTOR, "2 brokers, and there are 1"),
    Row(create(new_topic(placed={0: [77]})), 7, E.INVALID_REPLICA_ASSIGNMENT, "77"),
    Row(create(new_topic(placed={0: []})), 7, E.INVALID_REPLICA_ASSIGNMENT, "no broker"),
    Row(create(new_topic(placed={0: [NODE, NODE]})), 7, E.INVALID_REPLICA_ASSIGNMENT, "twice"),
    Row(create(new_topic(placed={1: [NODE]})), 7, E.INVALID_REPLICA_ASSIGNMENT, "from 0"),
    Row(create(new_topic(placed={0: [NODE], 2: [NODE]})), 7, E.INVALID_REPLICA_ASSIGNMENT, "gaps"),
    Row(create(new_topic(placed={-1: [NODE]})), 7, E.INVALID_REPLICA_ASSIGNMENT, "-1"),
    Row(
        m.CreateTopicsRequest(
            topics=[
                m.CreateTopicsRequest.Topic(
                    name="new",
                    num_partitions=2,
                    replication_factor=1,
                    assignments=[m.CreateTopicsRequest.Assignment(partition_index=0, broker_ids=[NODE])],
                )
            ],
            timeout_ms=30_000,
        ),
        7,
        E.INVALID_REQUEST,
        "must be -1",
    ),
    Row(create(new_topic(configs={"retention.ms": "soon"})), 7, E.INVALID_CONFIG, "retention.ms"),
    Row(create(new_topic(configs={"retention.ms": None})), 7, E.INVALID_CONFIG, "retention.ms"),
    Row(create(new_topic(configs={"retention.ms": "-2"})), 7, E.INVALID_CONFIG, "retention.ms"),
    Row(create(new_topic(configs={"no.such.key": "1"})), 7, E.INVALID_CONFIG, "no.such.key"),
    Row(create(new_topic(configs={"cleanup.policy": "shred"})), 7, E.INVALID_CONFIG, "cleanup.policy"),
    Row(create(new_topic(configs={"compression.type": "rar"})), 7, E.INVALID_CONFIG, "compression.type"),
    # CreatePartitions
    Row(grow("nowhere", 3), 3, E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere"),
    Row(grow("a b", 3), 3, E.UNKNOWN_TOPIC_OR_PARTITION, "a b"),
    Row(grow("there", 2), 3, E.INVALID_PARTITIONS, "2"),
    Row(grow("there", 1), 3, E.INVALID_PARTITIONS, "2"),
    Row(grow("there", 0), 3, E.INVALID_PARTITIONS, "0 would not"),
    Row(grow("there", -1), 3, E.INVALID_PARTITIONS, "-1 would not"),
    Row(grow("there", 10_003), 3, E.POLICY_VIOLATION, "10000", ask_kafka=False),  # it makes them
    Row(grow("there", 2**31 - 1), 3, E.POLICY_VIOLATION, "10000", ask_kafka=False),
    Row(grow("there", 3, [[77]]), 3, E.INVALID_REPLICA_ASSIGNMENT, "77"),
    Row(grow("there", 3, [[]]), 3, E.INVALID_REPLICA_ASSIGNMENT, "no broker"),
    Row(grow("there", 3, [[NODE, NODE]]), 3, E.INVALID_REPLICA_ASSIGNMENT, "twice"),
    Row(grow("there", 4, [[NODE]]), 3, E.INVALID_REPLICA_ASSIGNMENT, "2 partitions"),
    Row(grow("there", 3, [[NODE], [NODE]]), 0, E.INVALID_REPLICA_ASSIGNMENT, "1 partitions"),
    Row(grow("there", 3, times=2), 3, E.INVALID_REQUEST, "2 times"),
    # DeleteTopics
    Row(delete("nowhere"), 6, E.UNKNOWN_TOPIC_OR_PARTITION, "does not have"),
    Row(delete(id=b"i" * 16), 6, E.UNKNOWN_TOPIC_ID, "id"),
    Row(delete("there", b"i" * 16), 6, E.INVALID_REQUEST, "one of the two"),
    # DeleteRecords
    Row(truncate("nowhere", 0, 0), 2, E.UNKNOWN_TOPIC_OR_PARTITION),
    Row(truncate("there", 9, 0), 2, E.UNKNOWN_TOPIC_OR_PARTITION),
    Row(truncate("there", -1, 0), 2, E.UNKNOWN_TOPIC_OR_PARTITION),
    Row(truncate("there", 0, 1), 2, E.OFFSET_OUT_OF_RANGE),
    Row(truncate("there", 0, -2), 0, E.OFFSET_OUT_OF_RANGE),
    Row(truncate("compacted", 0, 0), 2, E.POLICY_VIOLATION),
    # DescribeConfigs
    Row(describe(TOPIC, "nowhere"), 4, E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere"),
    Row(describe(TOPIC, "a b"), 4, E.INVALID_TOPIC_EXCEPTION, "a b"),
    Row(describe(TOPIC, ""), 4, E.INVALID_TOPIC_EXCEPTION, "empty"),
    Row(describe(BROKER, "77"), 4, E.INVALID_REQUEST, "77"),
    Row(describe(BROKER, "one"), 4, E.INVALID_REQUEST, "one"),
    Row(describe(LOGGER, ""), 4, E.INVALID_REQUEST, "id"),
    Row(describe(LOGGER, "77"), 1, E.INVALID_REQUEST, "77"),
    Row(describe(METRICS, ""), 4, E.INVALID_REQUEST, "no name"),
    Row(describe(GROUP, ""), 4, E.INVALID_REQUEST, "no name"),
    Row(describe(99, "x"), 4, E.INVALID_REQUEST, "99"),
    # IncrementalAlterConfigs
    Row(change(TOPIC, "nowhere", RETENTION), 1, E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere"),
    Row(change(TOPIC, "a b", RETENTION), 1, E.INVALID_TOPIC_EXCEPTION, "a b"),
    Row(change(TOPIC, "there", (SET, "retention.ms", "soon")), 1, E.INVALID_CONFIG, "retention.ms"),
    Row(change(TOPIC, "there", (SET, "no.such.key", "1")), 0, E.INVALID_CONFIG, "no.such.key"),
    Row(change(TOPIC, "there", (SET, "retention.ms", None)), 1, E.INVALID_REQUEST, "retention.ms"),
    Row(change(TOPIC, "there", RETENTION, RETENTION), 1, E.INVALID_REQUEST, "retention.ms"),
    Row(change(TOPIC, "there", (APPEND, "retention.ms", "1")), 1, E.INVALID_CONFIG, "retention.ms"),
    Row(change(TOPIC, "there", (9, "retention.ms", "1")), 1, E.INVALID_REQUEST, "9", kafka=E.UNKNOWN_SERVER_ERROR),
    Row(change(TOPIC, "there", (SET, "segment.bytes", "9" * 20)), 1, E.INVALID_CONFIG, "segment.bytes"),
    Row(change(TOPIC, "there", (SET, "min.insync.replicas", "0")), 1, E.INVALID_CONFIG, "min.insync.replicas"),
    Row(change(BROKER, "77", (SET, "log.cleaner.threads", "2")), 1, E.INVALID_REQUEST, "77"),
    Row(change(BROKER, "1", (SET, "log.dirs", "/elsewhere")), 1, E.INVALID_REQUEST, "log.dirs"),
    Row(change(BROKER, "", (SET, "node.id", "5")), 1, E.INVALID_REQUEST, "node.id"),
    Row(change(BROKER, "1", (SET, "log.cleaner.threads", "no")), 1, E.INVALID_CONFIG, "no", kafka=E.INVALID_REQUEST),
    Row(change(LOGGER, "1", (SET, "root", "LOUD")), 1, E.INVALID_CONFIG, "LOUD"),
    Row(change(LOGGER, "1", (SET, "no.such.logger", "INFO")), 1, E.INVALID_CONFIG, "no.such.logger"),
    Row(change(LOGGER, "1", (DELETE, "root", None)), 1, E.INVALID_REQUEST, "root"),
    Row(change(METRICS, "", (SET, "interval.ms", "1000")), 1, E.INVALID_REQUEST, "no name"),
    Row(change(METRICS, "s", (SET, "interval.ms", "99")), 1, E.INVALID_CONFIG, "interval.ms", kafka=E.INVALID_REQUEST),
    Row(change(METRICS, "s", (SET, "match", "color=red")), 1, E.INVALID_CONFIG, "color=red"),
    Row(change(METRICS, "s", (SET, "match", "client_id=(")), 1, E.INVALID_CONFIG, "client_id=("),
    Row(change(METRICS, "s", (SET, "nothing", "1")), 1, E.INVALID_CONFIG, "nothing", kafka=E.INVALID_REQUEST),
    Row(change(GROUP, "", (SET, "consumer.session.timeout.ms", "50000")), 1, E.INVALID_REQUEST, "no name"),
    Row(change(GROUP, "g", (SET, "consumer.session.timeout.ms", "1")), 1, E.INVALID_CONFIG, "45000"),
    Row(change(99, "x", (SET, "a", "b")), 1, E.INVALID_REQUEST, "99"),
    # AlterConfigs
    Row(replace(TOPIC, "nowhere", retention_ms="1"), 2, E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere"),
    Row(replace(TOPIC, "there", retention_ms="soon"), 2, E.INVALID_CONFIG, "retention.ms"),
    Row(replace(TOPIC, "there", no_such="1"), 0, E.INVALID_CONFIG, "no.such"),
    Row(replace(TOPIC, "there", retention_ms=None), 2, E.INVALID_REQUEST, "retention.ms"),
    Row(replace(BROKER, "77", log_cleaner_threads="2"), 2, E.INVALID_REQUEST, "77"),
    Row(replace(99, "x"), 2, E.INVALID_REQUEST, "99"),
    # ListConfigResources
    Row(listing(99), 1, E.UNSUPPORTED_VERSION),
    # AlterReplicaLogDirs
    Row(move("/no/such/directory", "there", 0), 2, E.LOG_DIR_NOT_FOUND),
    Row(move("relative", "there", 0), 1, E.LOG_DIR_NOT_FOUND),
    Row(move("", "there", 0), 2, E.LOG_DIR_NOT_FOUND),
    Row(lambda directory: move(directory, "nowhere", 0), 2, E.UNKNOWN_TOPIC_OR_PARTITION),
    Row(lambda directory: move(directory, "there", 9), 2, E.UNKNOWN_TOPIC_OR_PARTITION),
    Row(lambda directory: move(directory, "a b", 0), 2, E.UNKNOWN_TOPIC_OR_PARTITION),
    # DescribeProducers
    Row(producers("nowhere", 0), 0, E.UNKNOWN_TOPIC_OR_PARTITION, "does not have"),
    Row(producers("there", 9), 0, E.UNKNOWN_TOPIC_OR_PARTITION, "does not have"),
    Row(producers("a b", 0), 0, E.INVALID_TOPIC_EXCEPTION, "a b"),
    # ElectLeaders
    Row(elect(0, "nowhere", 0), 2, E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere"),
    Row(elect(0, "there", 9), 2, E.UNKNOWN_TOPIC_OR_PARTITION, "9"),
    Row(elect(0, "there", 0), 2, E.ELECTION_NOT_NEEDED, "leader"),
    Row(elect(1, "there", 0), 1, E.ELECTION_NOT_NEEDED, "leader"),
    Row(elect(9, "there", 0), 2, E.INVALID_REQUEST, "9"),
    # AlterPartitionReassignments
    Row(reassign("nowhere", 0, [NODE]), 1, E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere"),
    Row(reassign("there", 9, [NODE]), 1, E.UNKNOWN_TOPIC_OR_PARTITION, "9"),
    Row(reassign("there", 0, [77]), 1, E.INVALID_REPLICA_ASSIGNMENT, "77"),
    Row(reassign("there", 0, [-1]), 0, E.INVALID_REPLICA_ASSIGNMENT, "-1"),
    Row(reassign("there", 0, [NODE, NODE]), 1, E.INVALID_REPLICA_ASSIGNMENT, "twice"),
    Row(reassign("there", 0, []), 1, E.INVALID_REPLICA_ASSIGNMENT, "no broker"),
    Row(reassign("there", 0, None), 1, E.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment"),
    # UpdateFeatures
    Row(feature("no.such.feature", 1), 2, E.INVALID_UPDATE_VERSION, "no.such.feature"),
    Row(feature("", 1), 1, E.INVALID_UPDATE_VERSION, "does not support"),
    Row(feature("group.version", 99), 2, E.INVALID_UPDATE_VERSION, "99"),
    Row(feature("group.version", -1), 2, E.INVALID_UPDATE_VERSION, "-1"),
    Row(feature("group.version", 1, type=9), 2, E.INVALID_UPDATE_VERSION, "upgrade type"),
    Row(feature("group.version", 1, times=2), 2, E.INVALID_REQUEST, "group.version", kafka=E.NONE),
    Row(feature("metadata.version", 1), 2, E.INVALID_UPDATE_VERSION, "metadata.version"),
    # DescribeCluster
    Row(m.DescribeClusterRequest(endpoint_type=2), 2, E.MISMATCHED_ENDPOINT_TYPE, "brokers"),
    Row(m.DescribeClusterRequest(endpoint_type=9), 2, E.UNSUPPORTED_ENDPOINT_TYPE, "9"),
    # GetTelemetrySubscriptions, PushTelemetry
    Row(get(HASTY), 0, E.THROTTLING_QUOTA_EXCEEDED),
    Row(push(bytes(16)), 0, E.INVALID_REQUEST),
    Row(push(bytes(15) + b"\1"), 0, E.INVALID_REQUEST),
    Row(lambda _: push(os.urandom(16)), 0, E.UNKNOWN_SUBSCRIPTION_ID),  # a client that was not here before
    # ListOffsets, DescribeTopicPartitions
    Row(offsets("nowhere", 0), 8, E.UNKNOWN_TOPIC_OR_PARTITION),
    Row(offsets("there", 9), 8, E.UNKNOWN_TOPIC_OR_PARTITION),
    Row(offsets("there", 0, epoch=99), 8, E.UNKNOWN_LEADER_EPOCH),
    Row(pages("nowhere"), 0, E.UNKNOWN_TOPIC_OR_PARTITION),
    Row(pages("a b"), 0, E.INVALID_TOPIC_EXCEPTION),
]
