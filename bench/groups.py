"""Consumer groups: how soon many are stable, what commits of offsets cost.

The members are the generator's, over plain sockets: hundreds of real clients would measure the clients. They ask every
100 ms whether there is a rebalance, and the brokers do not wait for further members before a group's first one
(group.initial.rebalance.delay.ms=0): both would only add the same waiting to both systems. In the consumer protocol a
large group still waits: a target stands for a second before the next is worked out, which is how brokers save work.
The clock runs from the first request to join, connections being open, until the last member has its assignment. Broker
CPU is of that time alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.process import BenchError
from bench.workloads import Figure, Load, Scene, Values, Workload, measure

HEARTBEAT_MS = 100


@dataclass(frozen=True, slots=True)
class Groups:
    """All members of all groups join at once."""

    name: str
    groups: int
    members: int
    protocol: Literal["classic", "consumer"] = "classic"
    passes: int = 3  # one is over in a fraction of a second
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        what = f"{self.groups:,} groups of one member" if self.members == 1 else f"one group of {self.members} members"
        label = f"{what}, {self.protocol} protocol, until stable"
        return (
            Figure(f"{self.name}.seconds", "groups", label, "s", "lower"),
            Figure(f"{self.name}.cpu", "groups", f"{label}, broker CPU", "s", "lower"),
        )

    def run(self, scene: Scene) -> Values:
        groups = max(5, int(self.groups * scene.scale)) if self.groups > 1 else 1
        members = max(5, int(self.members * scene.scale)) if self.members > 1 else 1
        loads = [self._pass(scene, groups, members, number) for number in range(self.passes)]
        return {
            f"{self.name}.seconds": statistics.median(load.printed["seconds"] for load in loads),
            f"{self.name}.cpu": statistics.median(load.printed["broker_cpu"] for load in loads),
            "traffic": 0,
            "others": statistics.median(load.others for load in loads),
        }

    def _pass(self, scene: Scene, groups: int, members: int, number: int) -> Load:
        topic = f"{self.name}-{scene.tag}-{number}"
        scene.broker.create_topic(topic, members)
        return measure(
            scene,
            "raw-groups",
            topic=topic,
            partitions=members,
            groups=groups,
            members=members,
            protocol=self.protocol,
            heartbeat_ms=HEARTBEAT_MS,
            pid=scene.broker.pid,
        )


@dataclass(frozen=True, slots=True)
class Commits:
    """Members, each in a group of its own, commit one offset at a time: `rate` a second in all, or, if that is 0, each
    as soon as its last commit was answered."""

    name: str
    rate: int
    seconds: float
    members: int = 50
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        if self.rate:
            label = f"{self.rate:,} commits/s from {self.members} members"
            return (
                Figure(f"{self.name}.rate", "groups", f"{label}, reached", "commits/s", "higher"),
                Figure(f"{self.name}.p50", "groups", f"{label}, p50", "ms", "lower"),
                Figure(f"{self.name}.p99", "groups", f"{label}, p99", "ms", "lower"),
                Figure(f"{self.name}.cpu", "groups", f"{label}, broker CPU", "µs/commit", "lower"),
            )
        label = f"commits one after the other from {self.members} members"
        return (
            Figure(f"{self.name}.rate", "groups", label, "commits/s", "higher"),
            Figure(f"{self.name}.cpu", "groups", f"{label}, broker CPU", "µs/commit", "lower"),
        )

    def run(self, scene: Scene) -> Values:
        topic, seconds = f"{self.name}-{scene.tag}", max(0.3, self.seconds * scene.scale)
        scene.broker.create_topic(topic, self.members)
        load = measure(
            scene,
            "raw-commits",
            topic=topic,
            partitions=self.members,
            connections=self.members,
            rate=self.rate,
            seconds=seconds,
            pid=scene.broker.pid,
        )
        printed = load.printed
        if printed["errors"]:
            raise BenchError(
                f"{printed['errors']} of {printed['requests']} failed, first with {printed['first_error']}"
            )
        return {
            f"{self.name}.rate": printed["requests"] / printed["seconds"],
            f"{self.name}.p50": printed["p50_us"] / 1e3,
            f"{self.name}.p99": printed["p99_us"] / 1e3,
            f"{self.name}.cpu": printed["broker_cpu"] / printed["requests"] * 1e6,
            "traffic": 0,
            "others": load.others,
        }


def groups() -> list[Workload]:
    return [
        Groups("groups-1000", groups=1000, members=1),
        Groups("group-of-500", groups=1, members=500),
        Groups("consumer-groups-1000", groups=1000, members=1, protocol="consumer"),
        Groups("consumer-group-of-500", groups=1, members=500, protocol="consumer"),
        Commits("commits-5000", rate=5000, seconds=3),
        Commits("commits", rate=0, seconds=3),
    ]
