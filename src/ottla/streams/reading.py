"""How an application reads its topics, and what it does with records that it cannot take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.pipelines import poison


@dataclass(frozen=True, slots=True)
class Reading:
    """What all sources of an application have in common."""

    bootstrap: str
    max_per_batch: int | None
    real_time: bool
    options: Mapping[str, str]  # of Kafka's consumer
    poisoned: poison.Policy
    late: poison.Policy
