"""DescribeCluster (60), versions 0-2.

The cluster's id, controller and brokers (KIP-700).

- v1: which endpoints are asked for (KIP-919). Here are those of brokers (1): controllers (2) are
  MISMATCHED_ENDPOINT_TYPE, anything else UNSUPPORTED_ENDPOINT_TYPE.
- v2: whether fenced brokers are wanted too (KIP-1073). Here brokers are registered and serving, or gone: none is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.nodes import NO_NODE_ID, reachable
from ottla.broker.operations import NOT_ASKED, ON_CLUSTER
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

BROKERS, CONTROLLERS = 1, 2


@handles("DescribeCluster", 0, 2)
def describe_cluster(
    broker: Broker, request: Request, body: messages.DescribeClusterRequest
) -> messages.DescribeClusterResponse:
    if body.endpoint_type != BROKERS:
        known = body.endpoint_type == CONTROLLERS
        return messages.DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"this is an endpoint of brokers (type {BROKERS}), not of type {body.endpoint_type}",
            endpoint_type=BROKERS,
        )
    image, nodes = broker.image, reachable(broker, request)
    controller_is_there = any(node.id == image.controller_id for node in nodes)
    return messages.DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        endpoint_type=BROKERS,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id if controller_is_there else NO_NODE_ID,
        brokers=[
            messages.DescribeClusterResponse.Broker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=False
            )
            for node in nodes
        ],
        cluster_authorized_operations=ON_CLUSTER if body.include_cluster_authorized_operations else NOT_ASKED,
    )
