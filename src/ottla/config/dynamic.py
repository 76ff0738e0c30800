"""Changing a broker's settings while it runs: which may be changed where, and what then holds (KIP-226).

For each setting, in this order: the override of this broker, the override for all brokers of the cluster, what the
broker was started with, the default. Of names for one thing in several units the smallest unit still wins, wherever
it is set: `log.retention.ms` for the cluster beats `log.retention.hours` in the file.

A setting's `dynamic` says where it may be changed: nowhere (`read-only`), on one broker (`per-broker`), or on one and
on all (`cluster-wide`). What would change nothing is refused too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import PER_BROKER, READ_ONLY, Setting
from ottla.config.errors import ConfigError, UnknownKey, nearest

if TYPE_CHECKING:
    from ottla.config.definitions import Value

CLUSTER = ""  # the name under which overrides for all brokers are asked for


class Unchangeable(Exception):
    """A setting that exists, and that cannot be changed there at run time."""


def brokers_key(name: str) -> str:
    """Today's key of a setting of Kafka's brokers, whether it can be changed here or not; UnknownKey for any other.

    To take back what was never set does no harm, and tools do it to be sure.
    """
    known = BrokerConfig.names.get(name)
    if known is not None:
        return known.key
    if _why_without_effect(name) is None:
        raise UnknownKey(name, None, nearest(name, list(BrokerConfig.names)))
    return name


def _why_without_effect(name: str) -> str | None:
    from ottla.config.without_effect import reason_of

    return reason_of(name)


def changeable(name: str, *, for_all: bool) -> Setting:
    """The setting of that name; UnknownKey where there is none, Unchangeable where it cannot be changed."""
    known = BrokerConfig.names.get(name)
    if known is None:
        raise Unchangeable(f"{brokers_key(name)} has no effect in ottla: {_why_without_effect(name)}")
    if known.no_effect:
        raise Unchangeable(f"{name} has no effect in ottla: {known.no_effect}")
    if known.dynamic == READ_ONLY:
        raise Unchangeable(
            f"{name} cannot be changed while the broker runs: give it in the broker's file or with --override, and "
            "start the broker again"
        )
    if known.dynamic == PER_BROKER and for_all:
        raise Unchangeable(f"{name} cannot be changed for all brokers at once: name the broker's id")
    return known


def overlaid(config: BrokerConfig, for_all: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
    """What holds on a broker with these overrides (under their keys of today); ConfigError where they cannot hold."""
    values: dict[str, Value] = {}
    for layer in (for_all, own):
        for key, text in layer.items():
            known = BrokerConfig.settings[key]
            values[known.attribute] = known.parse(text)
    if values.get("max_connections") == 0:
        raise ConfigError("max.connections", "0", "nobody could connect any more, nor take it back")
    return config.with_overrides(values, dict(for_all), dict(own))


def usable(overrides: Mapping[str, str], *, for_all: bool) -> tuple[dict[str, str], list[str]]:
    """Of stored overrides those that can hold, and what to say of the others: another release may have written them."""
    good, told = {}, []
    for name, text in overrides.items():
        try:
            known = changeable(name, for_all=for_all)
            known.parse(text)
        except (Unchangeable, ConfigError) as error:
            told.append(str(error))
        else:
            good[known.key] = text
    return good, told
