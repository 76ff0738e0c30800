"""DescribeGroups (15), versions 0-6.

Classic groups and their members. What members said and were given is told when the group is stable. A group that is not
there is Dead, without an error; from v6 on it is GROUP_ID_NOT_FOUND (KIP-1043). v3: what the client may do with it. v4:
static members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.operations import NOT_ASKED, ON_GROUP
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.states import DEAD, STABLE
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

NOT_FOUND = 6  # version from which on an unknown group is an error

Body = messages.DescribeGroupsRequest
Response = messages.DescribeGroupsResponse


@handles("DescribeGroups", 0, 6)
def describe_groups(broker: Broker, request: Request, body: Body) -> Response:
    operations = ON_GROUP if body.include_authorized_operations else NOT_ASKED
    groups = [_describe(broker, group_id, request.version) for group_id in body.groups]
    for group in groups:
        if not group.error_code:
            group.authorized_operations = operations
    return Response(groups=groups)


def _describe(broker: Broker, group_id: str, version: int) -> Response.Group:
    group = broker.groups.find(group_id)
    if isinstance(group, ErrorCode):
        return Response.Group(group_id=group_id, error_code=group)
    if group is None or not isinstance(group.core, ClassicGroup):
        what = "not found" if group is None else "is not a classic group"
        unknown = version >= NOT_FOUND
        return Response.Group(
            group_id=group_id,
            group_state=DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.NONE,
            error_message=f"Group {group_id} {what}." if unknown else None,
        )
    core = group.core
    is_stable = core.state is STABLE
    return Response.Group(
        group_id=group_id,
        group_state=core.state_name,
        protocol_type=core.protocol_type,
        protocol_data=core.protocol or "" if is_stable else "",
        members=[
            Response.Member(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(core.protocol) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in core.members
        ],
    )
