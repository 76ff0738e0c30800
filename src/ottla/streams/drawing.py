"""Boxes and arrows as SVG: in layers, arrows downwards.

1. A box lies one layer below the lowest of those that lead to it; what nothing leads to, right above its first reader.
2. An arrow over several layers passes through each of them by a point of its own.
3. Within a layer, boxes and points are ordered so that few arrows cross: each goes to the mean place of its neighbours
   in the layer above, then below, and so on; the best order seen is kept.
4. Then each moves to the middle of its neighbours, as far as those beside it let it.

Letters are of one width, so that it is known how much room a text takes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal
from xml.sax.saxutils import escape

LETTER, LINE = 7.3, 16  # of 12 px
PADDING, GAP, DOWN, MARGIN = 12, 28, 38, 16
WIDEST = 40  # letters in a line
TALLEST = 4  # lines
POINT = 2.0  # how much room an arrow takes
SWEEPS = 8
NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=(?:h|min|s|ms)\b)")

Kind = Literal["topic", "step", "state", "sink"]
FILLS: Mapping[Kind, str] = {"topic": "#fde9c8", "state": "#d7e8d4", "step": "#e4ebf5", "sink": "#ece4f5"}


@dataclass(frozen=True, slots=True)
class Box:
    id: str
    kind: Kind
    title: str
    detail: str = ""
    query: int | None = None  # that it belongs to

    def lines(self) -> list[str]:
        title = textwrap.wrap(self.title, WIDEST, break_on_hyphens=True) or [""]
        detail = NUMBER_AND_UNIT.sub("\u00a0", self.detail)  # which textwrap does not break at
        lines = [*title, *textwrap.wrap(detail, WIDEST, break_on_hyphens=False)]
        return lines if len(lines) <= TALLEST else [*lines[: TALLEST - 1], lines[TALLEST - 1][: WIDEST - 1] + "…"]

    @property
    def width(self) -> float:
        return max(map(len, self.lines())) * LETTER + 2 * PADDING

    @property
    def height(self) -> float:
        return len(self.lines()) * LINE + PADDING


@dataclass(slots=True)
class Picture:
    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: list[tuple[str, str]] = field(default_factory=list)

    def box(self, box: Box) -> str:
        self.boxes.setdefault(box.id, box)
        return box.id

    def arrow(self, start: str, end: str) -> None:
        if (start, end) not in self.arrows:
            self.arrows.append((start, end))


def svg(picture: Picture) -> str:
    layout = Layout(picture)
    width, height = layout.size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        'font-size="12">',
        '<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>',
    ]
    parts += [f'<path d="{_curve(way)}" fill="none" stroke="#555" marker-end="url(#to)"/>' for way in layout.ways()]
    queries = {box.query for box in picture.boxes.values() if box.query is not None}
    parts += [_drawn(box, *layout.place(box.id), len(queries) > 1) for box in picture.boxes.values()]
    return "\n".join([*parts, "</svg>"])


def _drawn(box: Box, x: float, y: float, numbered: bool) -> str:
    """A box around its middle."""
    left, top = x - box.width / 2, y - box.height / 2
    corner = box.height / 2 if box.kind == "topic" else 4
    thick = ' stroke-width="2"' if box.kind == "state" else ""
    parts = [
        "<g>",
        f"<title>{escape(' '.join(filter(None, (box.title, box.detail))))}</title>",
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{corner:.1f}" '
        f'fill="{FILLS[box.kind]}" stroke="#555"{thick}/>',
    ]
    titles = len(textwrap.wrap(box.title, WIDEST)) or 1
    for number, line in enumerate(box.lines()):
        at = top + PADDING / 2 + (number + 0.75) * LINE
        weight = ' font-weight="bold"' if number < titles and box.kind != "topic" else ""
        parts.append(f'<text x="{x:.1f}" y="{at:.1f}" text-anchor="middle"{weight}>{escape(line)}</text>')
    if numbered and box.query is not None:
        parts.append(f'<text x="{left:.1f}" y="{top - 3:.1f}" font-size="9" fill="#777">query {box.query}</text>')
    return "".join([*parts, "</g>"])


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Through all points, downwards at each."""
    (x, y), *rest = points
    words = [f"M{x:.1f},{y:.1f}"]
    for next_x, next_y in rest:
        middle = (y + next_y) / 2
        words.append(f"C{x:.1f},{middle:.1f} {next_x:.1f},{middle:.1f} {next_x:.1f},{next_y:.1f}")
        x, y = next_x, next_y
    return " ".join(words)


class Layout:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._layer = _layers(picture.boxes, picture.arrows)
        self._widths = {box.id: box.width for box in picture.boxes.values()}
        self._chains = [self._chain(start, end) for start, end in picture.arrows]
        pairs = [pair for chain in self._chains for pair in pairwise(chain)]
        self._above: dict[str, list[str]] = {name: [] for name in self._layer}
        self._below: dict[str, list[str]] = {name: [] for name in self._layer}
        for start, end in pairs:
            self._above[end].append(start)
            self._below[start].append(end)
        self._rows: list[list[str]] = [[] for _ in range(max(self._layer.values(), default=-1) + 1)]
        for name, layer in self._layer.items():
            self._rows[layer].append(name)
        self._order()
        self._x = self._middles()
        self._heights = [
            max((picture.boxes[name].height for name in row if name in picture.boxes), default=0.0)
            for row in self._rows
        ]

    def _chain(self, start: str, end: str) -> list[str]:
        """The arrow with a point in each layer on its way."""
        chain = [start]
        for layer in range(self._layer[start] + 1, self._layer[end]):
            point = f"{start}\0{end}\0{layer}"
            self._layer[point], self._widths[point] = layer, POINT
            chain.append(point)
        return [*chain, end]

    # -- order within layers -------------------------------------------------------------------------------------

    def _order(self) -> None:
        best, fewest = [list(row) for row in self._rows], self._crossings()
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            neighbours = self._above if down else self._below
            layers = range(1, len(self._rows)) if down else range(len(self._rows) - 2, -1, -1)
            for layer in layers:
                other = {name: place for place, name in enumerate(self._rows[layer - 1 if down else layer + 1])}
                own = {name: place for place, name in enumerate(self._rows[layer])}
                means = {name: _mean([other[one] for one in neighbours[name]], own[name]) for name in self._rows[layer]}
                self._rows[layer].sort(key=lambda name: (means[name], own[name]))
            if (crossings := self._crossings()) < fewest:
                best, fewest = [list(row) for row in self._rows], crossings
        self._rows = best

    def _crossings(self) -> int:
        count = 0
        for row, below in pairwise(self._rows):
            place = {name: number for number, name in enumerate(below)}
            ends = [place[end] for name in row for end in sorted(self._below[name], key=place.__getitem__)]
            count += sum(one > other for number, one in enumerate(ends) for other in ends[number + 1 :])
        return count

    # -- places --------------------------------------------------------------------------------------------------

    def _middles(self) -> dict[str, float]:
        x: dict[str, float] = {}
        for row in self._rows:
            right = 0.0
            for name in row:
                x[name] = right + self._widths[name] / 2
                right += self._widths[name] + GAP
        for sweep in range(4 * SWEEPS):
            rows = self._rows if sweep % 2 == 0 else self._rows[::-1]
            for row in rows:
                wanted = {
                    name: _mean([x[one] for one in (*self._above[name], *self._below[name])], x[name]) for name in row
                }
                x.update(self._apart(row, wanted))
        left = min((x[name] - self._widths[name] / 2 for name in x), default=0.0)
        return {name: at - left + MARGIN for name, at in x.items()}

    def _apart(self, row: Sequence[str], wanted: Mapping[str, float]) -> dict[str, float]:
        """As wanted, but in order and apart: boxes that meet become a block around the mean of their wishes."""
        blocks: list[tuple[list[str], float]] = []  # names, and where the first one's middle should be
        for name in row:
            names, at = [name], wanted[name]
            while blocks:
                before, first = blocks[-1]
                offset = self._offsets([*before, *names])
                if first + offset[len(before)] <= at:
                    break
                blocks.pop()
                names = [*before, *names]
                at = _mean([wanted[one] - offset[number] for number, one in enumerate(names)], at)
            blocks.append((names, at))
        return {name: at + offset for names, at in blocks for name, offset in zip(names, self._offsets(names))}

    def _offsets(self, names: Sequence[str]) -> list[float]:
        """How far right of the first one's middle each one's is, side by side."""
        offsets = [0.0]
        for one, other in pairwise(names):
            offsets.append(offsets[-1] + (self._widths[one] + self._widths[other]) / 2 + GAP)
        return offsets

    def _y(self, layer: int) -> float:
        return MARGIN + sum(self._heights[:layer]) + layer * DOWN + self._heights[layer] / 2

    def place(self, name: str) -> tuple[float, float]:
        """The middle of a box."""
        return self._x[name], self._y(self._layer[name])

    def ways(self) -> Iterable[list[tuple[float, float]]]:
        """Where arrows go: from the lower edge of one box to the upper edge of another."""
        for chain in self._chains:
            points = [self.place(name) for name in chain]
            start, end = self._picture.boxes[chain[0]], self._picture.boxes[chain[-1]]
            points[0] = (points[0][0], points[0][1] + start.height / 2)
            points[-1] = (points[-1][0], points[-1][1] - end.height / 2)
            yield points

    @property
    def size(self) -> tuple[float, float]:
        right = max((self._x[name] + self._widths[name] / 2 for name in self._x), default=0.0)
        bottom = self._y(len(self._rows) - 1) + self._heights[-1] / 2 if self._rows else 0.0
        return right + MARGIN, bottom + MARGIN


def _layers(boxes: Iterable[str], arrows: Sequence[tuple[str, str]]) -> dict[str, int]:
    layer = dict.fromkeys(boxes, 0)
    for _ in layer:
        for start, end in arrows:
            layer[end] = max(layer[end], layer[start] + 1)
    ends = {end for _, end in arrows}
    for name in layer:
        readers = [layer[end] for start, end in arrows if start == name]
        if name not in ends and readers:
            layer[name] = min(readers) - 1
    return layer


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
