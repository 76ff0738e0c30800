"""FindCoordinator (10), versions 0-6.

Which broker coordinates a consumer group (key type 0) or a transactional producer (1). The only broker of a cluster
coordinates everything. The first one who asks for a group's has __consumer_offsets made, and waits for it; the same for
a transactional producer's and __transaction_state.

- v0: groups only. v1: key types, and a message with an error. v4: many keys in one request, each with its own result
  (KIP-699). v6: share groups (2), which this broker does not have: INVALID_REQUEST, as Kafka says where they are off.
  Any other key type is INVALID_REQUEST too.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.nodes import NOWHERE, reachable
from ottla.coordinators.internal_topic import InternalTopic
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

GROUP, TRANSACTION = 0, 1
BATCHED = 4  # version from which on a request has many keys


@handles("FindCoordinator", 0, 6)
def find_coordinator(
    broker: Broker, request: Request, body: messages.FindCoordinatorRequest
) -> messages.FindCoordinatorResponse | Coroutine[None, None, messages.FindCoordinatorResponse]:
    topic = {GROUP: broker.groups.topic, TRANSACTION: broker.transactions.topic}.get(body.key_type)
    if topic is not None and not topic.is_there and (request.version < BATCHED or body.coordinator_keys):
        return _after_creation(broker, request, body, topic)
    return _find(broker, request, body, ErrorCode.NONE)


async def _after_creation(
    broker: Broker, request: Request, body: messages.FindCoordinatorRequest, topic: InternalTopic
) -> messages.FindCoordinatorResponse:
    return _find(broker, request, body, await topic.create())


def _find(
    broker: Broker, request: Request, body: messages.FindCoordinatorRequest, code: ErrorCode
) -> messages.FindCoordinatorResponse:
    node, message = NOWHERE, code.message if code else None
    if body.key_type not in (GROUP, TRANSACTION):
        code, message = ErrorCode.INVALID_REQUEST, f"there is no coordinator for keys of type {body.key_type}"
    elif not code:
        own = [one for one in reachable(broker, request) if one.id == broker.config.node_id]
        if own:
            node = own[0]
        else:
            code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE.message
    if request.version < BATCHED:
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
