"""LeaveGroup (13), versions 0-5.

Members leave, and the others rebalance at once. v3: several, each with its own result; a static member may be named by
its instance id alone, as administrators do (KIP-345). v5: a reason, which is logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.classic_groups import find
from ottla.broker.dispatch import Deferred, Request, handles
from ottla.groups.classic.requests import BATCHED_LEAVES
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Body = messages.LeaveGroupRequest
Response = messages.LeaveGroupResponse


@handles("LeaveGroup", 0, 5)
def leave_group(broker: Broker, request: Request, body: Body) -> Response | Deferred:
    leaving = body.members if request.version >= BATCHED_LEAVES else [Body.Member(member_id=body.member_id)]
    found = find(broker, body.group_id)
    if found == ErrorCode.UNKNOWN_MEMBER_ID and request.version >= BATCHED_LEAVES:
        return Response(
            members=[
                Response.Member(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=found)
                for one in leaving
            ]
        )
    if isinstance(found, ErrorCode):
        return Response(error_code=found)
    group, core = found
    deferred = Deferred(request)
    broker.groups.carry_out(group, core.leave(leaving, deferred, broker.groups.now(), version=request.version))
    return deferred
