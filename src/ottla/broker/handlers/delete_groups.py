"""DeleteGroups (42), versions 0-2.

Takes groups without members away, with their offsets (KIP-229). GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. The reply goes out
when it is in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.groups.effects import Effect, Reply
from ottla.groups.group import Group
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.DeleteGroupsResponse


@handles("DeleteGroups", 0, 2)
def delete_groups(broker: Broker, request: Request, body: messages.DeleteGroupsRequest) -> Response | Deferred:
    results = []
    waits: list[tuple[Group, list[Effect], Response.Result]] = []
    for group_id in dict.fromkeys(body.groups_names):
        result = Response.Result(group_id=group_id, error_code=ErrorCode.NONE)
        results.append(result)
        group = broker.groups.find(group_id)
        if group is None:
            result.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        elif isinstance(group, ErrorCode):
            result.error_code = group
        else:
            result.error_code = group.core.may_delete()
            if not result.error_code:
                waits.append((group, broker.groups.remove(group), result))
    response = Response(results=results)
    if not waits:
        return response
    deferred = Deferred(request)
    left = len(waits)

    def settled(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            deferred(response)

    for group, effects, result in waits:
        # Each group's partition settles by itself, and puts an error into the result if it cannot be written.
        broker.groups.carry_out(group, [*effects, Reply(settled, result)])
    return deferred
