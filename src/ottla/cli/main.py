"""The command `ottla`: finds the subcommand, and turns errors into one line and an exit status.

Status 0: done, or stopped as asked. 1: it could not be done. 2: asked for in the wrong way (usage, configuration).
Each command is a module of this package with a click command named `command`; `--help` imports none of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

import click

from ottla.config.errors import nearest

FAILED = 1
MISUSED = 2
INTERRUPTED = 130

COMMANDS = {
    "adopt": "Take over the data of a stopped Apache Kafka.",
    "broker": "Run a broker.",
    "dump-log": "Show what lies in the files of a log.",
    "up": "Run the platform on this machine, with its embedded defaults.",
    "version": "Print the version.",
}


class Failure(click.ClickException):
    """A command that could not do what was asked; the message is the one line that the user sees."""

    exit_code = FAILED


class Misconfigured(click.ClickException):
    """A configuration that cannot be used; the message names the place and what is legal."""

    exit_code = MISUSED


class Commands(click.Group):
    """The subcommands, each imported on use."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            like = nearest(args[0], list(COMMANDS))
            ctx.fail(f"no command {args[0]!r}" + (f"; did you mean {like}?" if like else ""))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"ottla.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def ottla() -> None:
    """A streaming platform that Kafka's clients take for Kafka."""


def run(arguments: list[str] | None = None) -> int:
    """Runs a command line; returns the exit status, errors already told."""
    try:
        status = ottla.main(arguments, prog_name="ottla", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return MISUSED
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "ottla"
        return _tell(f"{' '.join(error.format_message().split())} ({path} --help says more)", MISUSED)
    except click.ClickException as error:
        return _tell(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _tell(message: str, status: int) -> int:
    click.echo(f"ottla: {message}", err=True)
    return status


def main() -> NoReturn:
    """The entry point of the `ottla` script."""
    sys.exit(run())
