"""OffsetDelete (47), version 0.

Takes a group's offsets of given partitions away (KIP-496).

    no such group                                            GROUP_ID_NOT_FOUND
    it has members that are no consumers                     NON_EMPTY_GROUP
    members read the topic                                   GROUP_SUBSCRIBED_TO_TOPIC, per partition
    a topic or partition that is not there                   UNKNOWN_TOPIC_OR_PARTITION, per partition
    nothing was committed                                    no error
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.groups.effects import Effect, Reply
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.OffsetDeleteResponse


@handles("OffsetDelete", 0, 0)
def offset_delete(broker: Broker, request: Request, body: messages.OffsetDeleteRequest) -> Response | Deferred:
    if not body.group_id:
        return Response(error_code=ErrorCode.INVALID_GROUP_ID)
    group = broker.groups.find(body.group_id)
    if group is None:
        return Response(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ErrorCode):
        return Response(error_code=group)
    code = group.core.may_delete_offsets()
    if code:
        return Response(error_code=code)
    effects: list[Effect] = []
    topics = []
    for topic in body.topics:
        known = broker.image.topics.get(topic.name)
        count = len(known.partitions) if known else 0
        partitions = []
        for one in topic.partitions:
            index = one.partition_index
            if not 0 <= index < count:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif group.core.is_subscribed(topic.name):
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                code = ErrorCode.NONE
                effects += group.offsets.drop(topic.name, index)
            partitions.append(Response.Partition(partition_index=index, error_code=code))
        topics.append(Response.Topic(name=topic.name, partitions=partitions))
    deferred = Deferred(request)
    broker.groups.carry_out(group, [*effects, Reply(deferred, Response(topics=topics))])
    return deferred
