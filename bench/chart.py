"""The ratios of a result as horizontal bars, in an SVG without scripts or fonts of its own.

A logarithmic axis: a bar to the right of the line at 1 is ottla's advantage, one to the left Kafka's. Colours follow
the reader's light or dark mode; the background stays clear.
"""

from __future__ import annotations

import math
from typing import Any
from xml.sax.saxutils import escape

from bench.report import GROUPS, Result, number, times

# What a reader looks for first; the page has all figures.
SHOWN = (
    "produce-100b-1p.rate",
    "produce-100b-6p.rate",
    "produce-1k-1p.rate",
    "produce-1k-6p.rate",
    "consume-100b.rate",
    "consume-1k.rate",
    "both-1k.rate",
    "small-produce-16x1.rate",
    "small-produce-16x8.rate",
    "small-fetch-16x1.rate",
    "e2e-500.p50",
    "e2e-500.p99",
    "e2e-5000.p99",
    "groups-1000.seconds",
    "group-of-500.seconds",
    "consumer-groups-1000.seconds",
    "consumer-group-of-500.seconds",
    "commits-5000.p99",
    "commits.rate",
    "transactions-1.rate",
    "transactions-100.rate",
    "produce-1k-1p.cpu",
    "consume-1k.cpu",
    "small-produce-16x1.cpu",
    "start.seconds",
    "start.partitions",
    "start.idle",
    "memory.loaded",
    "streams-map.rate",
    "streams-map-once.rate",
    "streams-count.rate",
    "streams-count-once.rate",
    "streams-window.rate",
    "streams-window-once.rate",
    "streams-words.rate",
    "streams-words-once.rate",
    "streams-join.rate",
    "streams-join-once.rate",
    "streams-latency-map-2000.p50",
    "streams-latency-map-2000.p99",
    "streams-latency-real-time-2000.p50",
    "streams-latency-real-time-2000.p99",
    "streams-latency-count-2000.p50",
    "streams-latency-count-once-2000.p50",
    "streams-start-map.seconds",
    "streams-count.memory",
)

WIDTH, LEFT, RIGHT, ROW, HEADING, TOP = 860, 350, 190, 20, 28, 46
TICKS = (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100)

STYLE = """\
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: 600 }
  .group { font-weight: 600 }
  .quiet { fill: #6e7781 }
  .grid { stroke: #d0d7de }
  .one { stroke: #57606a; stroke-width: 1.5 }
  .ahead { fill: #1a7f64 }
  .behind { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .quiet { fill: #8d96a0 }
    .grid { stroke: #30363d }
    .one { stroke: #9198a1 }
    .ahead { fill: #3fb68b }
    .behind { fill: #f0883e }
  }"""


def draw(result: Result) -> str:
    rows = {figure["key"]: figure for figure in result["figures"]}
    shown = [rows[key] for key in SHOWN if rows.get(key, {}).get("ratio", {}).get("median")]
    ratios = [row["ratio"]["median"] for row in shown] or [1.0]
    low, high = min(0.5, *ratios), max(2.0, *ratios)
    span = math.log(high / low)

    def x(ratio: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(ratio / low) / span

    body, y = [], float(TOP)
    for name, title in GROUPS.items():
        members = [row for row in shown if row["group"] == name]
        if members:
            body.append(_text(12, y + 18, title, "group"))
            y += HEADING
        for row in members:
            body += _bar(row, x, y)
            y += ROW
    ticks = [tick for tick in TICKS if low <= tick <= high]
    grid = [_tick(x(tick), tick, y) for tick in ticks]
    other = result["systems"].get("kafka", {}).get("label", "Apache Kafka")
    title = f"Times better than {other}, same machine, same run (medians)"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 28:.0f}" role="img" aria-label="{title}">'
    )
    return (
        "\n".join([head, f"<style>\n{STYLE}\n</style>", _text(12, 24, title, "title"), *grid, *body, "</svg>"]) + "\n"
    )


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    shape = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{shape} text-anchor="{anchor}">{escape(text)}</text>'


def _tick(x: float, tick: float, bottom: float) -> str:
    line = (
        f'<line class="{"one" if tick == 1 else "grid"}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom + 4:.1f}"/>'
    )
    return line + _text(x, bottom + 18, f"{tick:g}x", "quiet", "middle")


def _bar(row: dict[str, Any], x: Any, y: float) -> list[str]:
    ratio = row["ratio"]["median"]
    start, end = sorted((x(1.0), x(ratio)))
    ours, theirs = (number(row["systems"][name]["median"]) for name in ("ottla", "kafka"))
    style = "ahead" if ratio >= 1 else "behind"
    return [
        _text(LEFT - 10, y + 14, row["label"], anchor="end"),
        f'<rect class="{style}" x="{start:.1f}" y="{y + 4:.1f}" width="{max(end - start, 1):.1f}" height="12" rx="2"/>',
        _text(max(end, x(1.0)) + 6, y + 14, times(ratio), "group"),
        _text(WIDTH - 12, y + 14, f"{ours} : {theirs} {row['unit']}", "quiet", "end"),
    ]
