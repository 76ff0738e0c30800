"""Metadata (3), versions 0-13.

The brokers that the client can reach, and topics with the leaders of their partitions: by name, by id, or all.

- Null topics mean all topics, an empty list means none; v0 cannot say null, and its empty list means all.
- A name that is not there is created with the default settings if `auto.create.topics.enable` is on and the client does
  not say no (v4+; older ones cannot). The creation goes on behind the reply, which says LEADER_NOT_AVAILABLE: clients
  ask again (A1 B-13). An illegal name is INVALID_TOPIC_EXCEPTION, and what cannot be created gets the reason.
- v0: replicas on dead brokers are left out, with REPLICA_NOT_AVAILABLE; later versions list them.
- A partition whose disk failed on a broker has no leader there: LEADER_NOT_AVAILABLE, an offline replica from v5 on.
- v1: rack, controller, internal flag. v2: cluster id. v5: offline replicas. v7: leader epochs.
- v6: a leader that lacks the listener is LISTENER_NOT_FOUND, before LEADER_NOT_AVAILABLE.
- v8: operations that the client may do, on topics, and until v10 on the cluster (then DescribeCluster's, KIP-700).
- v10: topic ids in replies. v12: topics are found by id; in v10 and v11 an id or a null name is INVALID_REQUEST, later
  an entry with neither. If any entry has an id, entries without one are passed over, as Kafka does.
- v13: an error for the whole reply (KIP-1102), which this broker has no use for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.nodes import NO_NODE_ID, reachable
from ottla.broker.operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from ottla.controller.image import ClusterImage, PartitionImage, TopicImage
from ottla.controller.names import ZERO_ID, is_internal, why_illegal
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

NOWHERE: frozenset[int] = frozenset()


@handles("Metadata", 0, 13)
def metadata(broker: Broker, request: Request, body: messages.MetadataRequest) -> messages.MetadataResponse:
    version, image = request.version, broker.image
    nodes = reachable(broker, request)
    topics = _topics(broker, version, body, {node.id for node in nodes})
    if body.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                topic.topic_authorized_operations = ON_TOPIC
    return messages.MetadataResponse(
        brokers=[
            messages.MetadataResponse.Broker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=ON_CLUSTER if body.include_cluster_authorized_operations else NOT_ASKED,
    )


def _topics(
    broker: Broker, version: int, body: messages.MetadataRequest, reached: set[int]
) -> list[messages.MetadataResponse.Topic]:
    image, asked = broker.image, body.topics
    if asked is None or (version == 0 and not asked):
        return [_known(broker, topic, version, reached) for topic in image.topics.values()]
    if any(_is_invalid(topic.name, topic.topic_id, version) for topic in asked):
        return [_failed(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id) for topic in asked]
    ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_ID)
    if ids:
        by_id = image.topics_by_id
        return [
            _known(broker, by_id[id], version, reached)
            if id in by_id
            else _failed(ErrorCode.UNKNOWN_TOPIC_ID, None, id)
            for id in ids
        ]
    names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
    missing = [name for name in names if name not in image.topics]
    errors = _create(broker, missing, body.allow_auto_topic_creation) if missing else {}
    return [
        _failed(errors[name], name) if name in errors else _known(broker, image.topics[name], version, reached)
        for name in names
    ]


def _is_invalid(name: str | None, id: bytes, version: int) -> bool:
    return name is None and id == ZERO_ID if version >= 12 else name is None or id != ZERO_ID


def _create(broker: Broker, missing: list[str], allowed: bool) -> dict[str, ErrorCode]:
    """What to say of each missing name; where creation is allowed it has begun."""
    if allowed and broker.config.auto_create_topics_enable:
        return broker.controller.create_in_background(missing)
    return {
        name: ErrorCode.INVALID_TOPIC_EXCEPTION if why_illegal(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name in missing
    }


def _failed(code: ErrorCode, name: str | None, id: bytes = ZERO_ID) -> messages.MetadataResponse.Topic:
    return messages.MetadataResponse.Topic(
        error_code=code, name=name, topic_id=id, is_internal=name is not None and is_internal(name)
    )


def _known(broker: Broker, topic: TopicImage, version: int, reached: set[int]) -> messages.MetadataResponse.Topic:
    offline, here = broker.disks.offline_partitions(topic.name), frozenset((broker.config.node_id,))
    return messages.MetadataResponse.Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            _partition(index, partition, broker.image, version, reached, here if index in offline else NOWHERE)
            for index, partition in enumerate(topic.partitions)
        ],
    )


def _partition(
    index: int,
    partition: PartitionImage,
    image: ClusterImage,
    version: int,
    reached: set[int],
    failed: frozenset[int],
) -> messages.MetadataResponse.Partition:
    leader, replicas, isr = partition.leader, partition.replicas, partition.isr
    code = ErrorCode.NONE
    reached = reached - failed
    if version == 0:
        replicas = [replica for replica in replicas if replica in reached]
        isr = [replica for replica in isr if replica in reached]
        if len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
    if leader not in reached:
        lives = leader in image.brokers and leader not in failed
        code = ErrorCode.LISTENER_NOT_FOUND if lives and version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_NODE_ID
    return messages.MetadataResponse.Partition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=[replica for replica in partition.replicas if replica not in reached],
    )
