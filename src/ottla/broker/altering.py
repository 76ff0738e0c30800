"""Changes of settings that a request asks for, whichever of the two requests it is: one result per resource.

Loggers are this process's own; everything else is decided and stored by the controller (controller/configs.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker import loggers
from ottla.controller.configs import BROKER_LOGGER, ConfigChange, Refused, check_own_id
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class Altered(NamedTuple):
    type: int
    name: str
    error_code: ErrorCode
    message: str | None


async def alter(broker: Broker, asked: Sequence[ConfigChange], *, validate_only: bool) -> list[Altered]:
    kept = [change for change in asked if not _is_loggers(change)]
    done = iter(await broker.controller.alter_configs(kept, validate_only=validate_only) if kept else ())
    times = Counter(change.name for change in asked if _is_loggers(change))
    results = []
    for change in asked:
        if _is_loggers(change):
            results.append(_alter_loggers(broker, change, times[change.name] > 1, validate_only))
        else:
            result = next(done)
            results.append(Altered(change.type, change.name, result.error_code, result.message))
    return results


def _is_loggers(change: ConfigChange) -> bool:
    """AlterConfigs, which replaces everything, is not for loggers: to the controller they are an unknown kind."""
    return change.type == BROKER_LOGGER and not change.replace


def _alter_loggers(broker: Broker, change: ConfigChange, repeated: bool, validate_only: bool) -> Altered:
    try:
        if repeated:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{change.name!r} is named more than once")
        check_own_id(change.name, broker.config)
        loggers.alter(change.entries, validate_only=validate_only)
    except Refused as refused:
        return Altered(change.type, change.name, refused.error_code, str(refused))
    return Altered(change.type, change.name, ErrorCode.NONE, None)
