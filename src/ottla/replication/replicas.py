"""The partitions that live on this broker, found by what a request says: a name or an id, as the bytes on the wire."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.replication.partition import Partition
from ottla.storage.log import Log


class Replicas:
    """`by_name` and `by_id` map a topic's wire bytes to its partitions, in order of their index."""

    __slots__ = ("by_id", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[bytes, list[Partition]] = {}
        self.by_id: dict[bytes, list[Partition]] = {}

    def add(
        self, topic: str, topic_id: bytes, logs: list[Log], epochs: list[int], *, is_internal: bool
    ) -> list[Partition]:
        """Take in a topic, or more partitions of one. Returns the new ones."""
        partitions = self.by_id.setdefault(topic_id, [])
        self.by_name[topic.encode()] = partitions
        first = len(partitions)
        partitions += [
            Partition(topic, topic_id, index, log, epoch, is_internal=is_internal)
            for index, (log, epoch) in enumerate(zip(logs, epochs, strict=True), first)
        ]
        return partitions[first:]

    def remove(self, topic: str) -> list[Partition]:
        """Forget a topic; those who wait for its records learn it at once."""
        partitions = self.by_name.pop(topic.encode(), [])
        for partition in partitions:
            self.by_id.pop(partition.topic_id, None)
            partition.close()
        return partitions

    def find(self, topic: str, index: int) -> Partition | None:
        partitions = self.by_name.get(topic.encode(), ())
        return partitions[index] if 0 <= index < len(partitions) else None

    def __iter__(self) -> Iterator[Partition]:
        """Those that are not offline."""
        for partitions in self.by_name.values():
            for partition in partitions:
                if partition.offline is None:
                    yield partition
