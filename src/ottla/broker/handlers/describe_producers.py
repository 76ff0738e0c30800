"""DescribeProducers (61), version 0.

The producers that a partition remembers (KIP-664): those whose sequence numbers it checks, until they have been silent
for `producer.id.expiration.ms`. Each partition is answered on its own:

    an illegal name                       INVALID_TOPIC_EXCEPTION
    no such topic or partition            UNKNOWN_TOPIC_OR_PARTITION
    led elsewhere, or its disk failed     NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR

-1 stands for what a producer does not have: a sequence where only a marker of it is left, a transaction that is open,
the epoch of the coordinator that wrote its last marker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.led import led_partition
from ottla.controller.names import why_illegal
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.storage.producers import ProducerState

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.DescribeProducersResponse

NO_SEQUENCE = -1


@handles("DescribeProducers", 0, 0)
def describe_producers(
    broker: Broker, request: Request, body: messages.DescribeProducersRequest
) -> messages.DescribeProducersResponse:
    return Response(
        topics=[
            Response.Topic(
                name=topic.name, partitions=[_partition(broker, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in body.topics
        ]
    )


def _partition(broker: Broker, topic: str, index: int) -> messages.DescribeProducersResponse.Partition:
    fault = why_illegal(topic)
    if fault is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return Response.Partition(partition_index=index, error_code=code, error_message=fault)
    found = led_partition(broker, topic, index)
    if isinstance(found, ErrorCode):
        return Response.Partition(partition_index=index, error_code=found, error_message=found.message)
    known = sorted(found.log.producers.items())
    return Response.Partition(
        partition_index=index, error_code=ErrorCode.NONE, active_producers=[_producer(*one) for one in known]
    )


def _producer(producer_id: int, state: ProducerState) -> messages.DescribeProducersResponse.ActiveProducer:
    return Response.ActiveProducer(
        producer_id=producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.batches[-1][1] if state.batches else NO_SEQUENCE,
        last_timestamp=state.timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.transaction_start,
    )
