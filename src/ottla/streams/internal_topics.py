"""The topics that an application writes: made before its queries start. Those of its own are deleted by a reset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ottla.pipelines.errors import PipelineError
from ottla.streams import topology as T
from ottla.streams.plan import Plan

TIMEOUT = 30.0


def create(
    plan: Plan, partitions: Mapping[str, int], client: Mapping[str, Any], config: Mapping[str, str] | None = None
) -> None:
    """Make those that are missing, with as many partitions as the largest input.

    partitions: of existing topics.  config: in place of what this module says.
    """
    changed = dict(config or {})
    new = [
        NewTopic(internal.topic, partitions_of(plan, node, partitions), config=_config(plan, node) | changed)
        for node, internal in plan.topics.items()
        if internal.topic not in partitions and not (isinstance(node, T.Through) and node.topic is not None)
    ]
    if new:
        _create(new, client)


def partitions_of(plan: Plan, node: T.Node, partitions: Mapping[str, int]) -> int:
    """How many partitions a node's own topic has, or will have."""
    internal = plan.topics[node]
    largest = max((partitions.get(name, 1) for name in inputs(plan)), default=1)
    return partitions.get(internal.topic) or internal.partitions or largest


def create_outputs(
    names: Sequence[str], partitions: Mapping[str, int], tables: Collection[str], client: Mapping[str, Any]
) -> dict[str, int]:
    """Make topics that are written to and missing, with the broker's number of partitions; tables' are compacted."""
    missing = list(dict.fromkeys(name for name in names if name not in partitions))
    if not missing:
        return dict(partitions)
    config = {"cleanup.policy": "compact"}
    admin = _create([NewTopic(name, -1, config=config if name in tables else {}) for name in missing], client)
    there = admin.list_topics(timeout=TIMEOUT).topics
    return {**partitions, **{name: len(topic.partitions) for name, topic in there.items()}}


def _create(new: list[Any], client: Mapping[str, Any]) -> AdminClient:
    admin = AdminClient({**client, "log_level": 2})  # kept: its futures fail when it goes
    for topic, future in admin.create_topics(new, request_timeout=TIMEOUT).items():
        try:
            future.result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise PipelineError(f"the topic {topic} could not be made: {failure.args[0].str()}") from None
    return admin


def inputs(plan: Plan) -> list[str]:
    """The topics that an application reads by name and does not own."""
    sources = [node for query in plan.queries for node in query.inputs() if isinstance(node, T.Source)]
    return list(dict.fromkeys(topic for node in sources for topic in node.topics))


def _config(plan: Plan, node: T.Node) -> dict[str, str]:
    if not plan.topics[node].compacted:
        return {"retention.ms": "-1"}
    window = node.window if isinstance(node, T.Aggregate) else None
    if window is None or any(node in query.read_back for query in plan.queries):
        return {"cleanup.policy": "compact"}
    # Closed windows would stay for ever: each is a key of its own. Not where a query reads them: by the age of their
    # records they could go before it has.
    retention = window.size_ms + window.grace_ms + 86_400_000
    return {"cleanup.policy": "compact,delete", "retention.ms": str(retention)}
