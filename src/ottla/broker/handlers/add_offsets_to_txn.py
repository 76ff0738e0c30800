"""AddOffsetsToTxn (25), versions 0-4.

A transaction is about to commit offsets of a group: the group's partition of __consumer_offsets is added to it, be it
there or not yet, as some clients do not ask again.
Producers of version 2 of transactions do not ask (TxnOffsetCommit 5 does it). v2+ tell a fenced producer
PRODUCER_FENCED, before that INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.controller.names import CONSUMER_OFFSETS
from ottla.coordinators.hashing import partition_of
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.transactions.transaction import Answer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FENCED = 2

Response = messages.AddOffsetsToTxnResponse


@handles("AddOffsetsToTxn", 0, 4)
def add_offsets_to_txn(broker: Broker, request: Request, body: messages.AddOffsetsToTxnRequest) -> Response | Deferred:
    if not body.transactional_id:
        return Response(error_code=ErrorCode.INVALID_REQUEST)
    topic = broker.groups.topic
    topic.begin()
    index = partition_of(body.group_id, topic.count or broker.config.offsets_topic_num_partitions)
    deferred = Deferred(request)

    def answered(answer: Answer) -> None:
        code = answer.code
        if code is ErrorCode.PRODUCER_FENCED and request.version < FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        deferred(Response(error_code=code))

    producer = body.producer_id, body.producer_epoch
    broker.transactions.add(body.transactional_id, producer, [(CONSUMER_OFFSETS, index)], answered)
    return deferred
