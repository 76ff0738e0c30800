"""Settings through the wire, in few words: changed (`alter`, `replace`), shown (`describe`, `rows`)."""

from __future__ import annotations

from typing import Any

from ottla.protocol import messages
from support.wire import Wire

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def alter(
    wire: Wire,
    type: int,
    name: str,
    *entries: tuple[int, str, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> tuple[int, str | None]:
    """IncrementalAlterConfigs for one resource: error and message."""
    Asked = messages.IncrementalAlterConfigsRequest
    configs = [Asked.Config(name=key, config_operation=operation, value=value) for operation, key, value in entries]
    resource = Asked.Resource(resource_type=type, resource_name=name, configs=configs)
    (answer,) = wire.call(Asked(resources=[resource], validate_only=validate_only), version).responses
    assert (answer.resource_type, answer.resource_name) == (type, name)
    return answer.error_code, answer.error_message


def replace(wire: Wire, type: int, name: str, configs: dict[str, str | None], version: int = 2) -> int:
    """AlterConfigs for one resource: the error."""
    Asked = messages.AlterConfigsRequest
    entries = [Asked.Config(name=key, value=value) for key, value in configs.items()]
    resource = Asked.Resource(resource_type=type, resource_name=name, configs=entries)
    (answer,) = wire.call(Asked(resources=[resource]), version).responses
    return int(answer.error_code)


def describe(wire: Wire, type: int, name: str, *keys: str, version: int = 4, **more: Any) -> Any:
    Asked = messages.DescribeConfigsRequest
    resource = Asked.Resource(resource_type=type, resource_name=name, configuration_keys=list(keys) or None)
    (result,) = wire.call(Asked(resources=[resource], **more), version).results
    return result


def rows(wire: Wire, type: int, name: str, *keys: str) -> dict[str, tuple[str | None, int]]:
    """Values and their sources."""
    result = describe(wire, type, name, *keys)
    assert result.error_code == 0, result
    return {row.name: (row.value, row.config_source) for row in result.configs}
