"""DescribeConfigs (32), versions 0-4.

Settings with their values, and where each value comes from. No names, or an empty list of names, mean all settings;
names that do not exist are passed over.

    resource type        name                  answer
    topic (2)            a topic               its settings, from its overrides, the broker's settings or the defaults
    broker (4)           this broker's id      the broker's settings
                         empty                 what is set for all brokers at run time, and only that
    broker logger (8)    this broker's id      levels of the loggers of this process
    client metrics (16)  any but the empty     the subscription of that name; defaults, where there is none
    group (32)           any but the empty     the group's settings, from its overrides or the broker's settings
    anything else                              INVALID_REQUEST, as for another broker's id or an empty name

- v0: whether a value is the default. v1: its source, and on request its synonyms: everything that could have supplied
  it, the winner first (KIP-226). v3: type, and on request documentation (KIP-569).
- Passwords are never shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker import loggers
from ottla.broker.dispatch import Request, handles
from ottla.config.describe import (
    ConfigRow,
    ConfigSource,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.controller.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, Refused, check_own_id
from ottla.controller.names import why_illegal
from ottla.controller.turns import Turns
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("DescribeConfigs", 0, 4)
async def describe_configs(
    broker: Broker, request: Request, body: messages.DescribeConfigsRequest
) -> messages.DescribeConfigsResponse:
    results, turns = [], Turns()
    for asked in body.resources:
        results.append(_result(broker, asked, body))
        await turns.give()  # tools ask for all topics at once
    return messages.DescribeConfigsResponse(results=results)


def _result(
    broker: Broker, asked: messages.DescribeConfigsRequest.Resource, body: messages.DescribeConfigsRequest
) -> messages.DescribeConfigsResponse.Result:
    result = messages.DescribeConfigsResponse.Result(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
    names = list(dict.fromkeys(asked.configuration_keys)) if asked.configuration_keys else None
    try:
        rows = _rows(broker, asked.resource_type, asked.resource_name, names)
        result.configs = [_config(row, body) for row in rows]
    except Refused as refused:
        result.error_code, result.error_message = refused.error_code, str(refused)
    return result


def _rows(broker: Broker, type: int, name: str, names: Sequence[str] | None) -> list[ConfigRow]:
    config, image = broker.config, broker.image
    if type == TOPIC:
        fault = why_illegal(name)
        if fault is not None:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        topic = image.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return describe_topic(topic.configs, config, names)
    if type == BROKER and not name:
        return describe_all_brokers(config, names)
    if type in (BROKER, BROKER_LOGGER):
        check_own_id(name, config)
        return describe_broker(config, names) if type == BROKER else loggers.describe(names)
    if type not in (CLIENT_METRICS, GROUP):
        raise Refused(ErrorCode.INVALID_REQUEST, f"there are no resources of type {type}")
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "the resource has no name")
    if type == GROUP:
        return describe_group(image.group_configs.get(name, {}), config, names)
    return describe_client_metrics(image.client_metrics.get(name, {}), names)


def _config(row: ConfigRow, body: messages.DescribeConfigsRequest) -> messages.DescribeConfigsResponse.Config:
    return messages.DescribeConfigsResponse.Config(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        is_default=row.source == ConfigSource.DEFAULT,
        config_source=row.source,
        is_sensitive=row.sensitive,
        synonyms=[
            messages.DescribeConfigsResponse.Synonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in row.synonyms
        ]
        if body.include_synonyms
        else [],
        config_type=row.type,
        documentation=row.doc if body.include_documentation else None,
    )
