"""What `topics --describe` shows: DescribeTopicPartitions, configs and reassignments, put together.

Kafka's lines, tabs between: one for the topic, then one for each partition. Tools of ZooKeeper's time had no `Elr` and
showed the topic's own overrides as `Configs`; today's show all that differs from Kafka's defaults, the broker's file
included.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ottla.cli.common import resource_configs
from ottla.cli.common.invocation import Failure
from ottla.cli.common.requests import Cluster, error_text
from ottla.cli.common.resource_configs import Resource, Source
from ottla.protocol.messages import (
    DescribeConfigsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

Partition = DescribeTopicPartitionsResponse.Partition
Reassignment = ListPartitionReassignmentsResponse.Partition

NO_ID = bytes(16)
TIMEOUT_MS = 30_000


def id_text(topic_id: bytes) -> str:
    """A topic's id as Kafka writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


@dataclass(slots=True)
class Description:
    name: str
    topic_id: bytes
    partitions: list[Partition]
    configs: list[DescribeConfigsResponse.Config]
    reassignments: dict[int, Reassignment]

    @property
    def replication_factor(self) -> int:
        return self._wanted_replicas(self.partitions[0]) if self.partitions else 0

    def _wanted_replicas(self, partition: Partition) -> int:
        """How many replicas it shall have; those that a move adds do not count while it goes on."""
        move = self.reassignments.get(partition.partition_index)
        if move and {*move.adding_replicas, *move.removing_replicas} & {*partition.replica_nodes}:
            return len(move.replicas) - len(move.adding_replicas)
        return len(partition.replica_nodes)

    @property
    def min_isr(self) -> int:
        return next((int(one.value or 1) for one in self.configs if one.name == "min.insync.replicas"), 1)

    def changed_configs(self, own_only: bool = False) -> dict[str, str | None]:
        """Configs that differ from Kafka's defaults, or only those that the topic itself overrides."""
        return {
            one.name: one.value
            for one in self.configs
            if one.config_source != Source.DEFAULT_CONFIG
            and not (own_only and one.config_source != Source.DYNAMIC_TOPIC_CONFIG)
        }

    def is_under_replicated(self, partition: Partition) -> bool:
        return len(partition.isr_nodes) < self._wanted_replicas(partition)

    def is_unavailable(self, partition: Partition, live: Iterable[int]) -> bool:
        return partition.leader_id not in set(live)

    def is_under_min_isr(self, partition: Partition) -> bool:
        return partition.leader_id < 0 or len(partition.isr_nodes) < self.min_isr

    def is_at_min_isr(self, partition: Partition) -> bool:
        return len(partition.isr_nodes) == self.min_isr

    def line(self, old: bool) -> str:
        """The topic's line; `old`: as in ZooKeeper's time."""
        configs = ",".join(f"{key}={value}" for key, value in self.changed_configs(own_only=old).items())
        return (
            f"Topic: {self.name}"
            + (f"\tTopicId: {id_text(self.topic_id)}" if self.topic_id != NO_ID else "")
            + f"\tPartitionCount: {len(self.partitions)}\tReplicationFactor: {self.replication_factor}"
            + f"\tConfigs: {configs}"
        )

    def partition_line(self, partition: Partition, old: bool) -> str:
        leader = "none" if partition.leader_id < 0 else partition.leader_id
        line = (
            f"\tTopic: {self.name}\tPartition: {partition.partition_index}\tLeader: {leader}"
            f"\tReplicas: {_ids(partition.replica_nodes)}\tIsr: {_ids(partition.isr_nodes)}"
        )
        move = self.reassignments.get(partition.partition_index)
        if move:
            line += (
                f"\tAdding Replicas: {_ids(move.adding_replicas)}\tRemoving Replicas: {_ids(move.removing_replicas)}"
            )
        if old:
            return line
        return (
            f"{line}\tElr: {_ids(partition.eligible_leader_replicas)}\tLastKnownElr: {_ids(partition.last_known_elr)}"
        )


def _ids(nodes: list[int] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))


def describe(cluster: Cluster, names: list[str], limit: int) -> list[Description]:
    """Descriptions of existing topics, asked for with at most `limit` partitions in one answer."""
    if not names:
        return []
    topics: dict[str, Description] = {}
    for topic in _pages(cluster, names, limit):
        if topic.error_code:
            raise Failure(f"topic {topic.name}: {error_text(topic.error_code)}")
        assert topic.name is not None
        known = topics.setdefault(topic.name, Description(topic.name, topic.topic_id, [], [], {}))
        known.partitions += topic.partitions
    for name, configs in resource_configs.describe(cluster, Resource.TOPIC, names).items():
        topics[name].configs = configs
    asked = [
        ListPartitionReassignmentsRequest.Topic(
            name=topic.name, partition_indexes=[one.partition_index for one in topic.partitions]
        )
        for topic in topics.values()
    ]
    moving = cluster.controller().call(ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=asked))
    if moving.error_code:
        raise Failure(error_text(moving.error_code, moving.error_message))
    for moved in moving.topics:
        topics[moved.name].reassignments = {one.partition_index: one for one in moved.partitions}
    return [topics[name] for name in sorted(topics)]


def _pages(cluster: Cluster, names: list[str], limit: int) -> Iterator[DescribeTopicPartitionsResponse.Topic]:
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.Topic(name=name) for name in sorted(names)],
            response_partition_limit=limit,
            cursor=cursor,
        )
        reply: DescribeTopicPartitionsResponse = cluster.seed.call(request)
        yield from reply.topics
        if reply.next_cursor is None:
            return
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=reply.next_cursor.topic_name, partition_index=reply.next_cursor.partition_index
        )
