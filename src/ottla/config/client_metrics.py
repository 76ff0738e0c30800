"""Subscriptions to clients' own metrics (KIP-714): which metrics which clients are to push, and how often.

    metrics       prefixes of metrics' names; `*` or an empty prefix for all, an empty list for none
    interval.ms   how often a client pushes
    match         KEY=PATTERN, …: the clients meant are those that fit every pattern (config/patterns.py), with the
                  whole value; no pattern means all clients

A subscription is there as long as something is set on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.definitions import INT, LIST, Configuration, Legal, between, canonical, setting
from ottla.config.errors import UnknownKey, nearest
from ottla.config.patterns import Pattern

MATCHABLE = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def parse_match(entries: list[str]) -> dict[str, Pattern]:
    """`match` as patterns by what they are held against; ValueError where an entry is not legal."""
    patterns = {}
    for entry in entries:
        name, _, pattern = (part.strip() for part in entry.partition("="))
        if name not in MATCHABLE or not pattern or "=" in pattern:
            raise ValueError(entry)
        patterns[name] = Pattern(pattern)
    return patterns


def _is_match(entries: list[str]) -> bool:
    parse_match(entries)  # its ValueError is the answer
    return True


class ClientMetricsConfig(Configuration):
    """One subscription."""

    interval_ms: int = setting(
        "interval.ms", INT, 300_000, between(100, 3_600_000), "How often clients push their metrics."
    )
    match: list[str] = setting(
        "match",
        LIST,
        [],
        Legal(f"of KEY=PATTERN with KEY one of {', '.join(MATCHABLE)} and PATTERN a regular expression", _is_match),
        "Which clients are meant; all, where nothing is said.",
    )
    metrics: list[str] = setting(
        "metrics", LIST, [], None, "How the names of the wanted metrics begin; * for all of them."
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str]) -> ClientMetricsConfig:
        """The subscription that these (checked) overrides make."""
        return cls(**{cls.settings[key].attribute: cls.settings[key].parse(text) for key, text in overrides.items()})


def validate_client_metrics(overrides: Mapping[str, str]) -> dict[str, str]:
    """The overrides as they are to be stored; ConfigError for the first that is not legal."""
    checked, rest = canonical(ClientMetricsConfig.names, overrides)
    for name, text in rest.items():
        raise UnknownKey(name, text, nearest(name, list(ClientMetricsConfig.names)))
    ClientMetricsConfig.resolve(checked)
    return checked
