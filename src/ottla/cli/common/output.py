"""How results are shown: text as Kafka prints it, a table, or JSON.

    --output text    Kafka's own lines; the default in a pipe, and under Kafka's names
    --output table   columns and colour; the default on a terminal
    --output json    a list with one object per row, for programs

`show` takes all three forms at once: columns with rows, and the lines that Kafka would print. Without such lines the
plain form is aligned columns. Row values stay what they are (numbers, lists, None) until they are shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from ottla.cli.common.invocation import by_kafka_name

TEXT, TABLE, JSON = "text", "table", "json"

F = TypeVar("F", bound=Callable[..., Any])


def output_option(function: F) -> F:
    """Adds `--output`; the command gets `output`, one of the three forms."""

    def resolve(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str:
        return value or (TABLE if sys.stdout.isatty() and not by_kafka_name() else TEXT)

    return click.option(
        "--output",
        type=click.Choice([TEXT, TABLE, JSON]),
        callback=resolve,
        help="text as Kafka prints it (the default in a pipe), a table (on a terminal), or json.",
    )(function)


def output_asked(ctx: click.Context) -> dict[str, bool]:
    """`--output` for `given_only_with`: whether somebody has asked for a form, which only what lists can have."""
    return {"--output": ctx.get_parameter_source("output") is click.core.ParameterSource.COMMANDLINE}


def show(
    output: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    lines: Iterable[str] | None = None,
    *,
    title: str | None = None,
) -> None:
    """Print rows in the form asked for. `columns` are JSON's keys, too: lower case with underscores."""
    rows = list(rows)
    if output == JSON:
        click.echo(json.dumps([dict(zip(columns, row)) for row in rows], default=str, indent=2))
    elif output == TABLE:
        _table(columns, rows, title)
    else:
        for line in aligned(columns, rows) if lines is None else lines:
            click.echo(line)


def aligned(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Columns of text with headings as Kafka's tools write them: upper case, a blank between."""
    cells = [[name.upper().replace("_", "-") for name in columns], *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return [" ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left")
    for name in columns:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value), style=_style(value)) for value in row))
    Console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(map(str, value))
    return str(value)


def _style(value: object) -> str:
    if value is None:
        return "dim"
    return "cyan" if isinstance(value, int) and not isinstance(value, bool) else ""
