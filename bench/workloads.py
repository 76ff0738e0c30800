"""What is measured. A workload runs against one broker and gives the values of its figures.

Settings of the clients: linger 5 ms (end to end: 0), no compression, no copies; end to end and 1 KiB with acks=all.
MB and GB are 10^6 and 10^9 bytes of record values. Broker CPU is that of the broker's process while the load runs.
Every produce is checked against the topic's end offsets, every reply to a small request by the generator.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from bench import machine
from bench.loadgen import LoadGenerator
from bench.process import BenchError, Broker, System

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the result: what it is, and which direction is good."""

    key: str
    group: Literal["throughput", "latency", "requests", "groups", "transactions", "cpu", "engine", "footprint"]
    label: str
    unit: str
    better: Literal["higher", "lower"]


@dataclass(slots=True)
class Scene:
    """One run of one workload: against which broker, at which size, under which name."""

    broker: Broker
    generator: LoadGenerator
    scratch: Path
    scale: float  # 1 for a full run
    tag: str  # makes topic names of different runs differ

    def warm_memory(self, size: int) -> None:
        """For `size` bytes of records, with room for what surrounds them."""
        machine.touch_page_cache(self.scratch, size * 5 // 4)


class Workload(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str | None:
        """The workload whose topic this one reads, if it was run just before."""

    def figures(self) -> Sequence[Figure]: ...

    def run(self, scene: Scene) -> Values: ...


@dataclass(slots=True)
class Load:
    """What the generator printed, and what the run cost."""

    printed: dict[str, Any]
    cpu: float  # processor seconds of the broker
    others: float  # cores kept busy by anything but broker and generator: how noisy the machine was


def measure(scene: Scene, mode: str, **options: object) -> Load:
    cpu, busy, began = scene.broker.cpu_seconds(), machine.busy_seconds(), time.monotonic()
    printed = scene.generator.run(mode, scene.broker.port, **options)
    cpu = scene.broker.cpu_seconds() - cpu
    others = machine.busy_seconds() - busy - cpu - printed["cpu_seconds"]
    return Load(printed, cpu, max(0.0, others / (time.monotonic() - began)))


def _size_name(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"


def _rate(size: int, records: int, seconds: float) -> float:
    return records / seconds / 1e3 if size < 1024 else records * size / seconds / 1e6


def _rate_unit(size: int) -> str:
    return "k msg/s" if size < 1024 else "MB/s"


@dataclass(frozen=True, slots=True)
class Produce:
    name: str
    size: int
    acks: int
    partitions: int
    count: int
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        acks = "all" if self.acks < 0 else str(self.acks)
        where = f"{self.partitions} partition" + ("s" if self.partitions > 1 else "")
        label = f"produce {_size_name(self.size)}, acks={acks}, {where}"
        return (
            Figure(f"{self.name}.rate", "throughput", label, _rate_unit(self.size), "higher"),
            Figure(f"{self.name}.cpu", "cpu", label, "s/GB", "lower"),
        )

    def topic(self, scene: Scene) -> str:
        return f"{self.name}-{scene.tag}"

    def run(self, scene: Scene) -> Values:
        count, topic = max(1000, int(self.count * scene.scale)), self.topic(scene)
        scene.broker.create_topic(topic, self.partitions)
        scene.warm_memory(count * self.size)
        load = measure(
            scene, "produce", topic=topic, partitions=self.partitions, size=self.size, acks=self.acks, count=count
        )
        check_records(scene.broker, topic, count)
        return {
            f"{self.name}.rate": _rate(self.size, count, load.printed["produce_seconds"]),
            f"{self.name}.cpu": load.cpu / (count * self.size / 1e9),
            "traffic": count * self.size,
            "others": load.others,
        }


def check_records(broker: Broker, topic: str, expected: int) -> None:
    with broker.admin() as admin:
        found = admin.records(topic, broker.topics[topic])
    if found != expected:
        raise BenchError(f"{broker.system.label}: {topic} holds {found} records, {expected} were acknowledged")


@dataclass(frozen=True, slots=True)
class Consume:
    """Reads what `produced` wrote, from the start, several times; writes it first when that did not just run."""

    name: str
    produced: Produce
    passes: int = 3

    @property
    def source(self) -> str:
        return self.produced.name

    def figures(self) -> Sequence[Figure]:
        size = self.produced.size
        return (
            Figure(f"{self.name}.rate", "throughput", f"consume {_size_name(size)}", _rate_unit(size), "higher"),
            Figure(f"{self.name}.cpu", "cpu", f"consume {_size_name(size)}", "s/GB", "lower"),
        )

    def run(self, scene: Scene) -> Values:
        topic, size, partitions = self.produced.topic(scene), self.produced.size, self.produced.partitions
        if topic not in scene.broker.topics:
            self.produced.run(scene)
        with scene.broker.admin() as admin:
            count = admin.records(topic, partitions)
        options = {"topic": topic, "partitions": partitions, "size": size, "count": count}
        loads = [measure(scene, "consume", **options) for _ in range(self.passes)]
        total = count * self.passes
        return {
            f"{self.name}.rate": _rate(size, total, sum(load.printed["consume_seconds"] for load in loads)),
            f"{self.name}.cpu": sum(load.cpu for load in loads) / (total * size / 1e9),
            "traffic": total * size,
            "others": sum(load.others for load in loads) / self.passes,
        }


@dataclass(frozen=True, slots=True)
class Both:
    """One producer and one consumer that follows it."""

    name: str
    size: int
    acks: int
    count: int
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        label = f"produce and consume {_size_name(self.size)} at once"
        return (
            Figure(f"{self.name}.rate", "throughput", f"{label}, each way", _rate_unit(self.size), "higher"),
            Figure(f"{self.name}.cpu", "cpu", f"{label}, in and out", "s/GB", "lower"),
        )

    def run(self, scene: Scene) -> Values:
        count, topic = max(1000, int(self.count * scene.scale)), f"{self.name}-{scene.tag}"
        scene.broker.create_topic(topic, 1)
        scene.warm_memory(count * self.size)
        load = measure(scene, "both", topic=topic, size=self.size, acks=self.acks, count=count)
        seconds = max(load.printed["produce_seconds"], load.printed["consume_seconds"])
        return {
            f"{self.name}.rate": _rate(self.size, count, seconds),
            f"{self.name}.cpu": load.cpu / (count * self.size / 1e9),
            "traffic": 2 * count * self.size,
            "others": load.others,
        }


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """From the producer's send call to the consumer's receipt, 100 B, acks=all, at a fixed rate."""

    name: str
    rate: int
    seconds: float
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        label = f"end to end at {self.rate:,} msg/s"
        quantiles = (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))
        return tuple(
            Figure(f"{self.name}.{key}", "latency", f"{label}, {name}", "ms", "lower") for key, name in quantiles
        )

    def run(self, scene: Scene) -> Values:
        topic = f"{self.name}-{scene.tag}"
        scene.broker.create_topic(topic, 1)
        seconds = max(0.5, self.seconds * scene.scale)
        load = measure(scene, "e2e", topic=topic, acks=-1, rate=self.rate, seconds=seconds, warmup=min(1.0, seconds))
        values = {f"{self.name}.{key}": load.printed[f"{key}_us"] / 1e3 for key in ("p50", "p99", "p999")}
        return {**values, "traffic": 2 * 100 * load.printed["records"], "others": load.others}


@dataclass(frozen=True, slots=True)
class SmallRequests:
    """One-record requests (100 B) over 4 partitions, from many connections, each with `depth` requests in flight."""

    name: str
    kind: Literal["produce", "fetch"]
    connections: int
    depth: int
    seconds: float
    source: str | None = None
    partitions: int = 4

    def figures(self) -> Sequence[Figure]:
        what = {"produce": "one-record Produce, acks=1", "fetch": "one-record Fetch"}[self.kind]
        label = f"{what}, {self.connections} connections x {self.depth}"
        return (
            Figure(f"{self.name}.rate", "requests", label, "k req/s", "higher"),
            Figure(f"{self.name}.p99", "latency", label + ", p99", "ms", "lower"),
            Figure(f"{self.name}.cpu", "cpu", label, "µs/req", "lower"),
        )

    def run(self, scene: Scene) -> Values:
        topic = f"{self.name}-{scene.tag}"
        scene.broker.create_topic(topic, self.partitions)
        options = {"topic": topic, "partitions": self.partitions, "connections": self.connections}
        if self.kind == "fetch":
            scene.generator.run("raw-produce", scene.broker.port, **options, count=self.connections)
        seconds = max(0.3, self.seconds * scene.scale)
        load = measure(scene, f"raw-{self.kind}", **options, depth=self.depth, seconds=seconds)
        requests = load.printed["requests"]
        if load.printed["errors"]:
            raise BenchError(f"{load.printed['errors']} of {requests} failed, first with {load.printed['first_error']}")
        if self.kind == "produce":
            check_records(scene.broker, topic, requests)
        return {
            f"{self.name}.rate": requests / load.printed["seconds"] / 1e3,
            f"{self.name}.p99": load.printed["p99_us"] / 1e3,
            f"{self.name}.cpu": load.cpu / requests * 1e6,
            "traffic": 100 * requests,
            "others": load.others,
        }


class Start:
    """A fresh broker on an empty directory: how soon it answers, what it holds, how soon many partitions are served."""

    name = "start"
    partitions = 1000
    figures = (
        Figure("start.seconds", "footprint", "start to first Metadata reply", "s", "lower"),
        Figure("start.partitions", "footprint", "one topic of 1,000 partitions until all are served", "s", "lower"),
        Figure("start.idle", "footprint", "resident memory, idle", "MB", "lower"),
    )

    def run(self, system: System, directory: Path, *, settle: float) -> Values:
        broker = Broker(system, directory)
        try:
            time.sleep(settle)
            idle = broker.resident_bytes() / 1e6
            with broker.admin() as admin:
                began = time.monotonic()
                admin.create_topic("wide", self.partitions)
                admin.wait_until_served("wide", self.partitions)
                seconds = time.monotonic() - began
            return {"start.seconds": broker.start_seconds, "start.partitions": seconds, "start.idle": idle}
        finally:
            # Right after thousands of files are deleted, making new ones was seen to take five times as long (ext4).
            broker.stop(keep=True)


# Of the brokers that carried the whole load: taken once each, not per round.
LOADED = Figure("memory.loaded", "footprint", "resident memory after 2 GB of traffic", "MB", "lower")
FINAL = Figure("memory.final", "footprint", "resident memory at the end of the run", "MB", "lower")
IDLE_CPU = Figure("idle.cpu", "cpu", "idle, after the load", "% of a core", "lower")


def standard() -> list[Workload]:
    """The workloads of a full run, in their order: a consume follows the produce whose topic it reads.

    A topic stays under 1 GB: as much free memory a host that takes it back was seen to leave in place."""
    small = Produce("produce-100b-1p", 100, 1, 1, 7_000_000)
    large = Produce("produce-1k-1p", 1024, -1, 1, 800_000)
    return [
        small,
        Consume("consume-100b", small),
        Produce("produce-100b-6p", 100, 1, 6, 7_000_000),
        large,
        Consume("consume-1k", large),
        Produce("produce-1k-6p", 1024, -1, 6, 800_000),
        Both("both-1k", 1024, -1, 800_000),
        EndToEnd("e2e-500", 500, 8),
        EndToEnd("e2e-5000", 5000, 5),
        SmallRequests("small-produce-16x1", "produce", 16, 1, 3),
        SmallRequests("small-produce-16x8", "produce", 16, 8, 3),
        SmallRequests("small-fetch-16x1", "fetch", 16, 1, 2),
    ]
