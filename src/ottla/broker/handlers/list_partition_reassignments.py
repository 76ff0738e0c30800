"""ListPartitionReassignments (46), version 0.

The partitions that are on the move to other brokers, all (topics null) or those named that are. One node moves none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.controller.image import PartitionImage
from ottla.controller.reassignment import moving
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.ListPartitionReassignmentsResponse


@handles("ListPartitionReassignments", 0, 0)
def list_partition_reassignments(
    broker: Broker, request: Request, body: messages.ListPartitionReassignmentsRequest
) -> messages.ListPartitionReassignmentsResponse:
    named = None if body.topics is None else [(topic.name, topic.partition_indexes) for topic in body.topics]
    found = moving(broker.image, named)
    return Response(
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=[
            Response.Topic(
                name=name,
                partitions=[_partition(index, broker.image.topics[name].partitions[index]) for index in indexes],
            )
            for name, indexes in found.items()
        ],
    )


def _partition(index: int, partition: PartitionImage) -> messages.ListPartitionReassignmentsResponse.Partition:
    return Response.Partition(
        partition_index=index,
        replicas=partition.replicas,
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )
