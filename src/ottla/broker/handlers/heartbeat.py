"""Heartbeat (12), versions 0-4.

A member says that it lives, and learns of a rebalance: REBALANCE_IN_PROGRESS. v3: static members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.classic_groups import find
from ottla.broker.dispatch import Deferred, Request, handles
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("Heartbeat", 0, 4)
def heartbeat(
    broker: Broker, request: Request, body: messages.HeartbeatRequest
) -> messages.HeartbeatResponse | Deferred:
    found = find(broker, body.group_id)
    if isinstance(found, ErrorCode):
        return messages.HeartbeatResponse(error_code=found)
    group, core = found
    deferred = Deferred(request)
    broker.groups.carry_out(group, core.heartbeat(body, deferred, broker.groups.now()))
    return deferred
