"""`ottla version`"""

from __future__ import annotations

import click

from ottla import __version__


@click.command("version", short_help="Print the version.")
def command() -> None:
    """Print the version."""
    click.echo(f"ottla {__version__}")
