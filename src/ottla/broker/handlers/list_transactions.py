"""ListTransactions (66), versions 0-2.

The transactional ids that this broker coordinates, filtered by states and producer ids. States that there are not are
told as such. v1: only those whose transaction began longer ago than a time, be it over or not. v2: only ids that fit a
pattern (RE2's); one that is none is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.config.patterns import IllegalPattern, Pattern
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.transactions.states import TITLES

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.ListTransactionsResponse


@handles("ListTransactions", 0, 2)
def list_transactions(broker: Broker, request: Request, body: messages.ListTransactionsRequest) -> Response:
    if broker.transactions.shards.is_loading:
        return Response(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    pattern = None
    if body.transactional_id_pattern:
        try:
            pattern = Pattern(body.transactional_id_pattern)
        except IllegalPattern:
            return Response(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = set(body.state_filters)
    producer_ids = set(body.producer_id_filters)
    now_ms = broker.now_ms()
    return Response(
        unknown_state_filters=[state for state in body.state_filters if state not in TITLES],
        transaction_states=[
            Response.Transaction(
                transactional_id=one.id, producer_id=one.producer_id, transaction_state=one.state.title
            )
            for one in broker.transactions.transactions()
            if (not states or one.state.title in states)
            and (not producer_ids or one.producer_id in producer_ids)
            and (body.duration_filter < 0 or now_ms - one.started_at > body.duration_filter)
            and (pattern is None or pattern.matches(one.id))
        ],
    )
