"""FindCoordinator (10), versions 0-6.

Which broker coordinates a consumer group (key type 0) or a transactional producer (1). The only broker of a cluster
coordinates everything.

- v0: groups only. v1: key types, and a message with an error. v4: many keys in one request, each with its own result
  (KIP-699). v6: share groups (2), which this broker does not have: INVALID_REQUEST, as Kafka says where they are off.
  Any other key type is INVALID_REQUEST too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.nodes import NOWHERE, reachable
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

GROUP, TRANSACTION = 0, 1


@handles("FindCoordinator", 0, 6)
def find_coordinator(
    broker: Broker, request: Request, body: messages.FindCoordinatorRequest
) -> messages.FindCoordinatorResponse:
    node, code, message = NOWHERE, ErrorCode.NONE, None
    if body.key_type not in (GROUP, TRANSACTION):
        code, message = ErrorCode.INVALID_REQUEST, f"there is no coordinator for keys of type {body.key_type}"
    else:
        own = [one for one in reachable(broker, request) if one.id == broker.config.node_id]
        if own:
            node = own[0]
        else:
            code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE.message
    if request.version < 4:
        return messages.FindCoordinatorResponse(
            error_code=code, error_message=message, node_id=node.id, host=node.host, port=node.port
        )
    return messages.FindCoordinatorResponse(
        coordinators=[
            messages.FindCoordinatorResponse.Coordinator(
                key=key, node_id=node.id, host=node.host, port=node.port, error_code=code, error_message=message
            )
            for key in body.coordinator_keys
        ]
    )
