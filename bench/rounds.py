"""The order of a run.

1. Start: fresh brokers, one at a time, one discarded start and then `repeats`.
2. Both systems up at once, one of them under load at a time. A discarded round (it warms the JVM), then `repeats`
   rounds; within a round the systems alternate workload by workload (a consume stays with its produce), and who goes
   first alternates between rounds. Before each run all brokers have come to rest, after it its topics are deleted.

A workload that fails on a system is noted and not tried again there; the run goes on.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from bench.loadgen import LoadGenerator
from bench.process import BenchError, Broker, System
from bench.wire import AdminError
from bench.workloads import FINAL, IDLE_CPU, LOADED, Figure, Scene, Start, Values, Workload

LOADED_AFTER = 2e9  # bytes of traffic
NO_WAITING = {"group.initial.rebalance.delay.ms": "0"}  # see groups.py


@dataclass(slots=True)
class Plan:
    workloads: Sequence[Workload]
    with_start: bool
    repeats: int
    scale: float  # 1 for a full run, less for smaller sizes and shorter times
    settle: float  # seconds of quiet before memory is read


class Measurable(Protocol):
    """Whatever figures belong to: a broker's system, or an engine of streams."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...


@dataclass(slots=True)
class Measured:
    """figure key -> system name -> one value per kept round."""

    figures: list[Figure] = field(default_factory=list)
    values: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    failures: list[str] = field(default_factory=list)
    others: list[float] = field(default_factory=list)  # cores taken by anything else, one value per kept run

    def add(self, figures: Sequence[Figure], system: Measurable, values: Values) -> None:
        for figure in figures:
            if figure not in self.figures:
                self.figures.append(figure)
            self.values[figure.key][system.name].append(values[figure.key])


def stretches(workloads: Sequence[Workload]) -> list[list[Workload]]:
    """Workloads that read a topic go together with the one before them that wrote it."""
    groups: list[list[Workload]] = []
    for workload in workloads:
        if groups and workload.source is not None and workload.source in [member.name for member in groups[-1]]:
            groups[-1].append(workload)
        else:
            groups.append([workload])
    return groups


def wait_for_calm(brokers: Sequence[Broker], *, share: float = 0.1, pause: float = 0.05, patience: float = 3.0) -> None:
    """Returns when the brokers together use less than `share` of a core: a JVM compiles on after its load has ended."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        used, began = sum(broker.cpu_seconds() for broker in brokers if broker.is_running()), time.monotonic()
        time.sleep(pause)
        used = sum(broker.cpu_seconds() for broker in brokers if broker.is_running()) - used
        if used < share * (time.monotonic() - began):
            return


@dataclass(slots=True)
class Notes:
    """What a run tells while it goes on, and what it keeps."""

    repeats: int
    say: Callable[[str], None]
    measured: Measured = field(default_factory=Measured)

    def keep(self, index: int, name: str, figures: Sequence[Figure], system: Measurable, values: Values) -> None:
        """Of round `index`; round 0 is shown and discarded."""
        shown = "  ".join(f"{values[figure.key]:.4g} {figure.unit}" for figure in figures)
        stage = f"round {index}/{self.repeats}" if index else "warm-up"
        self.say(f"{stage:10} {name:20} {system.label:13} {shown}")
        if index:
            self.measured.add(figures, system, values)
            if "others" in values:
                self.measured.others.append(values["others"])

    @contextlib.contextmanager
    def noting(self, what: str, on_failure: Callable[[], object]) -> Iterator[None]:
        """A failure is noted, and the run goes on."""
        try:
            yield
        except (BenchError, AdminError, OSError) as error:
            self.measured.failures.append(f"{what}: {error}")
            self.say(f"FAILED     {what}: {error}")
            on_failure()


class Run:
    def __init__(
        self,
        systems: Sequence[System],
        plan: Plan,
        generator: LoadGenerator,
        scratch: Path,
        say: Callable[[str], None],
    ) -> None:
        self.systems = systems
        self.plan = plan
        self.generator = generator
        self.scratch = scratch
        self.notes = Notes(plan.repeats, say)
        self.measured = self.notes.measured

    def whole(self) -> Measured:
        if self.plan.with_start:
            self._starts()
        if self.plan.workloads:
            self._loads()
        return self.measured

    def _starts(self) -> None:
        start, systems = Start(), list(self.systems)
        for index in range(self.plan.repeats + 1):
            for system in list(systems):
                directory = self.scratch / f"{system.name}-start-{index}"
                with self.notes.noting(f"start on {system.label}", partial(systems.remove, system)):
                    values = start.run(system, directory, settle=self.plan.settle if index else 0.0)
                    self.notes.keep(index, start.name, start.figures, system, values)

    def _loads(self) -> None:
        failed: set[tuple[str, str]] = set()
        with contextlib.ExitStack() as stack:
            brokers = []
            for system in self.systems:
                brokers.append(Broker(system, self.scratch / system.name, NO_WAITING))
                stack.callback(brokers[-1].stop)
            for index in range(self.plan.repeats + 1):
                for stretch in stretches(self.plan.workloads):
                    for broker in brokers if index % 2 else brokers[::-1]:
                        for workload in stretch:
                            pair = (workload.name, broker.system.name)
                            if pair not in failed:
                                wait_for_calm(brokers)
                                with self.notes.noting(" on ".join(pair), partial(failed.add, pair)):
                                    self._load(index, workload, broker)
                        with self.notes.noting(f"deleting topics on {broker.system.name}", broker.topics.clear):
                            broker.delete_topics()
            self._finish(brokers)

    def _load(self, index: int, workload: Workload, broker: Broker) -> None:
        values = workload.run(Scene(broker, self.generator, self.scratch, self.plan.scale, f"r{index}"))
        self.notes.keep(index, workload.name, workload.figures(), broker.system, values)
        before, broker.traffic = broker.traffic, broker.traffic + int(values["traffic"])
        if before < LOADED_AFTER <= broker.traffic:
            self.measured.add([LOADED], broker.system, {LOADED.key: broker.resident_bytes() / 1e6})

    def _finish(self, brokers: Sequence[Broker]) -> None:
        """Memory after everything, and what an idle broker costs: also how much the idle one disturbs the other."""
        living = [broker for broker in brokers if broker.is_running()]
        for broker in brokers:
            if broker not in living:
                self.measured.failures.append(f"{broker.system.label} died:\n{broker.last_output()}")
        before, began = [broker.cpu_seconds() for broker in living], time.monotonic()
        time.sleep(5 * self.plan.settle)
        passed = time.monotonic() - began
        for broker, cpu in zip(living, before, strict=True):
            percent = (broker.cpu_seconds() - cpu) / passed * 100
            self.measured.add([FINAL], broker.system, {FINAL.key: broker.resident_bytes() / 1e6})
            self.measured.add([IDLE_CPU], broker.system, {IDLE_CPU.key: percent})
