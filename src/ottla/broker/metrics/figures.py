"""Figures: what parts of the broker can be asked for in numbers. Each part registers its own.

    figures.gauge("ottla_connections", "Connections that are open.", lambda: len(census.connections))
    figures.counter("ottla_…_total", "…", lambda: [({"listener": "PLAINTEXT"}, 12), …])

A figure is a function that is called when somebody asks; nothing is counted for the figures' sake on the way of a
request. It gives one number, or one for each set of labels. Sources of another kind (the metrics of clients) give ready
text, in parts of moderate size, between which the event loop goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.broker.metrics import text

log = logging.getLogger(__name__)

Measured = float | Iterable[tuple[Mapping[str, str], float]]


class Figure(NamedTuple):
    name: str
    kind: str
    help: str
    measure: Callable[[], Measured]


class Figures:
    def __init__(self) -> None:
        self._figures: dict[str, Figure] = {}
        self._sources: list[Callable[[], Iterator[str]]] = []

    def gauge(self, name: str, help: str, measure: Callable[[], Measured]) -> None:
        self._register(Figure(name, "gauge", help, measure))

    def counter(self, name: str, help: str, measure: Callable[[], Measured]) -> None:
        self._register(Figure(name, "counter", help, measure))

    def source(self, parts: Callable[[], Iterator[str]]) -> None:
        """More figures, as text. Their names must be none of ours."""
        self._sources.append(parts)

    def _register(self, figure: Figure) -> None:
        if figure.name in self._figures:
            raise ValueError(f"{figure.name} is registered twice")
        self._figures[figure.name] = figure

    def render(self) -> Iterator[str]:
        """All figures of now, in parts. One that fails is left out, and logged."""
        for figure in self._figures.values():
            try:
                measured = figure.measure()
                rows = [({}, measured)] if isinstance(measured, (int, float)) else list(measured)
                lines = [
                    text.sample(figure.name, text.labels((text.label_name(k), v) for k, v in one.items()), value)
                    for one, value in rows
                ]
            except Exception:
                log.exception("the figure %s failed", figure.name)
                continue
            yield text.head(figure.name, figure.kind, figure.help) + "".join(lines)
        for source in self._sources:
            yield from source()
