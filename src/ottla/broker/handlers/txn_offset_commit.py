"""TxnOffsetCommit (28), versions 0-5.

A group's positions are committed with a transaction: they are written to the group's partition as part of it, and count
when its marker says commit. A commit of the group that comes later wins over them.

- v2 leader epochs; v3 generation, member and instance id, so that a member that was replaced cannot commit (KIP-447).
- v5: version 2 of transactions (KIP-890): the group's partition is added to the transaction. Before that it must be in
  it already (AddOffsetsToTxn), else TRANSACTION_ABORTABLE in v4, and INVALID_TXN_STATE before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.controller.names import CONSUMER_OFFSETS
from ottla.groups.effects import Reply, Write
from ottla.groups.records import Committed
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.storage.producers import InvalidProducerEpoch
from ottla.transactions.transaction import Answer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

LOADING, ABORTABLE, VERSION_2 = 2, 4, 5  # versions that brought them
AS_OFFSET_COMMIT = 8  # whose rules for members hold: that of KIP-447's time

Body = messages.TxnOffsetCommitRequest
Response = messages.TxnOffsetCommitResponse
_TRY_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,  # of transactions: who asks is right here
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
Wanted = list[tuple[str, Body.Partition, Response.Partition]]


@handles("TxnOffsetCommit", 0, 5)
def txn_offset_commit(broker: Broker, request: Request, body: Body) -> Response | Deferred:
    response, wanted = _look_up(broker, body)
    shard = broker.groups.shards.of(body.group_id)
    if not body.transactional_id:
        return _refuse(response, wanted, ErrorCode.INVALID_REQUEST)
    if not body.group_id:
        return _refuse(response, wanted, ErrorCode.INVALID_GROUP_ID)
    if isinstance(shard, ErrorCode):
        broker.groups.topic.begin()
        old = shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.version < LOADING
        return _refuse(response, wanted, ErrorCode.COORDINATOR_NOT_AVAILABLE if old else shard)
    if not wanted:
        return response
    deferred = Deferred(request)
    producer, place = (body.producer_id, body.producer_epoch), (CONSUMER_OFFSETS, shard.index)

    def answered(answer: Answer) -> None:
        if answer.code:
            deferred(_refuse(response, wanted, _told(answer.code, request.version)))
        else:
            _commit(broker, body, response, wanted, deferred)

    if request.version >= VERSION_2:
        broker.transactions.add(body.transactional_id, producer, [place], answered)
    else:
        answered(Answer(None, broker.transactions.verify(body.transactional_id, producer, place)))
    return deferred


def _look_up(broker: Broker, body: Body) -> tuple[Response, Wanted]:
    """The response, and of it the partitions that exist."""
    topics: list[Response.Topic] = []
    wanted: Wanted = []
    for topic in body.topics:
        answers = []
        for one in topic.partitions:
            known = broker.partition(topic.name, one.partition_index) is not None
            answer = Response.Partition(
                partition_index=one.partition_index,
                error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            answers.append(answer)
            if known:
                wanted.append((topic.name, one, answer))
        topics.append(Response.Topic(name=topic.name, partitions=answers))
    return Response(topics=topics), wanted


def _commit(broker: Broker, body: Body, response: Response, wanted: Wanted, deferred: Deferred) -> None:
    shard = broker.groups.shards.of(body.group_id)  # again: the coordinator of transactions may have taken its time
    if isinstance(shard, ErrorCode):
        deferred(_refuse(response, wanted, shard))
        return
    try:
        shard.partition.log.producers.check_epoch(body.producer_id, body.producer_epoch)
    except InvalidProducerEpoch:
        deferred(_refuse(response, wanted, ErrorCode.INVALID_PRODUCER_EPOCH))
        return
    if body.group_id not in shard.groups and body.generation_id >= 0:
        deferred(_refuse(response, wanted, ErrorCode.ILLEGAL_GENERATION))
        return
    group = shard.find_or_create(body.group_id)
    effects = group.core.commit(
        body.member_id,
        body.group_instance_id,
        body.generation_id,
        broker.groups.now(),
        version=AS_OFFSET_COMMIT,
        transactional=True,
        partitions=((name, one.partition_index) for name, one, _ in wanted),
    )
    if isinstance(effects, ErrorCode):
        stale = effects is ErrorCode.STALE_MEMBER_EPOCH  # which producers do not know
        deferred(_refuse(response, wanted, ErrorCode.ILLEGAL_GENERATION if stale else effects))
        return
    now_ms, longest = broker.now_ms(), broker.config.offset_metadata_max_bytes
    writes: list[Write] = []
    for topic, one, answer in wanted:
        metadata = one.committed_metadata or ""
        if len(metadata) > longest:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        committed = Committed(one.committed_offset, one.committed_leader_epoch, metadata, now_ms)
        writes.append(shard.hold_back(group, body.producer_id, topic, one.partition_index, committed))
    shard.carry_out(group, effects)
    shard.write_in_transaction(writes, Reply(deferred, response), (body.producer_id, body.producer_epoch))


def _told(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in _TRY_AGAIN:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version >= LOADING else ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _refuse(response: Response, wanted: Wanted, code: ErrorCode) -> Response:
    for _, _, answer in wanted:
        answer.error_code = code
    return response
