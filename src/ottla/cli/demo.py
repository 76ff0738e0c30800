"""`ottla demo`: the word count on Spark, from a broker's start to the last count, for somebody who sees it first.

A broker starts on a free port with its data in a temporary directory, the word count of examples/streams runs on Spark,
lines are typed into its input topic, and its output topic is shown as it changes. On a terminal the person may type
lines of their own then, until an empty line or Ctrl-C; elsewhere it ends by itself. Nothing is left behind.
"""

from __future__ import annotations

import sys

import click

from ottla.cli.common.options import Tool


@click.command("demo", cls=Tool, short_help="Count words on Spark, as somebody types them.")
@click.option("--no-typing", is_flag=True, help="End after the lines of the demo, on a terminal, too.")
def command(no_typing: bool) -> int:
    """Start a broker and the word count on Spark, type lines into it, and show the counts as they change.

    Ctrl-C ends it; nothing is left behind.
    """
    from ottla.cli.streaming.demo import Demo
    from ottla.cli.streaming.demo_screen import Lines, Terminal
    from ottla.cli.streaming.telling import told_plainly

    screen = Terminal() if sys.stdout.isatty() else Lines()
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not no_typing
    with told_plainly():
        Demo(screen).run(asks)
    return 0
