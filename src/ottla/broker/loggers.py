"""Levels of this process's loggers, as Kafka's tools see and set them (KIP-412).

Names are those of Python's loggers (`ottla.broker.cleaner`), and `root` for the root of all. Levels have Kafka's names;
TRACE, which Python lacks, is below DEBUG. A logger without a level of its own has that of the nearest above it.
Changes last until the process ends.

Refused are unknown loggers and levels (INVALID_CONFIG), taking the root's level away, and anything done to a list
(INVALID_REQUEST). All entries hold or none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.config.describe import ConfigRow, ConfigSource
from ottla.controller.configs import ConfigEntry, Operation, Refused, check_shape
from ottla.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

ROOT = "root"
TRACE = 5
LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def describe(names: Sequence[str] | None = None) -> list[ConfigRow]:
    """A row for each logger; for the named ones, where names are given."""
    known = _loggers()
    return [
        ConfigRow(name, _level_of(known[name]), ConfigSource.DYNAMIC_BROKER_LOGGER, 0, False, False, [], None)
        for name in (known if names is None else names)
        if name in known
    ]


def alter(entries: Sequence[ConfigEntry], *, validate_only: bool) -> None:
    """Set levels, or take them away (DELETE); Refused where an entry makes no sense."""
    check_shape(entries)
    known = _loggers()
    for entry in entries:
        _check(entry, known)
    if validate_only:
        return
    for entry in entries:
        if entry.operation == Operation.SET:
            known[entry.name].setLevel(LEVELS[str(entry.value)])
            log.warning("logger %s has level %s now", entry.name, entry.value)
        else:
            known[entry.name].setLevel(logging.NOTSET)
            log.warning("logger %s has no level of its own any more", entry.name)


def _check(entry: ConfigEntry, known: dict[str, logging.Logger]) -> None:
    if entry.operation in (Operation.APPEND, Operation.SUBTRACT):
        raise Refused(ErrorCode.INVALID_REQUEST, f"{entry.name}: the level of a logger is not a list")
    if entry.name not in known:
        raise Refused(ErrorCode.INVALID_CONFIG, f"there is no logger {entry.name!r}")
    if entry.operation == Operation.SET and entry.value not in LEVELS:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"{entry.name}={entry.value} is illegal: must be one of {', '.join(LEVELS)}"
        )
    if entry.operation == Operation.DELETE and entry.name == ROOT:
        raise Refused(ErrorCode.INVALID_REQUEST, "the root logger cannot be without a level")


def _loggers() -> dict[str, logging.Logger]:
    # Some names only stand above others (`ottla.broker`); asking makes loggers of them, to be set for all below.
    return {ROOT: logging.root, **{name: logging.getLogger(name) for name in sorted(logging.root.manager.loggerDict)}}


def _level_of(logger: logging.Logger) -> str:
    """The least severe level that is logged."""
    level = logger.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if number >= level), "FATAL")
