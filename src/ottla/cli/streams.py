"""`ottla streams`: stream applications, as files of Python that make an `App` (docs/streams.md).

run        run the application of a file on Spark
describe   its topology in words, or as a picture
reset      let it begin anew; kafka-streams-application-reset
compare    two result topics: do they hold the same?
"""

from __future__ import annotations

from importlib import import_module

import click

ACTIONS = {
    "run": "Run the application of a file on Spark.",
    "describe": "Show the topology of an application.",
    "reset": "Let an application begin anew.",
    "compare": "Tell whether two topics hold the same.",
}


class Actions(click.Group):
    """The actions, each imported on use."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in ACTIONS and not args[0].startswith("-"):
            ctx.fail(f"streams does not {args[0]!r}; it does {', '.join(ACTIONS)}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(ACTIONS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ACTIONS:
            return None
        command = import_module(f"ottla.cli.streaming.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group("streams", cls=Actions, short_help="Run stream applications, describe and reset them.")
def command() -> None:
    """Run stream applications on Spark, describe and reset them.

    An application is a file of Python that makes an App; docs/streams.md says how.
    """
