"""AddPartitionsToTxn (24), versions 0-5.

Partitions that a transaction is about to write to; the first begins it. All of one transaction are added, or none.

- v0-3 come from producers (version 1 of transactions), with one transaction. v2+ tell a fenced producer
  PRODUCER_FENCED, before that INVALID_PRODUCER_EPOCH. v4: many transactions, some only to be verified (KIP-890);
  brokers ask so, and are told TRANSACTION_ABORTABLE of a partition that is not in it.
- Where a partition does not exist it gets UNKNOWN_TOPIC_OR_PARTITION, and the others OPERATION_NOT_ATTEMPTED. Producers
  do not add partitions of internal topics: TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.controller.names import is_internal
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.transactions.transaction import Answer, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FENCED, BATCHED = 2, 4  # versions that brought them

Body = messages.AddPartitionsToTxnRequest
Response = messages.AddPartitionsToTxnResponse
Codes = dict[TopicPartition, ErrorCode]


@handles("AddPartitionsToTxn", 0, 5)
def add_partitions_to_txn(broker: Broker, request: Request, body: Body) -> Response | Deferred:
    deferred = Deferred(request)
    if request.version < BATCHED:
        single = Body.Transaction(
            transactional_id=body.v3_and_below_transactional_id,
            producer_id=body.v3_and_below_producer_id,
            producer_epoch=body.v3_and_below_producer_epoch,
            topics=body.v3_and_below_topics,
        )

        def answer(codes: Codes) -> None:
            deferred(Response(results_by_topic_v3_and_below=_topics(codes)))

        _add(broker, single, request.version, answer)
        return deferred
    results: dict[int, Codes] = {}

    def collect(at: int, codes: Codes) -> None:
        results[at] = codes
        if len(results) == len(body.transactions):
            deferred(
                Response(
                    results_by_transaction=[
                        Response.Transaction(transactional_id=one.transactional_id, topic_results=_topics(results[at]))
                        for at, one in enumerate(body.transactions)
                    ]
                )
            )

    if not body.transactions:
        return Response()
    for at, one in enumerate(body.transactions):
        _add(broker, one, request.version, lambda codes, at=at: collect(at, codes))  # type: ignore[misc]
    return deferred


def _add(broker: Broker, asked: Body.Transaction, version: int, then: Callable[[Codes], None]) -> None:
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    producer = asked.producer_id, asked.producer_epoch
    if not asked.transactional_id:
        then(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))
        return
    wrong: Codes = {}
    for one in partitions:
        if version < BATCHED and is_internal(one[0]):
            wrong[one] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif broker.partition(*one) is None:
            wrong[one] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wrong:
        then(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | wrong)
        return
    if asked.verify_only:
        then(
            {
                one: _told(broker.transactions.verify(asked.transactional_id, producer, one), version)
                for one in partitions
            }
        )
        return

    def answered(answer: Answer) -> None:
        then(dict.fromkeys(partitions, _told(answer.code, version)))

    broker.transactions.add(asked.transactional_id, producer, partitions, answered)


def _told(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and version < FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _topics(codes: Codes) -> list[Response.Topic]:
    topics: dict[str, Response.Topic] = {}
    for (name, index), code in codes.items():
        topic = topics.setdefault(name, Response.Topic(name=name, results_by_partition=[]))
        topic.results_by_partition.append(Response.Partition(partition_index=index, partition_error_code=code))
    return list(topics.values())
