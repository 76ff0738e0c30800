"""The order of a run of streams: each engine starts once unmeasured, then come rounds in which the engines take turns,
workload by workload; who goes first alternates between rounds. Applications and brokers are fresh each time, so no
round is discarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.loadgen import LoadGenerator
from bench.process import System
from bench.rounds import Measured, Notes
from bench.streams.engines import Engine
from bench.streams.workloads import ColdStart, Stage, StreamsWorkload


@dataclass(slots=True)
class Plan:
    workloads: Sequence[StreamsWorkload]
    repeats: int
    scale: float  # 1 for a full run, less for smaller sizes and shorter times


def run(
    engines: Sequence[Engine],
    plan: Plan,
    broker: System,
    generator: LoadGenerator,
    scratch: Path,
    say: Callable[[str], None],
) -> Measured:
    notes = Notes(plan.repeats, say)
    failed: set[tuple[str, str]] = set()

    def measure(index: int, workload: StreamsWorkload, engine: Engine) -> None:
        pair = (workload.name, engine.name)
        if pair in failed:
            return
        with notes.noting(f"{workload.name} on {engine.label}", partial(failed.add, pair)):
            values = workload.run(Stage(engine, broker, scratch, generator, plan.scale, f"r{index}"))
            notes.keep(index, workload.name, workload.figures(), engine, values)

    scratch.mkdir(parents=True, exist_ok=True)
    for engine in engines:
        measure(0, ColdStart("start", "map"), engine)
    for index in range(1, plan.repeats + 1):
        for workload in plan.workloads:
            for engine in engines if index % 2 else engines[::-1]:
                measure(index, workload, engine)
    return notes.measured
