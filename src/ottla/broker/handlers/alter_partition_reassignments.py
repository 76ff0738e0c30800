"""AlterPartitionReassignments (45), versions 0-1.

Moves partitions to other brokers, or cancels that (replicas null). Each partition is answered on its own; what is
decided, and with which errors: controller/reassignment.py. The reply goes out when the move has begun; how far it is,
ListPartitionReassignments tells.

- v1: a request may forbid that the number of replicas changes (KIP-860); the answer repeats that.
- A request that takes longer than its timeout is answered REQUEST_TIMED_OUT; the work goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.deadlines import within
from ottla.broker.dispatch import Request, handles
from ottla.controller.reassignment import Reassignment
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.AlterPartitionReassignmentsResponse


@handles("AlterPartitionReassignments", 0, 1)
async def alter_partition_reassignments(
    broker: Broker, request: Request, body: messages.AlterPartitionReassignmentsRequest
) -> messages.AlterPartitionReassignmentsResponse:
    asked = [
        Reassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in body.topics
        for partition in topic.partitions
    ]
    may_change = body.allow_replication_factor_change
    results = await within(body.timeout_ms, broker.controller.reassign(asked, keep_factor=not may_change))
    if results is None:
        late = ErrorCode.REQUEST_TIMED_OUT
        return Response(
            allow_replication_factor_change=may_change, error_code=late, error_message=late.message, responses=[]
        )
    told = iter(results)
    return Response(
        allow_replication_factor_change=may_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[
            Response.Topic(
                name=topic.name,
                partitions=[
                    Response.Partition(
                        partition_index=result.partition, error_code=result.error_code, error_message=result.message
                    )
                    for _, result in zip(topic.partitions, told)  # `told` goes on with the next topic
                ],
            )
            for topic in body.topics
        ],
    )
