"""DescribeTransactions (65), version 0.

What the coordinator knows of transactional ids: state, producer, partitions, since when. One that it does not know is
TRANSACTIONAL_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.DescribeTransactionsResponse


@handles("DescribeTransactions", 0, 0)
def describe_transactions(broker: Broker, request: Request, body: messages.DescribeTransactionsRequest) -> Response:
    return Response(transaction_states=[_describe(broker, id) for id in body.transactional_ids])


def _describe(broker: Broker, id: str) -> Response.Transaction:
    if not id:
        return Response.Transaction(transactional_id=id, error_code=ErrorCode.INVALID_REQUEST)
    found = broker.transactions.find(id)
    if found is None:
        return Response.Transaction(transactional_id=id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    if isinstance(found, ErrorCode):
        return Response.Transaction(transactional_id=id, error_code=found)
    topics: dict[str, list[int]] = {}
    for name, index in sorted(found.partitions):
        topics.setdefault(name, []).append(index)
    return Response.Transaction(
        transactional_id=id,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_at,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[Response.Topic(topic=name, partitions=indexes) for name, indexes in topics.items()],
    )
