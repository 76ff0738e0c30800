"""OffsetFetch (9), versions 0-10.

The positions that a group has committed, of given partitions or of all. What was never committed, and what an unknown
group has, is offset -1 and no error.

- v0-1: errors of the group stand in each partition. v2: all topics (null), and an error code for the group. v5: leader
  epochs. v7: stable offsets only: while a transaction is open on a partition it is UNSTABLE_OFFSET_COMMIT (KIP-447).
- v8: many groups. v9: member and epoch of KIP-848, which must be right. v10: topic ids; one that is not known is
  UNKNOWN_TOPIC_ID, and topics that are gone are left out when all are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.dispatch import Request, handles
from ottla.controller.names import ZERO_ID
from ottla.groups.offsets import Offsets
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

GROUP_ERRORS, MANY_GROUPS, TOPIC_IDS = 2, 8, 10  # versions that brought them
NO_OFFSET = NO_EPOCH = -1

Body = messages.OffsetFetchRequest
Response = messages.OffsetFetchResponse


@handles("OffsetFetch", 0, 10)
def offset_fetch(broker: Broker, request: Request, body: Body) -> Response:
    if request.version >= MANY_GROUPS:
        return Response(groups=[_group(broker, group, body.require_stable, request.version) for group in body.groups])
    found = _offsets(broker, body.group_id, None, NO_EPOCH)
    if isinstance(found, ErrorCode):
        told = body.topics or [] if request.version < GROUP_ERRORS else []
        return Response(topics=[_failed(topic, found) for topic in told], error_code=found)
    topics = _all(found) if body.topics is None else [(one.name, one.partition_indexes) for one in body.topics]
    return Response(
        topics=[
            Response.Topic(
                name=name,
                partitions=[
                    Response.Partition(**_partition(found, name, index, body.require_stable)) for index in partitions
                ],
            )
            for name, partitions in topics
        ]
    )


def _group(broker: Broker, group: Body.Group, require_stable: bool, version: int) -> Response.Group:
    found = _offsets(broker, group.group_id, group.member_id, group.member_epoch)
    if isinstance(found, ErrorCode):
        return Response.Group(group_id=group.group_id, error_code=found)
    return Response.Group(group_id=group.group_id, topics=_topics(broker, group, found, require_stable, version))


def _topics(
    broker: Broker, group: Body.Group, offsets: Offsets, require_stable: bool, version: int
) -> list[Response.GroupTopic]:
    image, by_id = broker.image, version >= TOPIC_IDS
    asked: list[tuple[str | None, bytes, Sequence[int]]] = []
    if group.topics is None:
        for name, partitions in _all(offsets):
            known = image.topics.get(name)
            if known is not None or not by_id:
                asked.append((name, known.id if known else ZERO_ID, partitions))
    else:
        for one in group.topics:
            known = image.topics_by_id.get(one.topic_id) if by_id else None
            name_or_none = (known.name if known else None) if by_id else one.name
            asked.append((name_or_none, one.topic_id, one.partition_indexes))
    return [
        Response.GroupTopic(
            name=name or "",
            topic_id=topic_id,
            partitions=[
                Response.GroupPartition(**_partition(offsets, name, index, require_stable)) for index in partitions
            ],
        )
        for name, topic_id, partitions in asked
    ]


def _offsets(broker: Broker, group_id: str, member_id: str | None, epoch: int) -> Offsets | ErrorCode:
    found = broker.groups.find(group_id)
    if found is None:
        return Offsets(group_id)
    if isinstance(found, ErrorCode):
        return found
    return found.core.fetch(member_id, epoch) or found.offsets


def _all(offsets: Offsets) -> list[tuple[str, list[int]]]:
    return [(topic, list(partitions)) for topic, partitions in offsets.by_topic.items()]


def _partition(offsets: Offsets, topic: str | None, index: int, require_stable: bool) -> dict[str, Any]:
    code, committed = ErrorCode.NONE, None
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    elif require_stable and offsets.is_unstable(topic, index):
        code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    else:
        committed = offsets.get(topic, index)
    return {
        "partition_index": index,
        "committed_offset": NO_OFFSET if committed is None else committed.offset,
        "committed_leader_epoch": NO_EPOCH if committed is None else committed.leader_epoch,
        "metadata": "" if committed is None else committed.metadata,
        "error_code": code,
    }


def _failed(topic: Body.Topic, code: ErrorCode) -> Response.Topic:
    return Response.Topic(
        name=topic.name,
        partitions=[
            Response.Partition(partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code)
            for index in topic.partition_indexes
        ],
    )
