"""The offsets that a group has committed, whatever kind of group it is.

Offsets committed in a transaction are held back until its marker comes; asked for stable offsets only, a partition that
has such is unstable (KIP-447). Whatever is written later for the same partition wins, whichever transaction ends first:
so does a later commit, and a deletion.

An offset expires when it is older than offsets.retention.minutes. What counts as its age, the group's kind says
(KIP-211): see `Aging`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.groups.effects import Write
from ottla.groups.records import NO_EXPIRY, Committed, offset_key, offset_value


class Aging(NamedTuple):
    """How the offsets of a group age: from their commit on, or all from the same time on, `since`.

    `kept` are topics whose offsets do not age, since members read them.
    """

    since: int | None = None
    kept: frozenset[str] = frozenset()


class Offsets:
    __slots__ = ("by_topic", "group_id", "held_back")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.by_topic: dict[str, dict[int, Committed]] = {}
        self.held_back: dict[tuple[str, int], dict[int, Committed]] = {}  # by producer id, in the order of writing

    def __bool__(self) -> bool:
        return bool(self.by_topic or self.held_back)

    def __iter__(self) -> Iterator[tuple[str, int, Committed]]:
        for topic, partitions in self.by_topic.items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def get(self, topic: str, partition: int) -> Committed | None:
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_unstable(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self.held_back

    def put(self, topic: str, partition: int, committed: Committed) -> None:
        partitions = self.by_topic.get(topic)
        if partitions is None:
            partitions = self.by_topic[topic] = {}
        partitions[partition] = committed

    def hold_back(self, producer_id: int, topic: str, partition: int, committed: Committed) -> Write:
        """Take an offset in that counts when the producer's transaction is committed; returns its record."""
        held = self.held_back.setdefault((topic, partition), {})
        held.pop(producer_id, None)
        held[producer_id] = committed
        return Write(offset_key(self.group_id, topic, partition), offset_value(committed))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The transaction's marker has come."""
        for place in [place for place, held in self.held_back.items() if producer_id in held]:
            held = self.held_back[place]
            if commit:
                self.put(*place, held[producer_id])
                for older in list(held):
                    del held[older]
                    if older == producer_id:
                        break
            else:
                del held[producer_id]
            if not held:
                del self.held_back[place]

    def commit(self, topic: str, partition: int, committed: Committed) -> Write:
        """Take an offset in; returns its record."""
        self.put(topic, partition, committed)
        self.held_back.pop((topic, partition), None)
        return Write(offset_key(self.group_id, topic, partition), offset_value(committed))

    def topics(self) -> set[str]:
        """Those with offsets, held back ones too."""
        return self.by_topic.keys() | {topic for topic, _ in self.held_back}

    def drop(self, topic: str, partition: int) -> list[Write]:
        """Forget an offset; returns its tombstone, if there was one."""
        partitions = self.by_topic.get(topic, {})
        held = self.held_back.pop((topic, partition), None)
        if partitions.pop(partition, None) is None and held is None:
            return []
        if not partitions:
            self.by_topic.pop(topic, None)
        return [Write(offset_key(self.group_id, topic, partition), None)]

    def drop_topic(self, topic: str) -> list[Write]:
        held = [partition for name, partition in self.held_back if name == topic]
        partitions = dict.fromkeys([*self.by_topic.get(topic, ()), *held])
        return [write for partition in partitions for write in self.drop(topic, partition)]

    def drop_all(self) -> list[Write]:
        return [write for topic in self.topics() for write in self.drop_topic(topic)]

    def expire(self, aging: Aging, now_ms: int, retention_ms: int) -> list[Write]:
        """Forget what is too old; returns the tombstones."""
        old = [
            (topic, partition)
            for topic, partition, committed in self
            if topic not in aging.kept
            and not self.is_unstable(topic, partition)
            and (
                now_ms - (committed.committed_at if aging.since is None else aging.since) >= retention_ms
                if committed.expires_at == NO_EXPIRY
                else now_ms >= committed.expires_at
            )
        ]
        return [write for topic, partition in old for write in self.drop(topic, partition)]
