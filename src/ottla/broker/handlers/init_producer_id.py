"""InitProducerId (22), versions 0-6.

A producer id and epoch for an idempotent producer: always a new id, epoch 0. It is answered at once from the broker's
block of ids; only when a block is used up is the store waited for.

- v3: the producer may give the id and epoch it had (KIP-360). Without a transactional id they change nothing, as a new
  id is the fresh start that it needs; one of the two alone is INVALID_REQUEST.
- An empty transactional id is INVALID_REQUEST. A real one needs the transaction coordinator, which this broker does not
  have yet: COORDINATOR_NOT_AVAILABLE.
- v6: two-phase commit (KIP-939), a matter of transactions only.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.broker.dispatch import Request, handles
from ottla.coordination.store import StoreError
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)


@handles("InitProducerId", 0, 6)
def init_producer_id(
    broker: Broker, request: Request, body: messages.InitProducerIdRequest
) -> messages.InitProducerIdResponse | Coroutine[Any, Any, messages.InitProducerIdResponse]:
    if (body.producer_id == -1) != (body.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if body.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE if body.transactional_id else ErrorCode.INVALID_REQUEST)
    taken = broker.controller.producer_ids.take()
    return _wait(broker) if taken is None else _given(taken)


async def _wait(broker: Broker) -> messages.InitProducerIdResponse:
    try:
        return _given(await broker.controller.producer_ids.wait())
    except StoreError as error:
        log.error("no producer id: %s", error)
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # what Kafka says, and clients try again


def _given(producer_id: int) -> messages.InitProducerIdResponse:
    return messages.InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> messages.InitProducerIdResponse:
    return messages.InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
