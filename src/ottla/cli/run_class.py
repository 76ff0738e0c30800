"""`ottla run-class CLASS ARGUMENTS…`: a command by the name of the class that is behind it in Kafka.

Of the classes that old texts call and that nothing here answers to, each has a line that says what to use.
"""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from ottla.cli.common.invocation import Failure
from ottla.cli.common.kafka_names import CLASSES, REPLACED
from ottla.config.errors import nearest

# words that go before those of the caller
FIRST_WORDS = {"kafka.tools.ConsumerOffsetChecker": ["--describe"]}


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=CLASSES[name]) for name in sorted(CLASSES) if name.startswith(incomplete)]


@click.command(
    "run-class",
    short_help="Run a command by the name of Kafka's class.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-daemon", "--daemon", is_flag=True, help="In the background; for kafka.Kafka, the broker.")
@click.argument("name", metavar="CLASS", shell_complete=_complete)
@click.argument("words", metavar="[ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, name: str, words: tuple[str, ...], daemon: bool) -> Any:
    """Run a command by the name of the class that is behind it in Kafka, such as kafka.tools.DumpLogSegments.

    What follows the class belongs to the command; `CLASS --help` is its help.
    """
    from ottla.cli.main import command_of

    if name not in CLASSES:
        raise Failure(_unknown(name))
    target = command_of(CLASSES[name])
    first = list(FIRST_WORDS.get(name, []))
    if daemon:
        if CLASSES[name] != "server-start":
            raise click.UsageError("-daemon goes with kafka.Kafka, the broker", ctx)
        first.append("--daemon")
    return target.main([*first, *words], prog_name=f"{ctx.command_path} {name}", standalone_mode=False, obj=ctx.obj)


def _unknown(name: str) -> str:
    """What is said of a class that is not there: what to use, or which one may be meant."""
    if name in REPLACED:
        return f"{name} is not there: {REPLACED[name]}"
    simple = {one.rpartition(".")[2]: one for one in CLASSES}
    found = simple.get(name.rpartition(".")[2]) or nearest(name, list(CLASSES))
    if found is None and (like := nearest(name.rpartition(".")[2], list(simple))):
        found = simple[like]
    return f"no class {name}; " + (f"did you mean {found}?" if found else f"there are {', '.join(sorted(set(simple)))}")
