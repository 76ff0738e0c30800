"""`ottla streams describe FILE.py`: the topology of an application, in words or as a picture. Nothing is started."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from ottla.cli.common.invocation import Misconfigured
from ottla.cli.common.options import Tool
from ottla.cli.streaming.loading import loaded
from ottla.cli.streaming.telling import told_plainly

FORMS = ("text", "mermaid", "svg")


@click.command("describe", cls=Tool, short_help="Show the topology of an application.")
@click.argument("file", metavar="FILE.py", type=click.Path())
@click.option("--app", "name", metavar="NAME", help="Which variable of the file, where several are applications.")
@click.option("--application-id", metavar="ID", help="Another id: its internal topics are named by it.")
@click.option("--format", "form", type=click.Choice(FORMS), default="text", help="As what; text by default.")
@click.option("--output", metavar="FILE", help="Where it is written; not given: stdout.")
def command(
    file: str, name: str | None, application_id: str | None, form: Literal["text", "mermaid", "svg"], output: str | None
) -> None:
    """Show what the application that FILE.py makes does: its queries, steps, topics and stores.

    Neither Spark nor a broker is needed.
    """
    with told_plainly():
        said = loaded(file, name, application_id=application_id).describe(form)
    if output is None:
        click.echo(said)
        return
    try:
        Path(output).write_text(said + "\n")
    except OSError as error:
        raise Misconfigured(f"cannot write {output}: {error.strerror}") from error
