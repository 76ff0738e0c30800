"""The classic group that a member's request means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.group import Group
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def find(broker: Broker, group_id: str) -> tuple[Group, ClassicGroup] | ErrorCode:
    """The group and its core, or what a member is told. A group that is not there has no members."""
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = broker.groups.find(group_id)
    if isinstance(group, ErrorCode):
        return group
    if group is None or not isinstance(group.core, ClassicGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return group, group.core
