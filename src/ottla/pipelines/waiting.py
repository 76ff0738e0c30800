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
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn

    class Bytes(DownloadColumn):
        def render(self, task: Task):  # type: ignore[no-untyped-def]
            return super().render(task) if task.total else ""

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), Bytes(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("[dim]{task.fields[detail]}"), console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None, detail="")

        def report(detail: str, done: int | None = None, total: int | None = None) -> None:
            progress.update(task, detail=detail)
            if total:
                progress.update(task, completed=done, total=total)

        yield report
        progress.update(task, detail="", total=1, completed=1)
