"""A run's result as data (JSON), as a table for the terminal and as a markdown page.

The result file:
  subject                         brokers, or streams (the engines: ottla's and Kafka Streams)
  taken, repeats, full            day; rounds kept; whether it was a full run of both systems
  machine                         see machine.py
  systems                         name -> label and version
  others                          cores that other processes kept busy during the run, median
  failures                        what did not work, as text
  figures                         key, group, label, unit, better; systems: name -> values, median, best;
                                  ratio: median and best, above 1 where ottla is the better one
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.rounds import Measured
from bench.workloads import Figure

GROUPS = {
    "throughput": "Throughput",
    "requests": "Small requests",
    "latency": "Latency",
    "groups": "Consumer groups",
    "transactions": "Transactions",
    "cpu": "Broker CPU",
    "engine": "Engine CPU",
    "footprint": "Start and memory",
}
BROKERS = """\
Made by `make bench`; the program is in `bench/`. Both brokers run on the same machine as the load generator and share
its cores with it, one under load at a time, workload by workload in turn. Kafka runs in one JVM with its defaults.
Clients are librdkafka's (linger 5 ms, end to end 0; no compression), small requests and the members of groups come from
plain sockets. Groups do not wait for further members before their first rebalance, and members ask every 100 ms for the
next one. A ratio above 1 means that ottla does better. MB and GB are 10^6 and 10^9 bytes of record values; broker CPU
is the processor time of the broker's process alone. One ottla broker works on one core, Kafka on all of them: where a
request costs both the same (joins, commits of offsets), a burst of them is over sooner with Kafka, and a steady load
is answered sooner by ottla."""
STREAMS = """\
Made by `make bench ARGS=--streams`; the program is in `bench/streams/`. Both engines run the same topologies on the
same topics (4 partitions, records of 100 bytes) of the same broker, which is ottla's, one after the other in turn, and
share the machine's cores with it and with the load generator. Every run has a fresh broker and a fresh application.

Throughput: the application has started and has worked off a first part of the input, a fifth of the main part; then
the main part, which was written before, can be read all at once (a transaction is committed), and the clock runs until
the complete and right result can be read in the output topic. Results are checked: every record, every final count.
Latency: from the send of a record to the receipt of its result, both by librdkafka with linger 0, through an
application that is warm. Cold start: from the start of the process until the first record of output can be read.

Kafka Streams has its defaults but for: two threads (one for each core); at least once, a commit each second (by default
results may come out 30 s late); both engines read committed records only; for latency, linger 0 and no record cache
(by default 100 ms and 10 MB, which hold results back). ottla has its defaults but for: for latency, batches that begin
as soon as the last one is over (by default every 100 ms); in real-time mode a task slot for each partition. Spark's
classes are loaded from an archive that `python -m ottla.pipelines.prepare --archive` has made. State is durable on
both sides: Kafka Streams writes it to topics, ottla to Spark's checkpoint on the local disk. A ratio above 1 means that
ottla does better."""
PAGES = {
    "brokers": ("ottla and Apache Kafka on one machine", BROKERS, "bench"),
    "streams": ("ottla's streams and Kafka Streams on one machine", STREAMS, "bench-streams"),
}
Result = dict[str, Any]


def page_of(result: Result) -> str:
    """The name of the result's page and picture, without their endings."""
    return PAGES[result["subject"]][2]


def build(measured: Measured, **about: Any) -> Result:
    figures = [_figure(figure, measured.values[figure.key]) for figure in measured.figures]
    order = list(GROUPS)
    figures.sort(key=lambda figure: order.index(figure["group"]))  # stable: within a group, the order of the run
    others = round(statistics.median(measured.others), 3) if measured.others else None
    return {**about, "others": others, "failures": measured.failures, "figures": figures}


def _figure(figure: Figure, values: dict[str, list[float]]) -> dict[str, Any]:
    best = max if figure.better == "higher" else min
    systems: dict[str, Any] = {
        name: {"values": series, "median": statistics.median(series), "best": best(series)}
        for name, series in values.items()
    }
    row = {
        "key": figure.key,
        "group": figure.group,
        "label": figure.label,
        "unit": figure.unit,
        "better": figure.better,
        "systems": systems,
    }
    if "ottla" in systems and "kafka" in systems:
        row["ratio"] = {
            which: _advantage(figure.better, systems["ottla"][which], systems["kafka"][which])
            for which in ("median", "best")
        }
    return row


def _advantage(better: str, ours: float, theirs: float) -> float | None:
    """How many times better ours is; nothing when one of them is 0."""
    if not ours or not theirs:
        return None
    return ours / theirs if better == "higher" else theirs / ours


def number(value: float) -> str:
    """Three significant digits, thousands marked."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}x" if value >= 10 else f"{value:.2f}x"


def _cells(figure: dict[str, Any], systems: Sequence[str]) -> list[str]:
    cells = [figure["label"], figure["unit"]]
    for name in systems:
        row = figure["systems"].get(name)
        if row is None:
            cells.append("-")
        elif len(row["values"]) == 1:
            cells.append(number(row["median"]))
        else:
            cells.append(f"{number(row['median'])} ({number(row['best'])})")
    if len(systems) > 1:
        ratio = figure.get("ratio", {})
        cells += [times(ratio.get("median")), times(ratio.get("best"))]
    return cells


def _head(result: Result) -> list[str]:
    names = [f"{about['label']}, median (best)" for about in result["systems"].values()]
    return ["figure", "unit", *names, *(["ratio", "ratio of bests"] if len(names) > 1 else [])]


def _grouped(result: Result) -> list[tuple[str, list[dict[str, Any]]]]:
    groups = [(title, [row for row in result["figures"] if row["group"] == name]) for name, title in GROUPS.items()]
    return [(title, rows) for title, rows in groups if rows]


def _machine_lines(result: Result) -> list[str]:
    machine = result["machine"]
    discarded = " after a discarded one" if result["subject"] == "brokers" else ""
    parts = (machine["processor"], f"{machine['cores']} cores", machine["memory"], machine["kernel"], machine["system"])
    lines = [
        ", ".join(parts),
        *(f"{about['label']} {about['version']}" for about in result["systems"].values()),
        f"{result['repeats']} rounds{discarded}, {result['taken']}",
    ]
    if result["others"] is not None:
        lines.append(f"other processes kept {result['others']:.2f} cores busy meanwhile (median)")
    return lines


def table(result: Result) -> str:
    """For the terminal."""
    systems, head = list(result["systems"]), _head(result)
    groups = [(title, [_cells(row, systems) for row in rows]) for title, rows in _grouped(result)]
    every = [head, *(cells for _, rows in groups for cells in rows)]
    widths = [max(len(cells[column]) for cells in every) for column in range(len(head))]

    def line(cells: list[str]) -> str:
        first, *rest = (text.ljust(w) if i < 2 else text.rjust(w) for i, (text, w) in enumerate(zip(cells, widths)))
        return "  ".join([first, *rest]).rstrip()

    lines = [line(head)]
    for title, rows in groups:
        lines += ["", title, *map(line, rows)]
    lines += ["", *_machine_lines(result), *(f"FAILED: {failure}" for failure in result["failures"])]
    return "\n".join(lines)


def markdown(result: Result) -> str:
    """The page docs/bench.md or docs/bench-streams.md."""
    systems, head = list(result["systems"]), _head(result)
    title, about, name = PAGES[result["subject"]]
    lines = [
        f"# {title}",
        "",
        *about.splitlines(),
        "",
        f"![Ratios as bars]({name}.svg)",
        "",
        *(f"- {line}" for line in _machine_lines(result)),
    ]
    for title, rows in _grouped(result):
        lines += ["", f"## {title}", "", _row(head), _row(["---", "---", *["--:"] * (len(head) - 2)])]
        lines += [_row(_cells(row, systems)) for row in rows]
    if result["failures"]:
        lines += ["", "## Failures", "", *(f"- {failure.splitlines()[0]}" for failure in result["failures"])]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def comparison(result: Result, previous: Result) -> str:
    """How each system's medians moved since `previous`: above 1 means better now."""
    before = {figure["key"]: figure for figure in previous["figures"]}
    lines = [f"against the run of {previous['taken']} (medians; above 1 is better now)"]
    for figure in result["figures"]:
        old = before.get(figure["key"])
        moves = []
        for name, row in figure["systems"].items():
            if old and name in old["systems"]:
                was = old["systems"][name]["median"]
                move = times(_advantage(figure["better"], row["median"], was))
                moves.append(f"{name} {number(was)} -> {number(row['median'])} ({move})")
        if moves:
            lines.append(f"{figure['label']}, {figure['unit']}: " + ", ".join(moves))
    return "\n".join(lines)
