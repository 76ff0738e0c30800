"""How soon a broker serves again after it was stopped or killed, and what many partitions cost.

Each runs on brokers of its own: 1 GB of 1 KiB records over 50 partitions, stopped with SIGTERM or killed right after
the last acknowledgement; and 4,000 empty partitions. The clock runs from the start of the process until every partition
answers ListOffsets. The files are in the page cache, as they are after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.process import Broker
from bench.workloads import Figure, Scene, Values, check_records

SIZE = 1024


@dataclass(frozen=True, slots=True)
class Restart:
    name: str
    killed: bool
    count: int
    partitions: int = 50
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        how = "kill -9" if self.killed else "a proper stop"
        label = f"restart after {how}, 1 GB in {self.partitions} partitions, until all are served"
        return (Figure(f"{self.name}.seconds", "footprint", label, "s", "lower"),)

    def run(self, scene: Scene) -> Values:
        count, topic = max(1000, int(self.count * scene.scale)), "restarted"
        broker = Broker(scene.broker.system, scene.scratch / f"{self.name}-{scene.broker.system.name}-{scene.tag}")
        try:
            broker.create_topic(topic, self.partitions)
            scene.generator.run(
                "produce", broker.port, topic=topic, partitions=self.partitions, size=SIZE, acks=1, count=count
            )
            began = broker.restart(kill=self.killed)
            with broker.admin() as admin:
                admin.wait_until_served(topic, self.partitions)
            seconds = time.monotonic() - began
            check_records(broker, topic, count)
        finally:
            broker.stop()
        return {f"{self.name}.seconds": seconds, "traffic": 0, "others": 0.0}


@dataclass(frozen=True, slots=True)
class ManyPartitions:
    name: str
    topics: int = 4
    partitions: int = 1000
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        label = f"{self.topics * self.partitions:,} partitions"
        return (
            Figure(f"{self.name}.start", "footprint", f"start with {label} until all are served", "s", "lower"),
            Figure(f"{self.name}.memory", "footprint", f"resident memory with {label}, idle", "MB", "lower"),
        )

    def run(self, scene: Scene) -> Values:
        partitions = max(10, int(self.partitions * scene.scale))
        broker = Broker(scene.broker.system, scene.scratch / f"{self.name}-{scene.broker.system.name}-{scene.tag}")
        try:
            for number in range(self.topics):
                broker.create_topic(f"wide-{number}", partitions)
            began = broker.restart()
            with broker.admin() as admin:
                for number in range(self.topics):
                    admin.wait_until_served(f"wide-{number}", partitions)
            seconds = time.monotonic() - began
            memory = broker.resident_bytes() / 1e6
        finally:
            broker.stop()
        return {f"{self.name}.start": seconds, f"{self.name}.memory": memory, "traffic": 0, "others": 0.0}


def restarts() -> list[Restart | ManyPartitions]:
    return [
        Restart("restart-clean", killed=False, count=1_000_000),
        Restart("restart-killed", killed=True, count=1_000_000),
        ManyPartitions("partitions-4000"),
    ]
