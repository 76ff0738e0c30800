"""DescribeConfigs (32), versions 0-4.

Settings with their values, and where each value comes from. No names, or an empty list of names, mean all settings;
names that do not exist are passed over.

    resource type      name                  answer
    topic (2)          a topic               its settings, from its overrides, the broker's settings or the defaults
    broker (4)         this broker's id      the broker's settings
                       empty                 defaults set for all brokers at run time: there are none
    broker logger (8)  this broker's id      levels of the loggers of this process
    client metrics (16), group (32)          no settings are kept for them: none
    anything else                            INVALID_REQUEST, as for another broker's id or an empty name

- v0: whether a value is the default. v1: its source, and on request its synonyms: everything that could have supplied
  it, the winner first (KIP-226). v3: type, and on request documentation (KIP-569).
- Passwords are never shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.config.describe import ConfigRow, ConfigSource, describe_broker, describe_topic
from ottla.controller.names import why_illegal
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
LOGGER_SOURCE = 6
LEVELS = {"NOTSET": "TRACE", "WARNING": "WARN", "CRITICAL": "FATAL"}  # Kafka's names; the others are the same


class _Refused(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@handles("DescribeConfigs", 0, 4)
def describe_configs(
    broker: Broker, request: Request, body: messages.DescribeConfigsRequest
) -> messages.DescribeConfigsResponse:
    return messages.DescribeConfigsResponse(results=[_result(broker, asked, body) for asked in body.resources])


def _result(
    broker: Broker, asked: messages.DescribeConfigsRequest.Resource, body: messages.DescribeConfigsRequest
) -> messages.DescribeConfigsResponse.Result:
    result = messages.DescribeConfigsResponse.Result(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
    names = asked.configuration_keys or None
    try:
        if asked.resource_type == BROKER_LOGGER:
            _check_own_id(broker, asked.resource_name)
            result.configs = _loggers(names)
        else:
            rows = _rows(broker, asked.resource_type, asked.resource_name, names)
            result.configs = [_config(row, body) for row in rows]
    except _Refused as refused:
        result.error_code, result.error_message = refused.code, str(refused)
    return result


def _rows(broker: Broker, type: int, name: str, names: Iterable[str] | None) -> list[ConfigRow]:
    if type == TOPIC:
        fault = why_illegal(name)
        if fault is not None:
            raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        topic = broker.image.topics.get(name)
        if topic is None:
            raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return describe_topic(topic.configs, broker.config, names)
    if type == BROKER:
        if not name:
            return []
        _check_own_id(broker, name)
        return describe_broker(broker.config, names)
    if type in (CLIENT_METRICS, GROUP):
        if not name:
            raise _Refused(ErrorCode.INVALID_REQUEST, "the resource has no name")
        return []
    raise _Refused(ErrorCode.INVALID_REQUEST, f"there are no resources of type {type}")


def _check_own_id(broker: Broker, name: str) -> None:
    own = broker.config.node_id
    if not (name.isascii() and name.isdigit() and int(name) == own):
        raise _Refused(ErrorCode.INVALID_REQUEST, f"this is broker {own}; ask broker {name!r} itself")


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


def _loggers(names: Iterable[str] | None) -> list[messages.DescribeConfigsResponse.Config]:
    known = logging.root.manager.loggerDict
    loggers: dict[str, logging.Logger] = {"root": logging.root}
    loggers |= {name: logger for name, logger in sorted(known.items()) if isinstance(logger, logging.Logger)}
    wanted = loggers if names is None else [name for name in names if name in loggers]
    configs = []
    for name in wanted:
        level = logging.getLevelName(loggers[name].getEffectiveLevel())
        configs.append(
            messages.DescribeConfigsResponse.Config(
                name=name, value=LEVELS.get(level, level), config_source=LOGGER_SOURCE, documentation=None
            )
        )
    return configs
