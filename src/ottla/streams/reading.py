"""How an application reads its topics, and what it does with records that it cannot take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.pipelines import poison
from ottla.pipelines.topics import Start
from ottla.streams import topology as T


@dataclass(frozen=True, slots=True)
class Reading:
    """What all sources of an application have in common."""

    bootstrap: str
    max_per_batch: int | None
    real_time: bool
    options: Mapping[str, str]  # of Kafka's consumer
    poisoned: poison.Policy
    late: poison.Policy
    starts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # where a reset has said to begin

    def start(self, node: T.Source) -> Start:
        """Where to begin to read a source, without a checkpoint. Tables are always read from their first record."""
        found = {} if node.table else {topic: places for topic, places in self.starts.items() if node.reads(topic)}
        return found or node.start

    def start_of(self, topic: str) -> Start:
        """The same of a topic that the application itself writes."""
        return {topic: self.starts[topic]} if topic in self.starts else "earliest"
