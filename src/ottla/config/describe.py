"""What DescribeConfigs answers: each setting's value, where it comes from, and what else could have supplied it.

A row's synonyms are every layer that has a value for the setting, the winning one first: the topic's override, what the
broker was started with, the default. A topic's row shows the broker's settings behind it under their own names and in
their own units, as Kafka does (`retention.ms=604800000`, synonym `log.retention.hours=168`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import READ_ONLY, ConfigType, Setting
from ottla.config.log_defaults import SYNONYM_GROUPS
from ottla.config.topic import TopicConfig, validate_topic_overrides


class ConfigSource(IntEnum):
    """Where a value comes from, with the numbers of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigRow(NamedTuple):
    name: str
    value: str | None  # None where it is unset or sensitive
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: list[Synonym]
    doc: str


def describe_topic(
    overrides: Mapping[str, str | None], broker: BrokerConfig, names: Iterable[str] | None = None
) -> list[ConfigRow]:
    """The rows of a topic; of the named settings only, where names are given (unknown ones have no row)."""
    stored = validate_topic_overrides(overrides)
    config = TopicConfig.resolve(stored, broker)
    rows = []
    for name, known in _asked(TopicConfig, names):
        value = known.show(config.value(known.key))
        synonyms = [Synonym(known.key, value, ConfigSource.DYNAMIC_TOPIC)] if known.key in stored else []
        synonyms += _broker_synonyms([synonym for synonym, _ in known.synonyms], broker)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        rows.append(ConfigRow(name, value, source, known.type, False, False, synonyms, known.doc))
    return rows


def describe_broker(broker: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigRow]:
    """The rows of a broker; of the named settings only, where names are given (unknown ones have no row)."""
    rows = []
    for name, known in _asked(BrokerConfig, names):
        synonyms = _broker_synonyms(SYNONYM_GROUPS.get(known.key, (known.key,)), broker)
        rows.append(
            ConfigRow(
                name=name,
                value=None if known.sensitive else known.show(broker.value(known.key)),
                source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
                type=known.type,
                read_only=known.dynamic == READ_ONLY,
                sensitive=known.sensitive,
                synonyms=synonyms,
                doc=known.doc,
            )
        )
    return rows


def _asked(kind: type[TopicConfig] | type[BrokerConfig], names: Iterable[str] | None) -> list[tuple[str, Setting]]:
    if names is None:
        return sorted((name, known) for known in kind.settings.values() for name in (known.key, *known.twins))
    return [(name, kind.names[name]) for name in names if name in kind.names]


def _broker_synonyms(keys: Iterable[str], broker: BrokerConfig) -> list[Synonym]:
    settings = [BrokerConfig.settings[key] for key in keys]
    set_ones = [
        Synonym(known.key, _hidden(known, broker.value(known.key)), ConfigSource.STATIC_BROKER)
        for known in settings
        if known.key in broker.given
    ]
    defaults = [
        Synonym(known.key, _hidden(known, known.default), ConfigSource.DEFAULT)
        for known in settings
        if known.default is not None
    ]
    return set_ones + defaults


def _hidden(known: Setting, value: object) -> str | None:
    return None if known.sensitive else known.show(value)
