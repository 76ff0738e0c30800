"""A bar for long work, on stderr, where somebody looks at it: a terminal, and not under Kafka's names.

It goes away at the end, so that what stays on the screen is what stands in a pipe. It is drawn by the work itself, a
few times a second: a thread for it would take time from what is measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.cli.common.invocation import by_kafka_name

SECONDS_BETWEEN = 0.2


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """While it is open, the function that it gives is told how much is done."""
    if by_kafka_name() or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # else lines meant for a pipe would go to the screen
    )
    task = bar.add_task(what, total=total)
    drawn = 0.0

    def reached(done: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn >= SECONDS_BETWEEN:
            drawn = now
            bar.update(task, completed=done, refresh=True)

    with bar:
        yield reached
