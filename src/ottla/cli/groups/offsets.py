"""Offsets of groups and of logs, through confluent-kafka."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.common.invocation import Failure
from ottla.cli.common.reach import kafka_error

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TOPIC_ARGUMENT = re.compile(r"([^:]+):([0-9]+(?:,[0-9]+)*)")


class Partition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Committed(NamedTuple):
    offset: int
    leader_epoch: int | None


class Offsets:
    """Asks for offsets of groups and logs, and sets those of groups."""

    def __init__(self, admin: AdminClient, timeout_seconds: float) -> None:
        self._admin = admin
        self._timeout = timeout_seconds

    def committed(self, group: str) -> dict[Partition, Committed]:
        """What a group has committed, by partition."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=self._timeout
        )
        found = {}
        for one in asked[group].result().topic_partitions:
            if one.error is not None:
                raise Failure(f"group {group}, partition {one.topic}-{one.partition}: {kafka_error(one.error)}")
            if one.offset >= 0:
                found[Partition(one.topic, one.partition)] = Committed(one.offset, one.leader_epoch)
        return dict(sorted(found.items()))

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        wanted = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        if not wanted:
            return
        asked = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=self._timeout
        )
        for one in asked[group].result().topic_partitions:
            if one.error is not None:
                raise Failure(f"group {group}, partition {one.topic}-{one.partition}: {kafka_error(one.error)}")

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return _known(self._listed(partitions, _specs().earliest()))

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return _known(self._listed(partitions, _specs().latest()))

    def ends_where_known(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        """The same; None where there is no such partition any more, or no leader."""
        listed = self._listed(partitions, _specs().latest())
        return {partition: end if isinstance(end, int) else None for partition, end in listed.items()}

    def at(self, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
        """The first offset at or after a time; the end of the log where there is none, which is told."""
        found = self.first_at(partitions, timestamp)
        late = [partition for partition in partitions if partition not in found]
        for topic, number in late:
            click.echo(
                f"\nWarn: Partition {number} from topic {topic} is empty. Falling back to latest known offset.",
                err=True,
            )
        return {**found, **self.ends(late)}

    def first_at(self, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
        """The first offset at or after a time, of the partitions that have one."""
        found = _known(self._listed(partitions, _specs().for_timestamp(timestamp)))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def _listed(self, partitions: Iterable[Partition], spec: Any) -> dict[Partition, Any]:
        """Offsets by partition, or the error that came in place of one."""
        from confluent_kafka import KafkaException, TopicPartition

        wanted = {TopicPartition(*partition): spec for partition in partitions}
        if not wanted:
            return {}
        found: dict[Partition, Any] = {}
        for asked, future in self._admin.list_offsets(wanted, request_timeout=self._timeout).items():
            try:
                found[Partition(asked.topic, asked.partition)] = future.result().offset
            except KafkaException as error:
                found[Partition(asked.topic, asked.partition)] = error
        return dict(sorted(found.items()))

    def partitions_of(self, arguments: Iterable[str]) -> tuple[list[Partition], list[str]]:
        """The partitions that `topic` or `topic:0,1` name, and those names that there are not."""
        topics: dict[str, list[int]] = {
            name: sorted(one.partitions)
            for name, one in self._admin.list_topics(timeout=self._timeout).topics.items()
            if one.error is None
        }
        found, missing = [], []
        for argument in arguments:
            topic, numbers = _argument(argument)
            if topic not in topics:
                missing.append(topic)
                continue
            unknown = [number for number in numbers or () if number not in topics[topic]]
            missing += [f"{topic}-{number}" for number in unknown]
            chosen = topics[topic] if numbers is None else [one for one in numbers if one not in unknown]
            found += [Partition(topic, number) for number in chosen]
        return sorted(set(found)), missing


def _specs() -> Any:
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    return OffsetSpec


def _known(listed: Mapping[Partition, Any]) -> dict[Partition, int]:
    for partition, offset in listed.items():
        if not isinstance(offset, int):
            raise Failure(f"partition {partition}: {kafka_error(offset)}")
    return dict(listed)


def _argument(text: str) -> tuple[str, list[int] | None]:
    """A topic, and which of its partitions where it says so."""
    if ":" not in text:
        return text, None
    match = TOPIC_ARGUMENT.fullmatch(text)
    if match is None:
        raise click.UsageError(f"Invalid topic arg '{text}', expected topic name and partitions")
    return match[1], [int(number) for number in match[2].split(",")]
