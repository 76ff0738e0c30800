"""DescribeTopicPartitions (75), version 0.

Topics and their partitions page by page, sorted by name (KIP-966). No topics in the request mean all topics.

- A page holds at most `response_partition_limit` partitions, and at most `max.request.partition.size.limit`, but always
  one. `next_cursor` says where the next page begins; the client sends it back as `cursor` with the same topics.
- A topic that is not there takes no room: UNKNOWN_TOPIC_OR_PARTITION or INVALID_TOPIC_EXCEPTION. The topic of a cursor
  may be gone by then; it must be among the topics asked for, and its partition must not be negative: INVALID_REQUEST.
- Eligible leader replicas are not kept here: the lists are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.nodes import NO_NODE_ID, reachable
from ottla.broker.operations import ON_TOPIC
from ottla.controller.image import PartitionImage
from ottla.controller.names import is_internal, why_illegal
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("DescribeTopicPartitions", 0, 0)
def describe_topic_partitions(
    broker: Broker, request: Request, body: messages.DescribeTopicPartitionsRequest
) -> messages.DescribeTopicPartitionsResponse:
    image, cursor = broker.image, body.cursor
    names = {topic.name for topic in body.topics} or set(image.topics)
    if cursor is not None and (cursor.partition_index < 0 or (body.topics and cursor.topic_name not in names)):
        return messages.DescribeTopicPartitionsResponse(
            topics=[
                messages.DescribeTopicPartitionsResponse.Topic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
                for topic in body.topics
            ]
        )
    reached = {node.id for node in reachable(broker, request)}
    room = max(1, min(body.response_partition_limit, broker.config.max_request_partition_size_limit))
    response = messages.DescribeTopicPartitionsResponse()
    for name in sorted(names):
        if cursor is not None and name < cursor.topic_name:
            continue
        if room == 0:
            response.next_cursor = messages.DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            illegal = why_illegal(name) is not None
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.topics.append(_failed(code, name))
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        offline, here = broker.disks.offline_partitions(name), {broker.config.node_id}
        page = topic.partitions[first : first + room]
        response.topics.append(
            messages.DescribeTopicPartitionsResponse.Topic(
                error_code=ErrorCode.NONE,
                name=name,
                topic_id=topic.id,
                is_internal=topic.internal,
                partitions=[
                    _partition(first + at, partition, reached - here if first + at in offline else reached)
                    for at, partition in enumerate(page)
                ],
                topic_authorized_operations=ON_TOPIC,
            )
        )
        room -= len(page)
        if first + len(page) < len(topic.partitions):
            response.next_cursor = messages.DescribeTopicPartitionsResponse.Cursor(
                topic_name=name, partition_index=first + len(page)
            )
            break
    return response


def _failed(code: ErrorCode, name: str) -> messages.DescribeTopicPartitionsResponse.Topic:
    return messages.DescribeTopicPartitionsResponse.Topic(
        error_code=code, name=name, is_internal=is_internal(name), topic_authorized_operations=ON_TOPIC
    )


def _partition(
    index: int, partition: PartitionImage, reached: set[int]
) -> messages.DescribeTopicPartitionsResponse.Partition:
    return messages.DescribeTopicPartitionsResponse.Partition(
        error_code=ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader if partition.leader in reached else NO_NODE_ID,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[replica for replica in partition.replicas if replica not in reached],
    )
