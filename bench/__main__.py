"""`python -m bench`: runs ottla and Apache Kafka side by side, prints the table, writes the result.

A full run of both systems writes bench/result.json, docs/bench.md and docs/bench.svg; any other (--quick, --scale,
--only, --workloads) writes the same three under build/bench/. With --streams, ottla's streams and Kafka Streams are
compared instead, in a run of its own since it takes long: bench/streams.json, docs/bench-streams.md and .svg.
Exit status 1 when a workload failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from bench import chart, machine, report, rounds
from bench.groups import Commits, Groups, groups
from bench.kafka import Kafka
from bench.loadgen import LoadGenerator
from bench.ottla import Ottla
from bench.process import BenchError, System
from bench.restarts import ManyPartitions, restarts
from bench.rounds import Measured
from bench.streams import rounds as streams_rounds
from bench.streams.engines import Engine, KafkaStreams, OttlaStreams
from bench.streams.workloads import streams
from bench.transactions import Transactions, transactions
from bench.upkeep import Upkeep
from bench.workloads import SmallRequests, Start, Workload, standard

ROOT = Path(__file__).resolve().parent.parent
Compared = System | Engine
Kind = TypeVar("Kind", bound=Compared)
WITHOUT_RDKAFKA = SmallRequests | ManyPartitions | Groups | Commits | Transactions  # need no more than plain sockets


def families() -> dict[str, list[Workload]]:
    return {
        "standard": standard(),
        "groups": groups(),
        "transactions": transactions(),
        "restarts": [*restarts(), Upkeep("upkeep", 8)],
    }


def every_workload() -> list[Workload]:
    return [workload for family in families().values() for workload in family]


def names_of_families() -> dict[str, list[str]]:
    known = {family: [workload.name for workload in workloads] for family, workloads in families().items()}
    return {**known, "streams": [workload.name for workload in streams()]}


def named(text: str) -> list[str]:
    """Names of workloads, those of a family in its place."""
    known = names_of_families()
    return [name for one in text.split(",") for name in known.get(one, [one])]


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    brokers, of_streams = [Start.name, *(workload.name for workload in every_workload())], named("streams")
    known = ", ".join([*names_of_families(), *brokers, *of_streams])
    parser = argparse.ArgumentParser(prog="bench", description="ottla and Apache Kafka side by side")
    parser.add_argument("--streams", action="store_true", help="ottla's streams and Kafka Streams, not the brokers")
    parser.add_argument("--only", choices=["ottla", "kafka"], help="one system alone")
    parser.add_argument("--workloads", help=f"comma-separated, of: {known}")
    parser.add_argument("--repeats", type=int, help="rounds to keep after the discarded one (3; 1 with --quick)")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work, not how fast is it")
    parser.add_argument("--scale", type=float, help="sizes and times, as a share of the full ones (1; --quick: 0.02)")
    parser.add_argument("--compare", type=Path, metavar="RESULT.json", help="also print the change since that result")
    chosen = parser.parse_args(arguments)
    chosen.repeats = chosen.repeats or (1 if chosen.quick else 3)
    if chosen.repeats < 1:
        parser.error("--repeats starts at 1")
    chosen.full = not (chosen.quick or chosen.only or chosen.workloads or chosen.scale)
    chosen.scale = chosen.scale or (0.02 if chosen.quick else 1.0)
    if not 0 < chosen.scale <= 1:
        parser.error("--scale is above 0 and at most 1")
    chosen.names = named(chosen.workloads) if chosen.workloads else of_streams if chosen.streams else brokers
    unknown = [name for name in chosen.names if name not in (*brokers, *of_streams)]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}; there are: {known}")
    chosen.streams = chosen.streams or chosen.names[0] in of_streams
    if not set(chosen.names) <= set(of_streams if chosen.streams else brokers):
        parser.error("workloads of streams and of brokers do not go into one run")
    return chosen


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    chosen = options()
    # Leave through the clean-up, whoever ends the run (a shell's background job starts with SIGINT ignored).
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    previous = json.loads(chosen.compare.read_text()) if chosen.compare else None
    build = ROOT / "build" / "bench"
    measure = measure_streams if chosen.streams else measure_brokers
    try:
        remove_leftovers(build)
        build.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"run-{os.getpid()}-", dir=build) as scratch:
            systems, measured = measure(chosen, build, Path(scratch))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    result = report.build(
        measured,
        subject="streams" if chosen.streams else "brokers",
        taken=datetime.datetime.now(datetime.UTC).date().isoformat(),
        repeats=chosen.repeats,
        full=chosen.full,
        machine=machine.describe(),
        systems={system.name: {"label": system.label, "version": system.version()} for system in systems},
    )
    write(result, *((ROOT / "bench", ROOT / "docs") if chosen.full else (build, build)))
    say("\n" + report.table(result))
    if previous:
        say("\n" + report.comparison(result, previous))
    return 1 if result["failures"] else 0


def ready(both: Sequence[Kind], only: str | None) -> list[Kind]:
    """Those that take part, installed."""
    systems = [system for system in both if only in (None, system.name)]
    for system in systems:
        system.install()
        system.version()  # what cannot be told must not show after an hour
    return systems


def measure_brokers(chosen: argparse.Namespace, build: Path, scratch: Path) -> tuple[Sequence[Compared], Measured]:
    systems: list[System] = ready([Ottla(ROOT), Kafka(ROOT)], chosen.only)
    workloads = [workload for workload in every_workload() if workload.name in chosen.names]
    plan = rounds.Plan(
        workloads=workloads,
        with_start=Start.name in chosen.names,
        repeats=chosen.repeats,
        scale=chosen.scale,
        settle=0.2 if chosen.quick else 1.0,
    )
    generator = LoadGenerator(build, raw_only=all(isinstance(workload, WITHOUT_RDKAFKA) for workload in workloads))
    return systems, rounds.Run(systems, plan, generator, scratch, say).whole()


def measure_streams(chosen: argparse.Namespace, build: Path, scratch: Path) -> tuple[Sequence[Compared], Measured]:
    engines: list[Engine] = ready([OttlaStreams(), KafkaStreams(ROOT)], chosen.only)
    (broker,) = ready([Ottla(ROOT)], None)
    plan = streams_rounds.Plan(
        workloads=[workload for workload in streams() if workload.name in chosen.names],
        repeats=chosen.repeats,
        scale=chosen.scale,
    )
    return engines, streams_rounds.run(engines, plan, broker, LoadGenerator(build), scratch, say)


def remove_leftovers(build: Path) -> None:
    """Data of runs that were killed before they could clean up."""
    for directory in build.glob("run-*-*"):
        if not Path("/proc", directory.name.split("-")[1]).exists():
            shutil.rmtree(directory, ignore_errors=True)


def write(result: report.Result, data: Path, pages: Path) -> None:
    page, name = report.page_of(result), "result" if result["subject"] == "brokers" else result["subject"]
    files = {
        data / f"{name}.json": json.dumps(result, indent=1, ensure_ascii=False) + "\n",
        pages / f"{page}.md": report.markdown(result),
        pages / f"{page}.svg": chart.draw(result),
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    say(f"\nwritten: {', '.join(str(path.relative_to(ROOT)) for path in files)}")


if __name__ == "__main__":
    sys.exit(main())
