"""WriteTxnMarkers (27), versions 0-2.

Ends transactions in partitions that this broker leads: asked by a transaction coordinator, or by an administrator who
aborts a transaction that hangs. Each partition has its own result, which comes when the marker is committed.

- v1 flexible; v2 says by which version of transactions (KIP-1228): with version 2 the marker's epoch is newer than the
  data's, and one that is not is INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.transactions.transaction import BUMPS_EPOCH

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.WriteTxnMarkersResponse


@handles("WriteTxnMarkers", 0, 2)
def write_txn_markers(broker: Broker, request: Request, body: messages.WriteTxnMarkersRequest) -> Response | Deferred:
    response = Response(markers=[])
    work = []
    for marker in body.markers:
        topics = []
        for topic in marker.topics:
            answers = [Response.Partition(partition_index=index) for index in topic.partition_indexes]
            topics.append(Response.Topic(name=topic.name, partitions=answers))
            work += [(marker, topic.name, answer) for answer in answers]
        response.markers.append(Response.Marker(producer_id=marker.producer_id, topics=topics))
    if not work:
        return response
    deferred, left = Deferred(request), len(work)

    def then(answer: Response.Partition, code: ErrorCode) -> None:
        nonlocal left
        answer.error_code = code
        left -= 1
        if not left:
            deferred(response)

    for marker, topic_name, answer in work:
        producer = marker.producer_id, marker.producer_epoch
        if marker.transaction_version >= BUMPS_EPOCH and _is_stale(
            broker, topic_name, answer.partition_index, producer
        ):
            then(answer, ErrorCode.INVALID_PRODUCER_EPOCH)
            continue
        broker.transactions.markers.write(
            topic_name,
            answer.partition_index,
            producer,
            marker.coordinator_epoch,
            commit=marker.transaction_result,
            then=partial(then, answer),
        )
    return deferred


def _is_stale(broker: Broker, topic: str, index: int, producer: tuple[int, int]) -> bool:
    """Whether the transaction that is open there is of this epoch, so that the marker is not newer."""
    partition = broker.partition(topic, index)
    state = partition.log.producers.open.get(producer[0]) if partition is not None else None
    return state is not None and state.epoch >= producer[1]
