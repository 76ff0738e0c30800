"""What is measured of the two engines.

catching up   records/s from the moment that the main part of the input can be read (see judge.py) until the right
              result stands in the output topic: the engine runs and is warm, its start is not part of it
latency       from a record's send to the receipt of its result, at a fixed rate, in an application that is warm
cold start    from the start of the process until the first record of output can be read

Each run has a fresh broker, a fresh application and topics of 4 partitions. Engines take turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench import machine
from bench.loadgen import LoadGenerator
from bench.process import BenchError, Broker, System, cpu_seconds, end, last_lines, launch, resident_bytes
from bench.streams.engines import Delivery, Engine, Goal, Job
from bench.streams.inputs import KEYS, PARTITIONS, VALUE_BYTES, Input, Topology
from bench.streams.judge import Check, Filler, Watch
from bench.workloads import Figure, Values

NO_WAITING = {"group.initial.rebalance.delay.ms": "0"}
TITLES: dict[Topology, str] = {
    "map": "map",
    "count": "count by key",
    "window": "count by key and second",
    "words": "word count",
    "join": "stream-table join, 100,000 keys",
}
DELIVERIES: dict[Delivery, str] = {"at_least_once": "at least once", "exactly_once": "exactly once"}


@dataclass(slots=True)
class Stage:
    """Where a workload runs: with which engine and broker, in which directory, at which size."""

    engine: Engine
    broker: System
    scratch: Path
    generator: LoadGenerator
    scale: float
    tag: str


class StreamsWorkload(Protocol):
    @property
    def name(self) -> str: ...

    def figures(self) -> Sequence[Figure]: ...

    def run(self, stage: Stage) -> Values: ...


class Application:
    """A running application on a broker of its own."""

    def __init__(self, stage: Stage, broker: Broker, topology: Topology, delivery: Delivery, goal: Goal) -> None:
        self.label = stage.engine.label
        self.directory = broker.directory / "application"
        self.directory.mkdir()
        command = stage.engine.prepare(Job(topology, delivery, goal, f"127.0.0.1:{broker.port}", self.directory))
        self._output = self.directory / "output.log"
        self.began = time.monotonic()
        self._seen = (self.began, 0.0)  # when its CPU time was looked at last, and what it was
        directory = str(self.directory)
        self._process = launch(command, self._output, TMPDIR=directory, SPARK_LOCAL_DIRS=directory)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self._process.pid)

    def is_idle(self, *, share: float = 0.2, span: float = 0.2) -> bool:
        """Whether it has used little of a core for the last `span` seconds; to be asked again and again."""
        now, used = time.monotonic(), self.cpu_seconds()
        since, before = self._seen
        if now - since < span:
            return False
        self._seen = (now, used)
        return now - since < 2 * span and used - before < share * (now - since)

    def wait_for_calm(self, *, pause: float = 0.02, patience: float = 3.0) -> None:
        """Compilers go on after their load has ended."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and not self.is_idle():
            time.sleep(pause)

    def stop(self) -> None:
        end(self._process)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Failures come with what the application has printed."""
        try:
            yield
        except BenchError as error:
            raise BenchError(f"{error}\n{last_lines(self._output)}".rstrip()) from None


@contextmanager
def fresh_broker(stage: Stage, name: str) -> Iterator[Broker]:
    broker = Broker(stage.broker, stage.scratch / f"{name}-{stage.engine.name}-{stage.tag}", NO_WAITING)
    try:
        yield broker
    finally:
        broker.stop()


def make_topics(broker: Broker, topology: Topology) -> None:
    for topic in ("input", "output", *(["table"] if topology == "join" else [])):
        broker.create_topic(topic, PARTITIONS)


@dataclass(frozen=True, slots=True)
class CatchUp:
    name: str
    topology: Topology
    delivery: Delivery
    count: int  # of the main part; the first one is a fifth of it
    with_memory: bool = False

    def figures(self) -> Sequence[Figure]:
        label = f"{TITLES[self.topology]}, {DELIVERIES[self.delivery]}"
        figures = (
            Figure(f"{self.name}.rate", "throughput", label, "k rec/s", "higher"),
            Figure(f"{self.name}.cpu", "engine", label, "s/M rec", "lower"),
        )
        if not self.with_memory:
            return figures
        return (*figures, Figure(f"{self.name}.memory", "footprint", f"memory after {label}", "MB", "lower"))

    def run(self, stage: Stage) -> Values:
        count = max(2000, int(self.count * stage.scale))
        first = count // 5
        source, check = Input(self.topology), Check()
        with fresh_broker(stage, self.name) as broker:
            make_topics(broker, self.topology)
            machine.touch_page_cache(stage.scratch, 2 * (count + first) * VALUE_BYTES)
            filler = Filler(broker.port)
            self._fill(filler, source, first, count)
            application = Application(stage, broker, self.topology, self.delivery, "throughput")
            watch = Watch(broker.port, "output", check)
            try:
                with application.explained():
                    check.expect(source.expected(first))
                    watch.completed(application.is_running, application.is_idle)
                    expected = source.expected(first + count)
                    application.wait_for_calm()
                    check.expect(expected)
                    busy, broker_cpu, cpu = machine.busy_seconds(), broker.cpu_seconds(), application.cpu_seconds()
                    own, began = time.process_time(), time.monotonic()
                    filler.commit()
                    ended = watch.completed(application.is_running, application.is_idle)
                memory = application.resident_bytes()
                cpu = application.cpu_seconds() - cpu
                others = machine.busy_seconds() - busy - cpu - (broker.cpu_seconds() - broker_cpu)
                others = (others - (time.process_time() - own)) / (time.monotonic() - began)
            finally:
                watch.close()
                application.stop()
        return {
            f"{self.name}.rate": count / (ended - began) / 1e3,
            f"{self.name}.cpu": cpu / count * 1e6,
            f"{self.name}.memory": memory / 1e6,
            "others": max(0.0, others),
        }

    def _fill(self, filler: Filler, source: Input, first: int, count: int) -> None:
        table = source.table()
        if self.topology == "join":
            filler.write("table", table)
            filler.commit()
        filler.write("input", source.records(0, first))
        filler.commit()
        filler.write("input", source.records(first, first + count))


# Where a record carries the time of its sending, on its way in and on its way out.
STAMPS: dict[Topology, tuple[str, str]] = {
    "map": ("value", "value"),
    "count": ("key", "key"),
    "window": ("key", "key"),
    "words": ("value", "key"),
    "join": ("value", "value"),
}


@dataclass(frozen=True, slots=True)
class Latency:
    """Several rates, one after the other, in one application; before them a load that warms it up."""

    name: str
    topology: Topology
    delivery: Delivery
    rates: Sequence[int]
    seconds: float
    goal: Goal = "latency"

    def figures(self) -> Sequence[Figure]:
        mode = ", real-time mode" if self.goal == "real-time" else ""
        label = f"{TITLES[self.topology]}, {DELIVERIES[self.delivery]}{mode}"
        return tuple(
            Figure(f"{self.name}-{rate}.{key}", "latency", f"{label}, at {rate:,} rec/s, {key}", "ms", "lower")
            for rate in self.rates
            for key in ("p50", "p99")
        )

    def run(self, stage: Stage) -> Values:
        seconds = max(0.5, self.seconds * stage.scale)
        stamp, found = STAMPS[self.topology]
        options = {
            "topic": "input",
            "out_topic": "output",
            "partitions": PARTITIONS,
            "size": VALUE_BYTES,
            "acks": -1,
            "stamp": stamp,
            "found": found,
            "keys": KEYS[self.topology] if stamp == "value" else 0,
            "timeout": 120,
        }
        values: dict[str, float] = {}
        with fresh_broker(stage, self.name) as broker:
            make_topics(broker, self.topology)
            if self.topology == "join":
                filler = Filler(broker.port)
                filler.write("table", Input("join").table())
                filler.commit()
            application = Application(stage, broker, self.topology, self.delivery, self.goal)
            try:
                with application.explained():
                    stage.generator.run("through", broker.port, **options, rate=max(self.rates), seconds=seconds)
                    for rate in self.rates:
                        printed = stage.generator.run(
                            "through", broker.port, **options, rate=rate, seconds=seconds, warmup=min(1.0, seconds)
                        )
                        values |= {f"{self.name}-{rate}.{key}": printed[f"{key}_us"] / 1e3 for key in ("p50", "p99")}
            finally:
                application.stop()
        return values


@dataclass(frozen=True, slots=True)
class ColdStart:
    name: str
    topology: Topology

    def figures(self) -> Sequence[Figure]:
        label = f"start of the process to first output, {TITLES[self.topology]}"
        return (Figure(f"{self.name}.seconds", "footprint", label, "s", "lower"),)

    def run(self, stage: Stage) -> Values:
        with fresh_broker(stage, self.name) as broker:
            make_topics(broker, self.topology)
            filler = Filler(broker.port)
            filler.write("input", Input(self.topology).records(0, 1000))
            filler.commit()
            watch = Watch(broker.port, "output", Check())
            application = Application(stage, broker, self.topology, "at_least_once", "latency")
            try:
                with application.explained():
                    seconds = watch.first(application.is_running) - application.began
            finally:
                watch.close()
                application.stop()
        return {f"{self.name}.seconds": seconds}


COUNTS: dict[Topology, int] = {
    "map": 2_500_000,
    "count": 3_000_000,
    "window": 3_000_000,
    "words": 400_000,
    "join": 2_500_000,
}


def streams() -> list[StreamsWorkload]:
    workloads: list[StreamsWorkload] = [
        ColdStart("streams-start-map", "map"),
        ColdStart("streams-start-count", "count"),
    ]
    short: dict[Delivery, str] = {"at_least_once": "", "exactly_once": "-once"}
    for topology, count in COUNTS.items():
        for delivery, suffix in short.items():
            with_memory = topology == "count" and delivery == "at_least_once"
            workloads.append(CatchUp(f"streams-{topology}{suffix}", topology, delivery, count, with_memory))
    for topology in COUNTS:
        rates = (200, 2_000, 10_000) if topology == "map" else (200, 2_000)
        for delivery, suffix in short.items():
            once = rates if delivery == "at_least_once" else (2_000,)
            workloads.append(Latency(f"streams-latency-{topology}{suffix}", topology, delivery, once, 6))
    rates = (200, 2_000, 10_000)
    workloads.append(Latency("streams-latency-real-time", "map", "at_least_once", rates, 6, "real-time"))
    return workloads
