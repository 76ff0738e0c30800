"""SyncGroup (14), versions 0-5.

A member asks for its part; the leader brings everybody's. The answer waits until the leader has, and until that is in
the log. v3: static members. v5: the protocol's type and name, which must be the group's: INCONSISTENT_GROUP_PROTOCOL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.classic_groups import find
from ottla.broker.dispatch import Deferred, Request, handles
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("SyncGroup", 0, 5)
def sync_group(
    broker: Broker, request: Request, body: messages.SyncGroupRequest
) -> messages.SyncGroupResponse | Deferred:
    found = find(broker, body.group_id)
    if isinstance(found, ErrorCode):
        return messages.SyncGroupResponse(error_code=found)
    group, core = found
    deferred = Deferred(request)
    broker.groups.carry_out(group, core.sync(body, deferred, broker.groups.now()))
    return deferred
