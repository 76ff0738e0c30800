"""What becomes of requests to change topics' settings: decisions only, no I/O.

Each topic gets its own result; one bad entry does not spoil the others, but within a topic all entries hold or none.

    SET         the topic's own value
    DELETE      back to the broker's; fine where the topic has none
    APPEND      items are added to a list, SUBTRACT: taken from it; the list is the value that holds now, wherever it
                comes from (KIP-339)
    replace     (AlterConfigs) the entries are all that the topic has afterwards

Refused are: topics named twice, keys named twice, an unknown operation, a missing value (INVALID_REQUEST), an illegal
or unknown topic, and keys or values that no topic may have (INVALID_CONFIG).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import LIST
from ottla.config.errors import ConfigError, UnknownKey, nearest
from ottla.config.topic import DROPPED, TIMESTAMP_DIFFERENCE, TopicConfig, validate_topic_overrides
from ottla.controller.image import ClusterImage, TopicImage
from ottla.controller.names import why_illegal
from ottla.protocol.errors import ErrorCode


class Operation(IntEnum):
    """With the numbers of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    operation: int = Operation.SET


class ConfigChange(NamedTuple):
    topic: str
    entries: Sequence[ConfigEntry]
    replace: bool = False


class ConfigResult(NamedTuple):
    """`image` is the topic as it is to be; None if the change was refused."""

    topic: str
    error_code: ErrorCode
    message: str | None = None
    image: TopicImage | None = None


class _Refused(Exception):
    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


def plan_alteration(asked: Sequence[ConfigChange], image: ClusterImage, config: BrokerConfig) -> list[ConfigResult]:
    """One result per change."""
    times = Counter(change.topic for change in asked)
    results = []
    for change in asked:
        try:
            if times[change.topic] > 1:
                raise _Refused(ErrorCode.INVALID_REQUEST, f"topic {change.topic!r} is named more than once")
            topic = _find(change.topic, image)
            _check_shape(change.entries)
            overrides = {} if change.replace else dict(topic.configs)
            for entry in change.entries:
                _apply(entry, overrides, config)
            checked = validate_topic_overrides(overrides)
        except _Refused as refused:
            results.append(ConfigResult(change.topic, refused.error_code, str(refused)))
        except ConfigError as error:
            results.append(ConfigResult(change.topic, ErrorCode.INVALID_CONFIG, str(error)))
        else:
            results.append(ConfigResult(change.topic, ErrorCode.NONE, None, topic._replace(configs=checked)))
    return results


def _find(name: str, image: ClusterImage) -> TopicImage:
    fault = why_illegal(name)
    if fault is not None:
        raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    topic = image.topics.get(name)
    if topic is None:
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return topic


def _check_shape(entries: Sequence[ConfigEntry]) -> None:
    for name, times in Counter(entry.name for entry in entries).items():
        if times > 1:
            raise _Refused(ErrorCode.INVALID_REQUEST, f"{name} is named {times} times")
    for entry in entries:
        if entry.operation not in set(Operation):
            raise _Refused(ErrorCode.INVALID_REQUEST, f"{entry.name}: there is no operation {entry.operation}")
        if entry.value is None and entry.operation != Operation.DELETE:
            raise _Refused(ErrorCode.INVALID_REQUEST, f"{entry.name} has no value")


def _apply(entry: ConfigEntry, overrides: dict[str, str], config: BrokerConfig) -> None:
    if entry.name in DROPPED or entry.name == TIMESTAMP_DIFFERENCE:
        _apply_old(entry, overrides)
        return
    known = TopicConfig.names.get(entry.name)
    if known is None:
        raise UnknownKey(entry.name, entry.value, nearest(entry.name, list(TopicConfig.names)))
    if entry.operation == Operation.DELETE:
        overrides.pop(known.key, None)
    elif entry.operation == Operation.SET:
        overrides[known.key] = entry.value or ""
    elif known.type is not LIST:
        word = "append to" if entry.operation == Operation.APPEND else "subtract from"
        raise ConfigError(entry.name, entry.value, f"only lists can be changed so: cannot {word} it")
    else:
        items = _items(TopicConfig.resolve(overrides, config).value(known.key), entry)
        overrides[known.key] = ",".join(items)


def _items(current: Sequence[str], entry: ConfigEntry) -> list[str]:
    named = [item.strip() for item in (entry.value or "").split(",") if item.strip()]
    if entry.operation == Operation.APPEND:
        return [*current, *(item for item in named if item not in current)]
    return [item for item in current if item not in named]


def _apply_old(entry: ConfigEntry, overrides: dict[str, str]) -> None:
    """A key that Kafka has dropped: with no effect, or the older name of two others."""
    if entry.operation not in (Operation.SET, Operation.DELETE):
        raise ConfigError(entry.name, entry.value, "only lists can be changed so")
    if entry.name == TIMESTAMP_DIFFERENCE:
        replaced: Mapping[str, str] = validate_topic_overrides({TIMESTAMP_DIFFERENCE: entry.value or "0"})
        for key, value in replaced.items():
            if entry.operation == Operation.DELETE:
                overrides.pop(key, None)
            else:
                overrides[key] = value
