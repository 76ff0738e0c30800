"""ConsumerGroupDescribe (69), versions 0-1.

Consumer groups (KIP-848): state, epochs, and each member with what it reads, has and is to have. A group that is not
there or of another kind is GROUP_ID_NOT_FOUND. v1: which protocol a member speaks (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.handlers.consumer_group_heartbeat import is_served
from ottla.broker.operations import NOT_ASKED, ON_GROUP
from ottla.config.group import assignor_names
from ottla.groups.consumer.assignors import NOTHING
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.members import Member
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1

Body = messages.ConsumerGroupDescribeRequest
Response = messages.ConsumerGroupDescribeResponse


@handles("ConsumerGroupDescribe", 0, 1)
def consumer_group_describe(broker: Broker, request: Request, body: Body) -> Response:
    if not is_served(broker):
        code = ErrorCode.UNSUPPORTED_VERSION
        return Response(groups=[Response.Group(group_id=group_id, error_code=code) for group_id in body.group_ids])
    operations = ON_GROUP if body.include_authorized_operations else NOT_ASKED
    return Response(groups=[_describe(broker, group_id, operations) for group_id in body.group_ids])


def _describe(broker: Broker, group_id: str, operations: int) -> Response.Group:
    if not group_id:
        return Response.Group(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    group = broker.groups.find(group_id)
    if isinstance(group, ErrorCode):
        return Response.Group(group_id=group_id, error_code=group)
    core = group.core if group is not None else None
    if not isinstance(core, ConsumerGroup):
        what = "not found" if core is None else "is not a consumer group"
        return Response.Group(
            group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"Group {group_id} {what}."
        )
    return Response.Group(
        group_id=group_id,
        group_state=core.state_name,
        group_epoch=core.epoch,
        assignment_epoch=core.target_epoch,
        assignor_name=core.assignor(assignor_names(broker.config)),
        members=[_member(broker, core, member) for member in core.members.values()],
        authorized_operations=operations,
    )


def _member(broker: Broker, core: ConsumerGroup, member: Member) -> Response.Member:
    profile = member.profile
    return Response.Member(
        member_id=member.id,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        member_epoch=member.epoch,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topics),
        subscribed_topic_regex=profile.regex,
        assignment=_assignment(broker, member.assigned),
        target_assignment=_assignment(broker, core.targets.get(member.id, NOTHING)),
        member_type=CONSUMER_MEMBER if profile.classic is None else CLASSIC_MEMBER,
    )


def _assignment(broker: Broker, partitions: Mapping[bytes, Iterable[int]]) -> Response.Assignment:
    topics = broker.image.topics_by_id
    return Response.Assignment(
        topic_partitions=[
            Response.TopicPartitions(topic_id=topic, topic_name=topics[topic].name, partitions=sorted(indexes))
            for topic, indexes in partitions.items()
            if topic in topics
        ]
    )
