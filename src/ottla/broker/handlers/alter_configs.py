"""AlterConfigs (33), versions 0-2.

A resource's overrides are replaced: what the request does not name goes back to what stands behind it. That is a trap
when two clients change the same resource, hence IncrementalAlterConfigs (KIP-339); the rest is as there, except that
levels of loggers are not to be had by this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.altering import Altered, alter
from ottla.broker.dispatch import Request, handles
from ottla.controller.configs import ConfigChange, ConfigEntry
from ottla.protocol import messages

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("AlterConfigs", 0, 2)
async def alter_configs(
    broker: Broker, request: Request, body: messages.AlterConfigsRequest
) -> messages.AlterConfigsResponse:
    asked = [
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigEntry(config.name, config.value) for config in resource.configs],
            replace=True,
        )
        for resource in body.resources
    ]
    results = await alter(broker, asked, validate_only=body.validate_only)
    return messages.AlterConfigsResponse(responses=[_resource(result) for result in results])


def _resource(result: Altered) -> messages.AlterConfigsResponse.Resource:
    return messages.AlterConfigsResponse.Resource(
        error_code=result.error_code,
        error_message=result.message,
        resource_type=result.type,
        resource_name=result.name,
    )
