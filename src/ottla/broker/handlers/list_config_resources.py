"""ListConfigResources (74), versions 0-1: the names of what has settings (KIP-1142).

- v0 (once ListClientMetricsResources) lists subscriptions to clients' metrics.
- v1 asks by type: topics, brokers, brokers' loggers, and those groups and subscriptions for which something is set. No
  types mean all; a type that does not exist is UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.controller.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("ListConfigResources", 0, 1)
def list_config_resources(
    broker: Broker, request: Request, body: messages.ListConfigResourcesRequest
) -> messages.ListConfigResourcesResponse:
    image = broker.image
    names: dict[int, Iterable[str]] = {
        GROUP: image.group_configs,
        CLIENT_METRICS: image.client_metrics,
        BROKER_LOGGER: map(str, image.brokers),
        BROKER: map(str, image.brokers),
        TOPIC: image.topics,
    }
    wanted = [CLIENT_METRICS] if request.version == 0 else body.resource_types or list(names)
    if not set(wanted) <= names.keys():
        return messages.ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    return messages.ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=[
            messages.ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=type)
            for type in names
            if type in wanted
            for name in sorted(names[type])
        ],
    )
