"""Whether an application can run in Spark's real-time mode, and what forbids it if not.

Real-time mode (Spark 4.2) takes records through long-running tasks one by one, in milliseconds. It is for native,
stateless steps: filters, expressions, look-ups in global tables. Each partition of a source needs a task slot of its
own; with fewer, records of some partitions would silently not come, so that is checked before the start.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.pipelines.errors import PipelineError
from ottla.streams import topology as T
from ottla.streams.functions import is_native
from ottla.streams.internal_topics import partitions_of
from ottla.streams.plan import Plan

INTERVAL = "5 minutes"  # between checkpoints: each stalls output for half a second; a restart replays up to one


def check(plan: Plan, delivery: str) -> None:
    """Refuse what real-time mode cannot do, naming the step."""
    if delivery != "at_least_once":
        raise PipelineError("latency='real-time' writes at least once: its tasks do not end, so nothing commits them")
    for query in plan.queries:
        for node in query.nodes():
            reason = _forbidden(node)
            if reason:
                raise PipelineError(
                    f"latency='real-time' takes native steps that keep no state, and {node.name} {reason}; "
                    "run it with latency='micro-batch'"
                )


def _forbidden(node: T.Node) -> str | None:
    match node:
        case T.Step() if not is_native(node.function):
            return f"is a Python function ({node.operation})"
        case T.Lookup() if not is_native(node.key_function):
            return "finds its rows by a Python function"
        case T.Sink() if not isinstance(node.topic, str) and not is_native(node.topic):
            return "chooses topics by a Python function"
        case T.Foreach():
            return "calls a Python function"
        case T.Aggregate():
            return "keeps state (an aggregate)"
        case T.Join():
            return "keeps state (a join)"
        case T.Process() | T.Changes():
            return "keeps state"
        case T.Frames():
            return "is a DataFrame of its own, of which this cannot be known"
    return None


def slots_needed(plan: Plan, partitions: Mapping[str, int]) -> int:
    """Task slots for all queries at once: one per partition that a query reads."""

    def read_for(node: T.Node) -> int:
        if not isinstance(node, T.Source):
            return partitions_of(plan, node, partitions)
        topics = node.topics or [topic for topic in partitions if node.reads(topic)]
        return sum(partitions.get(topic, 1) for topic in topics)

    return sum(read_for(node) for query in plan.queries for node in query.inputs())


def check_slots(needed: int, there: int, master: str) -> None:
    if needed > there:
        raise PipelineError(
            f"latency='real-time' needs a task slot per partition that is read: {needed}, and the master {master} has "
            f"{there}; run it with --master 'local[{needed}]' or more"
        )
