"""Latency while the log is kept up: segments roll, old ones are deleted, compacted topics are compacted, all the time.

A broker of its own, with the intervals of its housekeeping set to a second. Two producers write 5 MB/s each, in
segments of 1 MiB: one to a topic that keeps 2 MiB per partition, one with 1,000 keys to a compacted topic. Beside
them 500 records a second go end to end through a quiet topic, and are timed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.process import BenchError, Broker
from bench.workloads import Figure, Scene, Values

OFTEN = {
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "1000",
}
SEGMENTS = {"segment.bytes": str(1 << 20)}
DELETED = {**SEGMENTS, "retention.bytes": str(2 << 20)}
COMPACTED = {**SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
PARTITIONS, SIZE, RATE = 4, 1024, 5_000
EARLIEST = -2


@dataclass(frozen=True, slots=True)
class Upkeep:
    name: str
    seconds: float
    source: str | None = None

    def figures(self) -> Sequence[Figure]:
        label = "end to end at 500 msg/s while logs roll, are deleted and compacted"
        return tuple(
            Figure(f"{self.name}.{key}", "latency", f"{label}, {key}", "ms", "lower") for key in ("p50", "p99")
        )

    def run(self, scene: Scene) -> Values:
        seconds = max(1.0, self.seconds * scene.scale)
        count = int(RATE * (seconds + 3))
        directory = scene.scratch / f"{self.name}-{scene.broker.system.name}-{scene.tag}"
        broker = Broker(scene.broker.system, directory, OFTEN)
        try:
            for topic, configs in (("deleted", DELETED), ("compacted", COMPACTED), ("quiet", {})):
                broker.create_topic(topic, PARTITIONS, configs)
            load = {"partitions": PARTITIONS, "size": SIZE, "acks": 1, "count": count, "rate": RATE}
            with ThreadPoolExecutor(2) as pool:
                others = [
                    pool.submit(scene.generator.run, "produce", broker.port, topic="deleted", **load),
                    pool.submit(scene.generator.run, "produce", broker.port, topic="compacted", keys=1000, **load),
                ]
                timed = scene.generator.run(
                    "e2e", broker.port, topic="quiet", acks=-1, rate=500, seconds=seconds, warmup=1.0
                )
                for other in others:
                    other.result()
            if scene.scale == 1:
                self._check(broker, count * SIZE)
        finally:
            broker.stop()
        return {
            f"{self.name}.p50": timed["p50_us"] / 1e3,
            f"{self.name}.p99": timed["p99_us"] / 1e3,
            "traffic": 2 * count * SIZE,
            "others": 0.0,
        }

    def _check(self, broker: Broker, produced: int, patience: float = 20.0) -> None:
        """The upkeep did happen; a busy machine may be a little behind with it."""
        deadline = time.monotonic() + patience
        while not (deleted := self._has_deleted(broker)) or self._bytes_left(broker) > produced * 0.9:
            if time.monotonic() > deadline:
                what = "compacted nothing" if deleted else "deleted no segment"
                raise BenchError(f"{broker.system.label} {what}")
            time.sleep(0.1)

    def _has_deleted(self, broker: Broker) -> bool:
        with broker.admin() as admin:
            return any(offset for _, offset in admin.offsets("deleted", PARTITIONS, EARLIEST))

    def _bytes_left(self, broker: Broker) -> int:
        total = 0
        for path in broker.directory.glob("data/compacted-*/*.log"):
            with contextlib.suppress(FileNotFoundError):  # compacted away meanwhile
                total += path.stat().st_size
        return total
