"""Which metrics a client is asked for, and how often: what the subscriptions that match it say together (KIP-714).

A subscription is a resource of type client metrics, with a name and the settings of config/client_metrics.py.
A client gets the metrics of all its subscriptions and the shortest of their intervals. The id of the result is a
checksum over it and the client's own id, so a broker that was restarted, or another one, knows it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.config.client_metrics import ClientMetricsConfig, parse_match
from ottla.config.patterns import Pattern
from ottla.protocol.batch import crc32c

ALL_METRICS = ("*", "")
MAX_ATTRIBUTE = 255  # characters of a client's attribute that count; those of most are far fewer

_DEFAULT_INTERVAL_MS = ClientMetricsConfig().interval_ms

Attributes = Mapping[str, str | None]


class Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, Pattern], ...]

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Subscription:
        """From its settings, which were checked when they were made."""
        config = ClientMetricsConfig.resolve(configs)
        return cls(tuple(config.metrics), config.interval_ms, tuple(parse_match(config.match).items()))

    def matches(self, attributes: Attributes) -> bool:
        for name, pattern in self.match:
            value = attributes.get(name)
            if value is None or not pattern.matches(value):
                return False
        return True


class Wanted(NamedTuple):
    """What one client is asked for."""

    id: int
    metrics: tuple[str, ...]
    interval_ms: int


def wanted_of(instance_id: bytes, attributes: Attributes, subscriptions: Mapping[str, Subscription]) -> Wanted:
    matching = [one for one in subscriptions.values() if one.matches(attributes)]
    metrics = sorted({name for one in matching for name in one.metrics})
    if any(name in ALL_METRICS for name in metrics):
        metrics = ["*"]
    interval_ms = min((one.interval_ms for one in matching), default=_DEFAULT_INTERVAL_MS)
    checksum = crc32c(f"{','.join(metrics)};{interval_ms}".encode() + instance_id)
    return Wanted(checksum - (1 << 32) if checksum >> 31 else checksum, tuple(metrics), interval_ms)
