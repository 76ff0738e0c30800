"""`--print-metrics`: what the client counted, laid out as Kafka's tools lay it out.

Java's client has metrics of its own; here they are librdkafka's statistics (STATISTICS.md of librdkafka tells each),
taken once more after the last record. A name is GROUP:NAME:{TAG=VALUE}, groups being client, broker and topic.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

INTERVAL_MS = 100
PATIENCE_SECONDS = 5.0
IDENTITIES = ("name", "client_id", "type")


class ClientMetrics:
    """Collects a client's statistics. `settings` belong into the client's; `callbacks` too."""

    settings = {"statistics.interval.ms": str(INTERVAL_MS)}

    def __init__(self) -> None:
        self._latest = ""
        self.callbacks: dict[str, Any] = {"stats_cb": self._take}

    def _take(self, statistics: str) -> None:
        self._latest = statistics

    def lines(self, poll: Callable[[float], object]) -> list[str]:
        """The table, after one more round of statistics, for which the client is polled."""
        self._latest = ""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._latest and time.monotonic() < deadline:
            poll(INTERVAL_MS / 1000)
        return table(json.loads(self._latest or "{}"))


def table(statistics: Mapping[str, Any]) -> list[str]:
    """The lines that show the statistics of one client."""
    found = sorted(_named(statistics))
    width = max([len(name) for name, _ in found], default=0)
    return ["", f"{'Metric Name':{width}}   Value", *(f"{name:{width}} : {value}" for name, value in found)]


def _named(statistics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    client = str(statistics.get("client_id", ""))
    for name, value in _flat(statistics, skip=("brokers", "topics")):
        yield f"client:{name}:{{client-id={client}}}", value
    for broker in statistics.get("brokers", {}).values():
        for name, value in _flat(broker, skip=("toppars", "req")):
            yield f"broker:{name}:{{client-id={client}, broker={broker.get('name')}}}", value
    for topic in statistics.get("topics", {}).values():
        for name, value in _flat(topic, skip=("partitions", "topic")):
            yield f"topic:{name}:{{client-id={client}, topic={topic.get('topic')}}}", value


def _flat(tree: Mapping[str, Any], skip: tuple[str, ...] = (), prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if key in skip or (not prefix and key in IDENTITIES):
            continue
        if isinstance(value, dict):
            yield from _flat(value, prefix=f"{prefix}{key}.")
        else:
            yield prefix + key, f"{value:.3f}" if isinstance(value, float) else str(value)
