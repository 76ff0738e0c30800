"""`ottla get-offsets`: the offsets of partitions at their ends or at a time, as kafka-get-offsets shows them.

One line `topic:partition:offset` for each partition; one that has no such offset is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click

from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, int64
from ottla.cli.common.output import output_option, show
from ottla.cli.common.reach import Reach, reaches
from ottla.cli.common.requests import Cluster, error_text
from ottla.cli.common.topic_filter import TopicFilter
from ottla.protocol.messages import ListOffsetsRequest

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
NO_OFFSET = -1
TIMEOUT_MS = 30_000


@dataclass(slots=True)
class Rule:
    """Topics of a pattern, and which of their partitions."""

    topics: TopicFilter
    allows: Callable[[int], bool]


@click.command("get-offsets", cls=Tool, short_help="Show the offsets of partitions, at their ends or at a time.")
@click.option("--topic", metavar="TOPIC", help="The topic, or a regular expression; not given: all.")
@click.option("--partitions", metavar="0,1,...", help="Only these partitions.")
@click.option("--topic-partitions", metavar="t1:1,t2:0-3,t3", help="Topics and their partitions in one.")
@click.option("--time", "time_", default="latest", metavar="TIME", help=f"{', '.join(TIMES)} or milliseconds.")
@click.option("--exclude-internal-topics", is_flag=True, help="Without internal topics.")
@reaches
@output_option
def command(
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    time_: str,
    exclude_internal_topics: bool,
    reach: Reach,
    output: str,
) -> None:
    """Show the offsets of partitions: the ends of their logs, or the first offset at or after a time."""
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise click.UsageError("--topic-partitions cannot be used with --topic or --partitions")
    timestamp = _timestamp(time_)
    if topic_partitions is not None:
        rules = [_rule(text, exclude_internal_topics) for text in topic_partitions.split(",")]
    else:
        meant = TopicFilter(topic if topic is not None else ".*", exclude_internal=exclude_internal_topics)
        rules = [Rule(meant, _one_of(partitions))]
    with reach.cluster() as cluster:
        wanted = list(_wanted(cluster, rules))
        if not wanted:
            raise Failure("Could not match any topic-partitions with the specified filters")
        rows = sorted(_offsets(cluster, wanted, timestamp), key=lambda row: f"{row[0]}-{row[1]}")
    show(output, ("topic", "partition", "offset"), rows, [f"{name}:{index}:{offset}" for name, index, offset in rows])


def _timestamp(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int64().convert(text, None, None)
    except click.BadParameter:
        named = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise click.UsageError(f"Malformed time argument {text}. Please use {named}, or milliseconds") from None


def _one_of(text: str | None) -> Callable[[int], bool]:
    if not text:
        return lambda index: True
    try:
        numbers = {int(one) for one in text.split(",")}
    except ValueError:
        raise click.UsageError(f"--partitions wants numbers with commas between, not {text!r}") from None
    return numbers.__contains__


def _rule(text: str, exclude_internal: bool) -> Rule:
    """`topic`, `topic:1`, `topic:1-3` (without 3), `topic:1-`, `topic:-3`, `:1`"""
    found = RULE.fullmatch(text.strip())
    if not found:
        raise click.UsageError(f"Invalid rule specification: {text}")
    pattern, one, low, high = found.groups()
    topics = TopicFilter(pattern or ".*", exclude_internal=exclude_internal)
    if one:
        return Rule(topics, int(one).__eq__)
    return Rule(topics, lambda index: int(low or 0) <= index and (not high or index < int(high)))


def _wanted(cluster: Cluster, rules: list[Rule]) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and leader of each partition that a rule names."""
    for topic in cluster.topics():
        name = topic.name or ""
        meant = [rule for rule in rules if rule.topics.allows(name)]
        for partition in topic.partitions:
            if any(rule.allows(partition.partition_index) for rule in meant):
                yield name, partition.partition_index, partition.leader_id


def _offsets(cluster: Cluster, wanted: list[tuple[str, int, int]], timestamp: int) -> Iterator[tuple[str, int, int]]:
    for leader in sorted({leader for _, _, leader in wanted}):
        theirs = [(topic, partition) for topic, partition, its in wanted if its == leader]
        if leader < 0:
            for topic, partition in theirs:
                _skip(topic, partition, "it has no leader")
            continue
        topics: dict[str, list[ListOffsetsRequest.Partition]] = {}
        for topic, partition in theirs:
            asked = ListOffsetsRequest.Partition(
                partition_index=partition, current_leader_epoch=-1, timestamp=timestamp, max_num_offsets=1
            )
            topics.setdefault(topic, []).append(asked)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[ListOffsetsRequest.Topic(name=name, partitions=some) for name, some in topics.items()],
            timeout_ms=TIMEOUT_MS,
        )
        for found in cluster.broker(leader).call(request).topics:
            for one in found.partitions:
                if one.error_code:
                    _skip(found.name, one.partition_index, error_text(one.error_code))
                elif one.offset != NO_OFFSET:
                    yield found.name, one.partition_index, one.offset


def _skip(topic: str, partition: int, why: str) -> None:
    click.echo(f"Skip getting offsets for topic-partition {topic}-{partition} due to error: {why}", err=True)
