"""ConsumerGroupHeartbeat (68), versions 0-1.

A member of a consumer group (KIP-848) joins, lives, reads other topics, says what it has, leaves; and learns its epoch
and what it is to have. groups/consumer/group.py has the rules.

- v1: members make their own ids (KIP-1082), and may read topics by a pattern.

    a field that is missing or wrong                        INVALID_REQUEST, with words for it
    an assignor that is not in group.consumer.assignors     UNSUPPORTED_ASSIGNOR
    no such group, or one that cannot become such           GROUP_ID_NOT_FOUND
    not a member                                            UNKNOWN_MEMBER_ID
    another epoch than the member's                         FENCED_MEMBER_EPOCH
    another has the instance id, or has taken it            UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID
    group.consumer.max.size is reached                      GROUP_MAX_SIZE_REACHED
    a pattern that is none                                  INVALID_REGULAR_EXPRESSION
    group.version is 0, or the protocol is switched off     UNSUPPORTED_VERSION
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.config.group import assignor_names
from ottla.config.patterns import IllegalPattern
from ottla.controller.features import GROUP_VERSION, SUPPORTED, finalized
from ottla.groups.classic.requests import Client
from ottla.groups.consumer import service
from ottla.groups.consumer.faults import Fault
from ottla.groups.consumer.subscriptions import Matched
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Body = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse


def is_served(broker: Broker) -> bool:
    """Whether there are groups of the new protocol: the cluster's feature, and the broker's own setting."""
    is_on = finalized(broker.image.features, SUPPORTED).get(GROUP_VERSION, 0) >= 1
    return is_on and "consumer" in broker.config.group_coordinator_rebalance_protocols


@handles("ConsumerGroupHeartbeat", 0, 1)
def consumer_group_heartbeat(
    broker: Broker, request: Request, body: Body
) -> Response | Deferred | Coroutine[Any, Any, Response]:
    if not is_served(broker):
        return Response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        service.check(body, request.version, assignor_names(broker.config))
    except Fault as fault:
        return Response(error_code=fault.code, error_message=fault.message)
    shard = broker.groups.shard_of(body.group_id)
    if isinstance(shard, ErrorCode):
        broker.groups.topic.begin()
        return Response(error_code=shard)
    if not body.member_id:
        body.member_id = str(uuid4())
    client = Client(request.client_id or "", request.client_host, request.version)
    if service.has_new_pattern(shard, body):
        return _with_new_pattern(broker, client, body)
    deferred = Deferred(request)
    service.heartbeat(shard, body, client, deferred, broker.groups.now())
    return deferred


async def _with_new_pattern(broker: Broker, client: Client, body: Body) -> Response:
    """All topics are tried in a thread: a costly pattern and many of them take seconds."""
    matched = None
    with contextlib.suppress(IllegalPattern):  # the group says so, if nothing else is wrong
        matched = await broker.run_blocking(Matched.find, body.subscribed_topic_regex, frozenset(broker.image.topics))
    shard = broker.groups.shard_of(body.group_id)
    if isinstance(shard, ErrorCode):
        return Response(error_code=shard)
    answer: asyncio.Future[Response] = broker.loop.create_future()
    service.heartbeat(shard, body, client, answer.set_result, broker.groups.now(), matched)
    return await answer
