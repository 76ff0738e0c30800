"""Group configuration: the settings of one consumer group, and the broker's settings behind and around them (KIP-848).

A group's override must lie within the broker's bounds (`group.consumer.min.…`, `group.consumer.max.…`), and its session
must outlast its heartbeat. Overrides may be set before the group exists. Those of share groups and Streams groups are
left out with the groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.config.definitions import CLUSTER_WIDE, INT, LIST, STRING, Configuration, Legal, at_least, canonical, setting
from ottla.config.errors import ConfigError, UnknownKey, nearest
from ottla.config.log_defaults import LogDefaults

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

ASSIGNOR_CLASSES = {  # as Kafka spells them in full
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
ASSIGNORS = ("uniform", "range")
SERVED_ASSIGNORS = Legal(
    "uniform, range, or both",
    lambda value: bool(value) and all(ASSIGNOR_CLASSES.get(one, one) in ASSIGNORS for one in value),
)
POLICY = Legal(
    "one of bidirectional, upgrade, downgrade, disabled",
    lambda value: value.lower() in ("bidirectional", "upgrade", "downgrade", "disabled"),
)
PROTOCOLS = Legal(
    "classic, and any of consumer, share, streams",
    lambda value: "classic" in value and set(value) <= {"classic", "consumer", "share", "streams"},
)


class GroupDefaults(LogDefaults):
    """The broker's settings for groups of the new protocol: defaults, and the bounds of what a group may set."""

    group_consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Default of a group's consumer.session.timeout.ms.",
    )
    group_consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Least consumer.session.timeout.ms that a group may set.",
    )
    group_consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        at_least(1),
        "Largest consumer.session.timeout.ms that a group may set.",
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "Default of a group's consumer.heartbeat.interval.ms.",
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "Least consumer.heartbeat.interval.ms that a group may set.",
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        at_least(1),
        "Largest consumer.heartbeat.interval.ms that a group may set.",
    )
    group_consumer_assignment_interval_ms: int = setting(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "Default of a group's consumer.assignment.interval.ms.",
        dynamic=CLUSTER_WIDE,
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        at_least(0),
        "Least consumer.assignment.interval.ms that a group may set.",
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        at_least(0),
        "Largest consumer.assignment.interval.ms that a group may set.",
    )
    group_consumer_assignors: list[str] = setting(
        "group.consumer.assignors",
        LIST,
        list(ASSIGNORS),
        SERVED_ASSIGNORS,
        "Assignors that members may ask for; the first is that of groups whose members ask for none.",
    )
    group_consumer_max_size: int = setting(
        "group.consumer.max.size", INT, 2_147_483_647, at_least(1), "Most members of one consumer group."
    )
    group_consumer_migration_policy: str = setting(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        POLICY,
        "Which groups move to the other protocol while they work: classic ones that a member of the new protocol joins "
        "(upgrade), those that the last such member has left (downgrade), both or none.",
    )
    group_coordinator_rebalance_protocols: list[str] = setting(
        "group.coordinator.rebalance.protocols",
        LIST,
        ["classic", "consumer"],
        PROTOCOLS,
        "Protocols that groups may use; those of share and Streams groups have no effect.",
    )


def assignor_names(broker: BrokerConfig) -> tuple[str, ...]:
    """The assignors that are served, by their short names."""
    return tuple(ASSIGNOR_CLASSES.get(name, name) for name in broker.group_consumer_assignors)


class GroupConfig(Configuration):
    """What holds for one group."""

    consumer_session_timeout_ms: int = setting(
        "consumer.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        "Silence after which a member is taken for dead.",
        synonyms=(("group.consumer.session.timeout.ms", 1),),
    )
    consumer_heartbeat_interval_ms: int = setting(
        "consumer.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "How often members are told to report.",
        synonyms=(("group.consumer.heartbeat.interval.ms", 1),),
    )
    consumer_assignment_interval_ms: int = setting(
        "consumer.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "How long a target of the group stands at least, before another is worked out.",
        synonyms=(("group.consumer.assignment.interval.ms", 1),),
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        """What holds for a group with these (checked) overrides on this broker.

        The broker's bounds may have become narrower since an override was set: then the nearest bound holds.
        """
        config = cls()
        for known in cls.settings.values():
            text = overrides.get(known.key)
            if text is None:
                value = broker.value(known.synonyms[0][0])
            else:
                least, most = _bounds(known.key, broker)
                value = min(max(known.parse(text), least), most)
            config.__dict__[known.attribute] = value
        return config


def _bounds(key: str, broker: BrokerConfig) -> tuple[int, int]:
    if key == "consumer.session.timeout.ms":
        return broker.group_consumer_min_session_timeout_ms, broker.group_consumer_max_session_timeout_ms
    if key == "consumer.assignment.interval.ms":
        return broker.group_consumer_min_assignment_interval_ms, broker.group_consumer_max_assignment_interval_ms
    return broker.group_consumer_min_heartbeat_interval_ms, broker.group_consumer_max_heartbeat_interval_ms


def validate_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, str]:
    """The overrides as they are to be stored; ConfigError for the first that is not legal."""
    checked, rest = canonical(GroupConfig.names, overrides)
    for name, text in rest.items():
        raise UnknownKey(name, text, nearest(name, list(GroupConfig.names)))
    values = {}
    for key, known in GroupConfig.settings.items():
        behind = known.synonyms[0][0]
        if key not in checked:
            values[key] = broker.value(behind)
            continue
        values[key] = value = known.parse(checked[key])
        least, most = _bounds(key, broker)
        if not least <= value <= most:
            raise ConfigError(key, checked[key], f"the broker's bounds are {least} to {most}")
    session, heartbeat = values["consumer.session.timeout.ms"], values["consumer.heartbeat.interval.ms"]
    if session <= heartbeat:
        raise ConfigError(
            "consumer.session.timeout.ms", str(session), f"must exceed consumer.heartbeat.interval.ms={heartbeat}"
        )
    return checked


def check_group_defaults(broker: BrokerConfig) -> None:
    """Whether the broker's own defaults lie within its bounds."""
    for key, known in GroupConfig.settings.items():
        behind, (least, most) = known.synonyms[0][0], _bounds(key, broker)
        if not least <= broker.value(behind) <= most:
            raise ConfigError(behind, str(broker.value(behind)), f"must be within its own bounds, {least} to {most}")
