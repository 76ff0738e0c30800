"""Changes of settings that a request asks for, whichever of the two requests it is: one result per resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.handlers.describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from ottla.controller.configs import ConfigChange, ConfigEntry
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

UNCHANGEABLE = {
    BROKER: "settings of a broker cannot be changed while it runs yet; set them in its file or with --override",
    BROKER_LOGGER: "levels of loggers cannot be changed while the broker runs yet",
    CLIENT_METRICS: "clients' own metrics are not collected",
    GROUP: "groups have no settings yet",
}


class Altered(NamedTuple):
    type: int
    name: str
    error_code: ErrorCode
    message: str | None


async def alter(
    broker: Broker, asked: Sequence[tuple[int, str, Sequence[ConfigEntry]]], *, replace: bool, validate_only: bool
) -> list[Altered]:
    """`asked`: type and name of a resource, and what to change."""
    changes = [ConfigChange(name, entries, replace) for type, name, entries in asked if type == TOPIC]
    done = iter(await broker.controller.alter_topic_configs(changes, validate_only=validate_only) if changes else ())
    results = []
    for type, name, _ in asked:
        if type == TOPIC:
            result = next(done)
            results.append(Altered(type, name, result.error_code, result.message))
        else:
            why = UNCHANGEABLE.get(type, f"there are no resources of type {type}")
            results.append(Altered(type, name, ErrorCode.INVALID_REQUEST, why))
    return results
