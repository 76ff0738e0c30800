"""The command `ottla`: finds the subcommand, and turns errors into one line and an exit status.

Status 0: done, or stopped as asked. 1: it could not be done. 2: asked for in the wrong way (usage, configuration).
Each command is a module of this package with a click command named `command`; `--help` imports none of them.
A command also answers to the name of Kafka's script (`kafka-topics`): see `common/kafka_names.py`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from ottla.cli.common.invocation import COMPLETION, INTERRUPTED, MISUSED, Invocation
from ottla.cli.common.kafka_names import SCRIPTS
from ottla.config.errors import nearest

COMMANDS = {
    "adopt": "Take over the data of a stopped Apache Kafka.",
    "broker": "Run a broker.",
    "broker-api-versions": "Show which requests the brokers serve.",
    "cluster": "Show the cluster's id and its brokers.",
    "completion": "Print the script that completes command lines in a shell.",
    "configs": "Show and change settings of topics, brokers, groups and clients.",
    "console-consumer": "Show the records of topics as they come.",
    "console-producer": "Send what is typed, a record per line.",
    "consumer-groups": "Show groups of consumers, and change their offsets.",
    "consumer-perf-test": "Measure how fast records can be consumed.",
    "delete-records": "Delete the records of partitions before certain offsets.",
    "demo": "Count words on Spark, as somebody types them.",
    "doctor": "Check this host against the advice for brokers.",
    "dump-log": "Show what lies in the files of a log.",
    "e2e-latency": "Measure how long a record takes from producer to consumer.",
    "export-offsets": "Write the offsets of groups into a file.",
    "features": "Show and change the levels of features.",
    "get-offsets": "Show the offsets of partitions, at their ends or at a time.",
    "import-offsets": "Set the offsets of groups to those in a file.",
    "leader-election": "Elect the leaders of partitions.",
    "log-dirs": "Show which partitions lie in which directories, and their sizes.",
    "preferred-replica-election": "Let the preferred replica of each partition lead.",
    "producer-perf-test": "Measure how fast records can be produced.",
    "reassign-partitions": "Move partitions to other brokers and directories.",
    "replica-verification": "Compare all replicas of partitions.",
    "run-class": "Run a command by the name of Kafka's class.",
    "server-start": "Run a broker, in the background if wanted.",
    "server-stop": "Stop the brokers of this user.",
    "streams": "Run stream applications, describe and reset them.",
    "topics": "List, describe, create, alter and delete topics.",
    "transactions": "Show transactions, and end those that hang.",
    "up": "Run the platform on this machine, with its embedded defaults.",
    "verifiable-consumer": "Consume in a group, and tell all that happens as JSON.",
    "verifiable-producer": "Produce numbers, and tell each one's fate as JSON.",
    "version": "Print the version.",
}


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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click does it, but without importing the commands for their help."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def ottla() -> None:
    """A streaming platform that Kafka's clients take for Kafka."""


def run(arguments: list[str] | None = None) -> int:
    """Runs a command line of `ottla`; returns the exit status, errors already told."""
    return _run(ottla, arguments, "ottla", Invocation())


def run_by_kafka_name(script: str, arguments: list[str] | None = None) -> int:
    """The same by the name of a script of Kafka's, with or without `.sh`."""
    command = command_of(SCRIPTS[script.removesuffix(".sh")])
    return _run(command, arguments, script, Invocation(by_kafka_name=True))


def command_of(words: str) -> click.Command:
    """The command that these words name: `topics`, `streams reset`."""
    command: click.Command = ottla
    for word in words.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


def _run(command: click.Command, arguments: list[str] | None, name: str, invocation: Invocation) -> int:
    try:
        status = command.main(arguments, prog_name=name, standalone_mode=False, obj=invocation, complete_var=COMPLETION)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return MISUSED
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else name
        return _tell(name, f"{' '.join(error.format_message().split())} ({path} --help says more)", MISUSED)
    except click.ClickException as error:
        return _tell(name, error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _tell(name: str, message: str, status: int) -> int:
    click.echo(f"{name}: {message}", err=True)
    return status


def main() -> NoReturn:
    """The entry point of the `ottla` script."""
    sys.exit(run())


def kafka_main() -> NoReturn:
    """The entry point of the scripts with Kafka's names."""
    sys.exit(run_by_kafka_name(Path(sys.argv[0]).name))
