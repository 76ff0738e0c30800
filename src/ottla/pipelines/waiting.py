"""What a person sees while something takes long: on a terminal a line that moves, elsewhere one plain line. On stderr.

with shown("Downloading jars") as report:
    report("kafka-clients.jar", 1_000, 9_000)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Report(Protocol):
    """Says how far it is: what is in hand, and how many bytes of how many, where that is known."""

    def __call__(self, detail: str, done: int | None = None, total: int | None = None) -> None: ...


def say(line: str) -> None:
    print(f"ottla: {line}", file=sys.stderr, flush=True)


@contextmanager
def shown(what: str) -> Iterator[Report]:
    if not sys.stderr.isatty():
        say(what)
        yield lambda detail, done=None, total=None: None
        return
    with _on_terminal(what) as report:
        yield report


@contextmanager
def _on_terminal(what: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    last = TextColumn("[dim]{task.fields[detail]}", table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(16), TimeElapsedColumn(), last)
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None, detail="")

        def report(detail: str, done: int | None = None, total: int | None = None) -> None:
            progress.update(task, detail=detail[:24] if done is None else f"{done / 1e6:.1f} MB")
            if total:
                progress.update(task, completed=done, total=total)

        yield report
        progress.update(task, detail="", total=1, completed=1)
