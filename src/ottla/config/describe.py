"""What DescribeConfigs answers: each setting's value, where it comes from, and what else could have supplied it.

A row's synonyms are every layer that has a value for the setting, the winning one first: the override of the topic (or
group), of the broker, of all brokers, what the broker was started with, the default. A topic's row shows the broker's
settings behind it under their own names and in their own units, as Kafka does (`retention.ms=604800000`, synonym
`log.retention.hours=168`). What has no value has no synonyms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.definitions import READ_ONLY, Configuration, Setting
from ottla.config.group import GroupConfig
from ottla.config.log_defaults import SYNONYM_GROUPS
from ottla.config.topic import TopicConfig, validate_topic_overrides


class ConfigSource(IntEnum):
    """Where a value comes from, with the numbers of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigRow(NamedTuple):
    name: str
    value: str | None  # None where it is unset or sensitive
    source: ConfigSource
    type: int  # a ConfigType, or 0 where it is none of them
    read_only: bool
    sensitive: bool
    synonyms: list[Synonym]
    doc: str | None


def describe_topic(
    overrides: Mapping[str, str | None], broker: BrokerConfig, names: Iterable[str] | None = None
) -> list[ConfigRow]:
    """The rows of a topic; of the named settings only, where names are given (unknown ones have no row)."""
    stored = validate_topic_overrides(overrides)
    config = TopicConfig.resolve(stored, broker)
    return [
        _behind_row(name, known, config, known.key in stored, ConfigSource.DYNAMIC_TOPIC, broker)
        for name, known in _asked(TopicConfig, names)
    ]


def describe_group(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Iterable[str] | None = None
) -> list[ConfigRow]:
    """The rows of a group, whether there is such a group or not."""
    config = GroupConfig.resolve(overrides, broker)
    return [
        _behind_row(name, known, config, known.key in overrides, ConfigSource.GROUP, broker)
        for name, known in _asked(GroupConfig, names)
    ]


def _behind_row(
    name: str, known: Setting, config: Configuration, is_set: bool, source: ConfigSource, broker: BrokerConfig
) -> ConfigRow:
    """Of a setting that the broker's settings stand behind."""
    value = known.show(config.value(known.key))
    synonyms = [Synonym(known.key, value, source)] if is_set else []
    synonyms += _broker_synonyms([synonym for synonym, _ in known.synonyms], broker)
    winner = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigRow(name, value, winner, known.type, False, False, synonyms, known.doc)


def describe_client_metrics(overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[ConfigRow]:
    """The rows of a subscription, whether there is such a one or not."""
    config = ClientMetricsConfig.resolve(overrides)
    rows = []
    for name, known in _asked(ClientMetricsConfig, names):
        value = known.show(config.value(known.key))
        is_set = known.key in overrides
        synonyms = [Synonym(known.key, value, ConfigSource.CLIENT_METRICS)] if is_set else []
        source = ConfigSource.CLIENT_METRICS if is_set else ConfigSource.DEFAULT
        rows.append(ConfigRow(name, value, source, known.type, False, False, synonyms, known.doc))
    return rows


def describe_broker(broker: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigRow]:
    """The rows of a broker; of the named settings only, where names are given (unknown ones have no row)."""
    rows = []
    for name, known in _asked(BrokerConfig, names):
        value = known.show(broker.value(known.key))
        synonyms = _broker_synonyms(SYNONYM_GROUPS.get(known.key, (known.key,)), broker) if value is not None else []
        rows.append(_broker_row(name, known, value, synonyms))
    return rows


def describe_all_brokers(broker: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigRow]:
    """The rows of what is set for all brokers at run time; nothing else has one."""
    stored = broker.overrides_for_all
    return [
        _broker_row(name, known, known.show(known.parse(stored[known.key])), [_override(known, stored, for_all=True)])
        for name, known in _asked(BrokerConfig, names)
        if known.key in stored
    ]


def _broker_row(name: str, known: Setting, value: str | None, synonyms: list[Synonym]) -> ConfigRow:
    return ConfigRow(
        name=name,
        value=None if known.sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=known.type,
        read_only=known.dynamic == READ_ONLY or bool(known.no_effect),
        sensitive=known.sensitive,
        synonyms=synonyms,
        doc=known.doc,
    )


def _asked(kind: type[Configuration], names: Iterable[str] | None) -> list[tuple[str, Setting]]:
    if names is None:
        return sorted((name, known) for known in kind.settings.values() for name in (known.key, *known.twins))
    return [(name, kind.names[name]) for name in names if name in kind.names]


def _broker_synonyms(keys: Iterable[str], broker: BrokerConfig) -> list[Synonym]:
    settings = [BrokerConfig.settings[key] for key in keys]
    found = [_override(known, broker.overrides) for known in settings if known.key in broker.overrides]
    found += [
        _override(known, broker.overrides_for_all, for_all=True)
        for known in settings
        if known.key in broker.overrides_for_all
    ]
    found += [
        Synonym(known.key, _hidden(known, known.parse(broker.given[known.key])), ConfigSource.STATIC_BROKER)
        for known in settings
        if known.key in broker.given
    ]
    found += [
        Synonym(known.key, _hidden(known, known.default), ConfigSource.DEFAULT)
        for known in settings
        if known.default is not None
    ]
    return found


def _override(known: Setting, stored: Mapping[str, str], *, for_all: bool = False) -> Synonym:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER if for_all else ConfigSource.DYNAMIC_BROKER
    return Synonym(known.key, _hidden(known, known.parse(stored[known.key])), source)


def _hidden(known: Setting, value: object) -> str | None:
    return None if known.sensitive else known.show(value)
