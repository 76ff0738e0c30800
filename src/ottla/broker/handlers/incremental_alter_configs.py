"""IncrementalAlterConfigs (44), versions 0-1.

Single settings of topics, brokers, groups, subscriptions to clients' metrics and loggers are set, given back to what
stands behind them, or changed as lists (controller/configs.py and broker/loggers.py say how, and what is refused). The
reply goes out when the change is stored (levels of loggers are not) and holds on this broker: the next append, fetch,
connection or check goes by it. With `validate_only` the same is checked and nothing is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.altering import Altered, alter
from ottla.broker.dispatch import Request, handles
from ottla.controller.configs import ConfigChange, ConfigEntry
from ottla.protocol import messages

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("IncrementalAlterConfigs", 0, 1)
async def incremental_alter_configs(
    broker: Broker, request: Request, body: messages.IncrementalAlterConfigsRequest
) -> messages.IncrementalAlterConfigsResponse:
    asked = [
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigEntry(config.name, config.value, config.config_operation) for config in resource.configs],
        )
        for resource in body.resources
    ]
    results = await alter(broker, asked, validate_only=body.validate_only)
    return messages.IncrementalAlterConfigsResponse(responses=[_resource(result) for result in results])


def _resource(result: Altered) -> messages.IncrementalAlterConfigsResponse.Resource:
    return messages.IncrementalAlterConfigsResponse.Resource(
        error_code=result.error_code,
        error_message=result.message,
        resource_type=result.type,
        resource_name=result.name,
    )
