"""InitProducerId (22), versions 0-6.

A producer id and epoch. For an idempotent producer always a new id, epoch 0: answered at once from the broker's block
of ids; only when a block is used up is the store waited for. For a transactional one the transaction coordinator says
it, and ends what a predecessor has left open.

- v3: the producer may give the id and epoch it had (KIP-360). Without a transactional id they change nothing, as a new
  id is the fresh start that it needs; one of the two alone is INVALID_REQUEST.
- v4+ tell a fenced producer PRODUCER_FENCED, before that INVALID_PRODUCER_EPOCH.
- v6: two-phase commit (KIP-939) is not offered: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as Kafka says where it is off.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.coordination.store import StoreError
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.transactions.transaction import Answer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

FENCED = 4  # the version that brought PRODUCER_FENCED


@handles("InitProducerId", 0, 6)
def init_producer_id(
    broker: Broker, request: Request, body: messages.InitProducerIdRequest
) -> messages.InitProducerIdResponse | Deferred | Coroutine[Any, Any, messages.InitProducerIdResponse]:
    if (body.producer_id == -1) != (body.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if body.transactional_id is not None:
        return _init_transactional(broker, request, body)
    taken = broker.controller.producer_ids.take()
    return _wait(broker) if taken is None else _given(taken)


def _init_transactional(
    broker: Broker, request: Request, body: messages.InitProducerIdRequest
) -> messages.InitProducerIdResponse | Deferred:
    if not body.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    if body.enable_2pc or body.keep_prepared_txn:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    deferred = Deferred(request)

    def answered(answer: Answer) -> None:
        code = answer.code
        if code is ErrorCode.PRODUCER_FENCED and request.version < FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        deferred(
            messages.InitProducerIdResponse(
                error_code=code, producer_id=answer.producer_id, producer_epoch=answer.epoch
            )
        )

    expected = None if body.producer_id == -1 else (body.producer_id, body.producer_epoch)
    broker.transactions.init(body.transactional_id, body.transaction_timeout_ms, expected, answered)
    return deferred


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
