"""Configs of topics, brokers, groups and the like: asked for and changed through DescribeConfigs and
IncrementalAlterConfigs, since confluent-kafka knows neither all kinds of resources nor the order of synonyms.

A broker's own configs are asked of that broker; all others of any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from ottla.cli.common.invocation import Failure
from ottla.cli.common.requests import Cluster, Connection, error_text
from ottla.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest


class Resource(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Where a value comes from, in Kafka's names."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


def source_name(number: int) -> str:
    try:
        return Source(number).name
    except ValueError:
        return f"UNKNOWN({number})"


SET, DELETE = 0, 1


def describe(
    cluster: Cluster, resource: Resource, names: Iterable[str], *, synonyms: bool = False
) -> dict[str, list[DescribeConfigsResponse.Config]]:
    """All configs of each, sorted by name."""
    found: dict[str, list[DescribeConfigsResponse.Config]] = {}
    for connection, some in _by_place(cluster, resource, names):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.Resource(resource_type=resource, resource_name=name, configuration_keys=None)
                for name in some
            ],
            include_synonyms=synonyms,
        )
        for result in connection.call(request).results:
            if result.error_code:
                raise Failure(error_text(result.error_code, result.error_message))
            found[result.resource_name] = sorted(result.configs, key=lambda config: str(config.name))
    return found


def alter(
    cluster: Cluster, resource: Resource, changes: Mapping[str, Mapping[str, str | None]], *, validate: bool = False
) -> None:
    """Set each key to its value, or remove it (None)."""
    for connection, names in _by_place(cluster, resource, changes):
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequest.Resource(
                    resource_type=resource,
                    resource_name=name,
                    configs=[
                        IncrementalAlterConfigsRequest.Config(
                            name=key, config_operation=DELETE if value is None else SET, value=value
                        )
                        for key, value in changes[name].items()
                    ],
                )
                for name in names
            ],
            validate_only=validate,
        )
        for result in connection.call(request).responses:
            if result.error_code:
                raise Failure(error_text(result.error_code, result.error_message))


def _by_place(cluster: Cluster, resource: Resource, names: Iterable[str]) -> list[tuple[Connection, list[str]]]:
    """Which connection to ask for which names."""
    of_broker = resource in (Resource.BROKER, Resource.BROKER_LOGGER)
    anywhere = [name for name in names if not (of_broker and name)]
    placed = [(cluster.broker(int(name)), [name]) for name in names if of_broker and name]
    return [*([(cluster.seed, anywhere)] if anywhere else []), *placed]
