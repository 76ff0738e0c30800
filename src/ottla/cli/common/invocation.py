"""How a command was called, and what follows from it.

`ottla topics …` is for people: tables and colour where a terminal is, and a question before something is destroyed.
`kafka-topics …` is the same command under Kafka's name, for scripts and habits: it prints what Kafka prints, on a
terminal too, and never asks. Without a terminal nobody can be asked; then `ottla …` wants `--yes`.
"""

from __future__ import annotations

import sys
from typing import NamedTuple, NoReturn

import click

FAILED = 1
MISUSED = 2
INTERRUPTED = 130

COMPLETION = "_OTTLA_COMPLETE"  # in the environment when a shell asks what could follow


class Invocation(NamedTuple):
    by_kafka_name: bool = False


class Failure(click.ClickException):
    """A command that could not do what was asked; the message is the one line that the user sees."""

    exit_code = FAILED


class Misconfigured(click.ClickException):
    """A configuration that cannot be used; the message names the place and what is legal."""

    exit_code = MISUSED


def by_kafka_name() -> bool:
    """Whether the running command was called by the name of one of Kafka's scripts."""
    context = click.get_current_context(silent=True)
    found = context.find_object(Invocation) if context else None
    return found is not None and found.by_kafka_name


def fail_as_kafka(line: str, message: str) -> NoReturn:
    """End with status 1: under Kafka's name with the line that Kafka's tool prints to stdout, else with the message."""
    if by_kafka_name():
        click.echo(line)
        raise click.exceptions.Exit(FAILED)
    raise Failure(message)


def confirm(what: str, yes: bool) -> None:
    """Say what will be destroyed, and go on only if that is wanted. `what` reads as a question's beginning."""
    if yes or by_kafka_name():
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(f"{what}: say --yes to do it without being asked")
    click.confirm(f"{what}. Go on?", abort=True, err=True)
