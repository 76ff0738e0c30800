"""`ottla broker [FILE.properties] [--override KEY=VALUE]…`: a broker from Kafka's own property names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click

from ottla.cli import logs
from ottla.cli.common.invocation import Failure, Misconfigured
from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.properties import PropertiesError, read_properties
from ottla.storage.directory import read_meta
from ottla.storage.errors import DamagedDirectory

log = logging.getLogger(__name__)

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def serving_options(function: Decorated) -> Decorated:
    """What every command that serves can be told."""
    for option in (
        click.option("--log-level", type=click.Choice(logs.LEVELS), default="info", help="Least level that is logged."),
        click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", help="Form of the log lines."),
        click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a property; repeatable."),
    ):
        function = option(function)
    return function


@click.command("broker", short_help="Run a broker.")
@click.argument("file", required=False, metavar="[FILE.properties]")
@serving_options
def command(file: str | None, overrides: tuple[str, ...], log_format: str, log_level: str) -> int:
    """Run a broker until SIGTERM or SIGINT.

    Properties have Kafka's names (docs/configuration.md); --override wins over the file. When it serves, it prints
    `ottla broker ID ready on HOST:PORT` to stdout; logs go to stderr.
    """
    return run(file, overrides, log_format, log_level)


def run(file: str | None, overrides: Iterable[str], log_format: str, log_level: str) -> int:
    """Runs a broker with the properties of a file and of `--override`; returns the exit status."""
    return serve(properties_of(file, overrides), log_format, log_level)


def properties_of(file: str | None, overrides: Iterable[str]) -> dict[str, str]:
    """What the file says, and before it what the overrides say."""
    properties = {}
    if file is not None:
        try:
            properties = read_properties(file)
        except OSError as error:
            raise Misconfigured(f"cannot read {file}: {error.strerror}") from None
        except PropertiesError as error:
            raise Misconfigured(str(error)) from None
    properties.update(parse_overrides(overrides))
    return properties


def parse_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE words as properties."""
    found = {}
    for word in overrides:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--override {word!r} must be KEY=VALUE")
        found[key.strip()] = value
    return found


def configured(properties: dict[str, str]) -> BrokerConfig:
    """The configuration that these properties make; Misconfigured where they are illegal."""
    try:
        config = BrokerConfig.from_properties(properties)
        owner = owner_of(config.log_dirs)
        if owner is not None and not properties.keys() & {"node.id", "broker.id"}:
            config = BrokerConfig.from_properties({**properties, "node.id": owner})
    except ConfigError as error:
        raise Misconfigured(str(error)) from None
    return config


def serve(properties: dict[str, str], log_format: str, log_level: str) -> int:
    """Runs a broker with these properties; returns the exit status."""
    config = configured(properties)
    logs.set_up(log_format, log_level)
    for warning in config.warnings:
        log.warning("%s", warning)

    from ottla.broker import server
    from ottla.broker.process import StartError, raise_file_limit

    raise_file_limit()
    try:
        return server.run(config)
    except StartError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(str(error)) from None


def owner_of(directories: Iterable[str | Path]) -> str | None:
    """The id of the broker whose data lie there; where none was configured it is taken up, as in Kafka."""
    for directory in directories:
        try:
            owner = read_meta(Path(directory)).get("broker.id")
        except (DamagedDirectory, OSError):
            continue  # the broker says what is wrong with it
        if owner is not None:
            return owner
    return None
