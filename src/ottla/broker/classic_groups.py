"""The group that a request of the classic protocol means. A consumer group may have members that speak it, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.group import Group
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def find(broker: Broker, group_id: str) -> tuple[Group, ClassicGroup | ConsumerGroup] | ErrorCode:
    """The group and its core, or what a member is told. A group that is not there has no members."""
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = broker.groups.find(group_id)
    if isinstance(group, ErrorCode):
        return group
    if group is None or not isinstance(group.core, ClassicGroup | ConsumerGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return group, group.core
