"""One line on stderr that tells how an application is doing: rewritten in place on a terminal, now and then elsewhere.

wordcount  12,345 rows/s  batch 85 ms  lag 1,200  state 5,321 rows  rejected 3  late 2
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, field
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ottla.pipelines.batches import Batch

SECONDS_BETWEEN = 10.0  # lines where nothing can be rewritten
RATE_OVER = 5.0  # seconds


@dataclass
class Figures:
    """What the line is made of, summed over the queries."""

    application: str
    lag: int | None = None
    last: dict[str, Batch] = field(default_factory=dict)
    rejected: int = 0
    late: int = 0
    rows: deque[tuple[float, int]] = field(default_factory=deque)

    def done(self, query: str, batch: Batch) -> None:
        self.last[query] = batch
        self.late += batch.late
        self.rows.append((monotonic(), batch.input_rows))

    def line(self) -> str:
        now = monotonic()
        while self.rows and self.rows[0][0] < now - RATE_OVER:
            self.rows.popleft()
        rate = sum(rows for _, rows in self.rows) / RATE_OVER
        batch = max((one.seconds for one in self.last.values()), default=0.0) * 1000
        words = [self.application, f"{rate:,.0f} rows/s", f"batch {batch:,.0f} ms"]
        if self.lag is not None:
            words.append(f"lag {self.lag:,}")
        if state := sum(one.state_rows for one in self.last.values()):
            words.append(f"state {state:,} rows")
        for count, what in ((self.rejected, "rejected"), (self.late, "late")):
            if count:
                words.append(f"{what} {count:,}")
        return "  ".join(words)


class ProgressLine:
    def __init__(self, figures: Figures, console: Console | None = None) -> None:
        self._figures = figures
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._told, self._said = -SECONDS_BETWEEN, ""
        if self._console.is_terminal:
            redirect = sys.stdout.isatty()  # else lines meant for a pipe would go to the screen
            self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=redirect, transient=True)
            self._live.start()

    def show(self) -> None:
        if self._live is not None:
            line = Text(self._figures.line(), no_wrap=True, overflow="ellipsis", style="dim")
            self._live.update(line, refresh=True)
        elif monotonic() - self._told >= SECONDS_BETWEEN:
            self._told = monotonic()
            self._say()

    def close(self) -> None:
        """What stays is the last line, as it would stand in a file."""
        if self._live is not None:
            self._live.stop()
        self._say()

    def _say(self) -> None:
        line = self._figures.line()
        if line != self._said and self._figures.last:
            self._console.print(line, soft_wrap=True, markup=False, highlight=False)
            self._said = line
