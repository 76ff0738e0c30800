"""EndTxn (26), versions 0-5.

A producer commits or aborts its transaction. The answer says that this is decided and in the log; the markers are
written before it where that takes no time.

- v2+ tell a fenced producer PRODUCER_FENCED, before that INVALID_PRODUCER_EPOCH.
- v5: version 2 of transactions (KIP-890); the answer has the producer's new epoch, and perhaps a new producer id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.transactions.transaction import BUMPS_EPOCH, Answer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FENCED, VERSION_2 = 2, 5

Response = messages.EndTxnResponse


@handles("EndTxn", 0, 5)
def end_txn(broker: Broker, request: Request, body: messages.EndTxnRequest) -> Response | Deferred:
    if not body.transactional_id:
        return Response(error_code=ErrorCode.INVALID_REQUEST)
    deferred = Deferred(request)

    def answered(answer: Answer) -> None:
        code = answer.code
        if code is ErrorCode.PRODUCER_FENCED and request.version < FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        deferred(Response(error_code=code, producer_id=answer.producer_id, producer_epoch=answer.epoch))

    broker.transactions.end(
        body.transactional_id,
        (body.producer_id, body.producer_epoch),
        commit=body.committed,
        version=BUMPS_EPOCH if request.version >= VERSION_2 else 0,
        to=answered,
    )
    return deferred
