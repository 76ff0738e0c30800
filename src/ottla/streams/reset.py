"""What belongs to an application, so that it can be reset (A3 DP18): told by its topology.

A reset leaves the application as if it had never run: without checkpoints, stores and internal topics. What it reads,
it reads again: streams from where the reset says, tables always from their first record, topics that it writes and
reads itself (through) from their ends, since all in them will be written again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.streams.app import App


@dataclass(slots=True)
class Belongings:
    """Names of topics; those that do not exist yet are among them."""

    inputs: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)  # inputs that only tables are read from
    intermediate: list[str] = field(default_factory=list)
    internal: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def belongings(app: App, topics: Iterable[str]) -> Belongings:
    """What an application reads, owns and writes. `topics`: all of the cluster, for sources by pattern."""
    from ottla.streams import topology as T

    plan, found = app.plan(), Belongings()
    for node in app.topology.nodes:
        if isinstance(node, T.Source):
            named = list(node.topics) or [topic for topic in sorted(topics) if node.reads(topic)]
            (found.tables if node.table else found.inputs).extend(named)
        elif isinstance(node, T.Through) and node.topic is not None:
            found.intermediate.append(node.topic)
        elif isinstance(node, T.Sink) and isinstance(node.topic, str):
            found.outputs.append(node.topic)
    own = {internal.topic for internal in plan.topics.values()} - set(found.intermediate)
    for names in (found.inputs, found.intermediate, found.outputs):
        names[:] = dict.fromkeys(names)
    found.tables = [topic for topic in dict.fromkeys(found.tables) if topic not in found.inputs]
    found.internal = sorted(own)
    return found
