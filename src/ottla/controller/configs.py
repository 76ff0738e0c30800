"""What becomes of requests to change settings: decisions only, no I/O.

Each resource gets its own result; one bad entry does not spoil the others, but within a resource all entries hold or
none.

    SET         an override
    DELETE      back to what stands behind it; fine where there is no override
    APPEND      items are added to a list, SUBTRACT: taken from it; the list is the value that holds now, wherever it
                comes from (KIP-339)
    replace     (AlterConfigs) the entries are all overrides that there are afterwards

    resource            name                    overrides are checked by
    topic (2)           a topic                 config/topic.py
    broker (4)          this broker's id, or    config/dynamic.py; with them, what the broker then goes by as a whole
                        "" for all brokers
    client metrics (16) any but the empty       config/client_metrics.py
    group (32)          any but the empty       config/group.py

Refused with INVALID_REQUEST: resources and keys named twice, an unknown operation, a missing value, a name that no such
resource can have, a broker's setting that cannot be changed (there) at run time. With INVALID_CONFIG: keys that do not
exist, values that are not legal. Topics have errors of their own for illegal and unknown names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import ClientMetricsConfig, validate_client_metrics
from ottla.config.definitions import LIST, Setting, Value
from ottla.config.dynamic import CLUSTER, Unchangeable, brokers_key, changeable, overlaid
from ottla.config.errors import ConfigError, UnknownKey, nearest
from ottla.config.group import GroupConfig, validate_group_overrides
from ottla.config.topic import DROPPED, TIMESTAMP_DIFFERENCE, TopicConfig, validate_topic_overrides
from ottla.controller.image import ClusterImage
from ottla.controller.names import why_illegal
from ottla.protocol.errors import ErrorCode


class ResourceType(IntEnum):
    """With the numbers of the protocol. Loggers are the broker's own affair (broker/loggers.py)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = ResourceType

MAX_VALUE = 2**15 - 1  # what a reply can show again


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
    type: int
    name: str
    entries: Sequence[ConfigEntry]
    replace: bool = False


class ConfigResult(NamedTuple):
    """`overrides` are all that the resource has afterwards; None if the change was refused."""

    type: int
    name: str
    error_code: ErrorCode
    message: str | None = None
    overrides: dict[str, str] | None = None


class Refused(Exception):
    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


def plan_alteration(asked: Sequence[ConfigChange], image: ClusterImage, config: BrokerConfig) -> Iterator[ConfigResult]:
    """One result per change. `config` is this broker's, as it holds now."""
    times = Counter((change.type, change.name) for change in asked)
    for change in asked:
        try:
            if times[change.type, change.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{change.name!r} is named more than once")
            check_shape(change.entries)
            plan = _Plan(change, image, config)
            overrides = plan.afterwards()
            if change.type == BROKER:
                config = plan.as_broker(overrides)  # those that follow are judged by it
            yield ConfigResult(change.type, change.name, ErrorCode.NONE, None, overrides)
        except Refused as refused:
            yield ConfigResult(change.type, change.name, refused.error_code, str(refused))
        except Unchangeable as error:
            yield ConfigResult(change.type, change.name, ErrorCode.INVALID_REQUEST, str(error))
        except ConfigError as error:
            yield ConfigResult(change.type, change.name, ErrorCode.INVALID_CONFIG, str(error))


def check_shape(entries: Sequence[ConfigEntry]) -> None:
    """What holds for entries of every kind."""
    for name, times in Counter(entry.name for entry in entries).items():
        if times > 1:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name} is named {times} times")
    for entry in entries:
        if entry.operation not in set(Operation):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{entry.name}: there is no operation {entry.operation}")
        if entry.value is None and entry.operation != Operation.DELETE:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{entry.name} has no value")


def check_own_id(name: str, config: BrokerConfig) -> None:
    """Refused where another broker is named: each answers for itself."""
    if not (name.isascii() and name.isdigit()):
        raise Refused(ErrorCode.INVALID_REQUEST, f"a broker is named by its id, a number; this is {name!r}")
    if name != str(config.node_id):
        raise Refused(ErrorCode.INVALID_REQUEST, f"this is broker {config.node_id}; ask broker {name} itself")


class _Plan:
    """One change on its way: where it goes, and what is there."""

    def __init__(self, change: ConfigChange, image: ClusterImage, config: BrokerConfig) -> None:
        self._change = change
        self._image = image
        self._config = config
        self._now = self._find()

    def _find(self) -> dict[str, str]:
        """The overrides that the resource has."""
        type, name, image = self._change.type, self._change.name, self._image
        if type == TOPIC and name:
            fault = why_illegal(name)
            if fault is not None:
                raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
            topic = image.topics.get(name)
            if topic is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
            return topic.configs
        if type == BROKER:
            if name != CLUSTER:
                check_own_id(name, self._config)
            return image.broker_configs.get(name, {})
        if type not in (TOPIC, GROUP, CLIENT_METRICS):
            raise Refused(ErrorCode.INVALID_REQUEST, f"there are no settings of resources of type {type} to change")
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "the resource has no name")
        return (image.group_configs if type == GROUP else image.client_metrics).get(name, {})

    def afterwards(self) -> dict[str, str]:
        overrides = {} if self._change.replace else dict(self._now)
        for entry in self._change.entries:
            self._apply(entry, overrides)
        for key, text in overrides.items():
            if len(text) > MAX_VALUE:  # a list that was appended to
                raise ConfigError(key, text, f"a value has at most {MAX_VALUE} characters")
        return self._checked(overrides)

    def _checked(self, overrides: dict[str, str]) -> dict[str, str]:
        type = self._change.type
        if type == TOPIC:
            return validate_topic_overrides(overrides)
        if type == GROUP:
            return validate_group_overrides(overrides, self._config)
        if type == CLIENT_METRICS:
            return validate_client_metrics(overrides)
        self.as_broker(overrides)
        return overrides

    def as_broker(self, overrides: Mapping[str, str]) -> BrokerConfig:
        """What this broker would go by."""
        if self._change.name == CLUSTER:
            return overlaid(self._config, overrides, self._config.overrides)
        return overlaid(self._config, self._config.overrides_for_all, overrides)

    def _setting(self, name: str) -> Setting:
        type = self._change.type
        if type == BROKER:
            return changeable(name, for_all=self._change.name == CLUSTER)
        names = {TOPIC: TopicConfig.names, GROUP: GroupConfig.names, CLIENT_METRICS: ClientMetricsConfig.names}[
            ResourceType(type)
        ]
        known = names.get(name)
        if known is None:
            raise UnknownKey(name, None, nearest(name, list(names)))
        return known

    def _apply(self, entry: ConfigEntry, overrides: dict[str, str]) -> None:
        if self._change.type == TOPIC and (entry.name in DROPPED or entry.name == TIMESTAMP_DIFFERENCE):
            _apply_old(entry, overrides)
            return
        if self._change.type == BROKER and entry.operation == Operation.DELETE:
            overrides.pop(brokers_key(entry.name), None)
            return
        known = self._setting(entry.name)
        if entry.operation == Operation.DELETE:
            overrides.pop(known.key, None)
        elif entry.operation == Operation.SET:
            known.parse(entry.value)
            overrides[known.key] = entry.value or ""
        elif known.type is not LIST:
            word = "append to" if entry.operation == Operation.APPEND else "subtract from"
            raise ConfigError(entry.name, entry.value, f"only lists can be changed so: cannot {word} it")
        else:
            overrides[known.key] = ",".join(_items(self._holds(known, overrides), entry))

    def _holds(self, known: Setting, overrides: dict[str, str]) -> Value:
        if self._change.type == TOPIC:
            return TopicConfig.resolve(overrides, self._config).value(known.key)
        if self._change.type == BROKER:
            return self.as_broker(overrides).value(known.key)
        return known.parse(overrides[known.key]) if known.key in overrides else known.default


def _items(current: Sequence[str], entry: ConfigEntry) -> list[str]:
    named = [item.strip() for item in (entry.value or "").split(",") if item.strip()]
    if entry.operation == Operation.APPEND:
        return [*current, *(item for item in named if item not in current)]
    return [item for item in current if item not in named]


def _apply_old(entry: ConfigEntry, overrides: dict[str, str]) -> None:
    """A topic's key that Kafka has dropped: with no effect, or the older name of two others."""
    if entry.operation not in (Operation.SET, Operation.DELETE):
        raise ConfigError(entry.name, entry.value, "only lists can be changed so")
    if entry.name == TIMESTAMP_DIFFERENCE:
        replaced: Mapping[str, str] = validate_topic_overrides({TIMESTAMP_DIFFERENCE: entry.value or "0"})
        for key, value in replaced.items():
            if entry.operation == Operation.DELETE:
                overrides.pop(key, None)
            else:
                overrides[key] = value
