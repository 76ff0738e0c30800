"""What the demo shows: on a terminal a picture that moves, elsewhere lines.

A screen is told of each letter that is typed and of the counts as they come; it knows nothing of where they come from.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

CODE_WIDTH = 100
ROWS = 14  # of the counts; those that came last
MARKED = 10  # how many drawings long a new count is marked


class Screen(Protocol):
    def explain(self, code: str, bootstrap: str) -> None:
        """Show the application's code."""

    def waiting(self, what: str, done: str) -> AbstractContextManager[None]:
        """While it is open, somebody waits."""

    def typing(self, line: str) -> None:
        """A line as far as it has been typed."""

    def typed(self, line: str) -> None:
        """The line is complete, and sent."""

    def counted(self, counts: Mapping[str, str], changed: set[str]) -> None:
        """All counts, and which of them have changed since the last call."""

    def settled(self, counts: Mapping[str, str], words: set[str]) -> None:
        """All of a line has been counted."""

    def summary(self, counts: Mapping[str, str]) -> None:
        """All has been shown."""

    def still(self) -> None:
        """Nothing moves any more."""


class Lines:
    """For pipes and logs."""

    def explain(self, code: str, bootstrap: str) -> None:
        click.echo(f"A broker serves on {bootstrap}. The application:\n")
        click.echo(textwrap.indent(code, "    "))

    @contextmanager
    def waiting(self, what: str, done: str) -> Iterator[None]:
        click.echo(f"{what} …")
        yield

    def typing(self, line: str) -> None:
        pass

    def typed(self, line: str) -> None:
        click.echo(f"> {line}")

    def counted(self, counts: Mapping[str, str], changed: set[str]) -> None:
        pass

    def settled(self, counts: Mapping[str, str], words: set[str]) -> None:
        click.echo("    " + ", ".join(f"{word} {counts[word]}" for word in sorted(words)))

    def summary(self, counts: Mapping[str, str]) -> None:
        click.echo("\nAll counts:")
        width = max(map(len, counts), default=0)
        for word, count in sorted(counts.items(), key=lambda pair: (-int(pair[1]), pair[0])):
            click.echo(f"    {word:<{width}}  {count:>3}")

    def still(self) -> None:
        pass


class Terminal:
    """Lines on the left, counts on the right, drawn again as they change."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console

        self.console = console or Console()
        self._live: Live | None = None
        self._lines: list[str] = []
        self._open = ""
        self._counts: dict[str, str] = {}
        self._changed: dict[str, int] = {}  # how many drawings ago
        self._newest: list[str] = []

    def explain(self, code: str, bootstrap: str) -> None:
        from rich.panel import Panel
        from rich.syntax import Syntax

        program = Syntax(code, "python", theme="ansi_dark", background_color="default")
        width = min(CODE_WIDTH, self.console.width)
        self.console.print(Panel(program, title="word count", title_align="left", width=width, border_style="dim"))
        self.console.print(f"[green]✓[/] a broker serves on {bootstrap}")

    @contextmanager
    def waiting(self, what: str, done: str) -> Iterator[None]:
        with self.console.status(f"{what} …"):
            yield
        self.console.print(f"[green]✓[/] {done}")

    def typing(self, line: str) -> None:
        self._open = line
        self._draw()

    def typed(self, line: str) -> None:
        self._open = ""
        self._lines = [*self._lines, line][-ROWS:]
        self._draw()

    def counted(self, counts: Mapping[str, str], changed: set[str]) -> None:
        if not changed and not self._changed:
            return
        self._counts = dict(counts)
        self._newest = [*(word for word in self._newest if word not in changed), *sorted(changed)]
        older = {word: age + 1 for word, age in self._changed.items() if age < MARKED}
        self._changed = older | dict.fromkeys(changed, 0)
        self._draw()

    def settled(self, counts: Mapping[str, str], words: set[str]) -> None:
        self._draw()

    def invite(self) -> None:
        self.still()
        self.console.print("Now you: type lines, and see their words counted. An empty line or Ctrl-C ends it.")

    def ask(self) -> str:
        """A line of the person's own; the picture stands still meanwhile."""
        self.still()
        return self.console.input("[bold]> [/]")

    def summary(self, counts: Mapping[str, str]) -> None:
        self.still()

    def still(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        from rich.live import Live

        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Any:
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        typed = Text()
        for line in self._lines:
            typed.append(f"> {line}\n")
        typed.append(f"> {self._open}", style="bold")
        typed.append("▏", style="blink")
        counts = Table.grid(padding=(0, 2))
        for word in self._newest[-ROWS:]:
            style = "bold green" if word in self._changed else ""
            counts.add_row(Text(word, style), Text(self._counts[word], style, justify="right"))
        both = Table.grid(expand=False)
        width = min(CODE_WIDTH, self.console.width)
        both.add_row(
            Panel(typed, title="typed into wordcount-input", title_align="left", width=width - 32, height=ROWS + 2),
            Panel(counts, title="wordcount-output", title_align="left", width=32, height=ROWS + 2),
        )
        return both
