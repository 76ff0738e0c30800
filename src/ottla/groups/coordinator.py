"""The group coordinator: which groups this broker serves, and what drives them.

A group belongs to a partition of __consumer_offsets (hashing.py) and is served by the broker that leads it; a shard
(shard.py) holds the groups of one partition. The topic is made when a client first asks for a coordinator.

Requests come from the broker's handlers with a function to call with the response (`to`), at once or later; nobody
waits in a coroutine. One timer of the event loop serves the deadlines of all groups. When the broker was held up, and
with it the heartbeats in its sockets, those are read before anybody is taken for dead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from functools import partial

from ottla.controller.names import CONSUMER_OFFSETS
from ottla.controller.topics import NewTopic
from ottla.coordinators.host import Host
from ottla.coordinators.internal_topic import InternalTopic
from ottla.coordinators.shards import Shards
from ottla.groups.effects import Effect, Timer
from ottla.groups.group import Group
from ottla.groups.shard import Shard
from ottla.groups.timers import NEVER, Timers
from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import Partition

log = logging.getLogger(__name__)

HELD_UP_MS = 200  # a timer that comes later than this tells of a broker that was held up
CATCH_UP_MS = 20  # then: how long what waits in the sockets has before it; 0 would come before the sockets are read


class Coordinator:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.timers = Timers()
        self.topic = InternalTopic(host, CONSUMER_OFFSETS, self._new_topic)
        self.shards: Shards[Shard] = Shards(host, self.topic, partial(Shard, self))
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = NEVER

    # -- start and stop ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take up the partitions that are there; their logs are read in the background."""
        self.shards.take_up()

    async def stop(self) -> None:
        await self.shards.stop()
        if self._wake is not None:
            self._wake.cancel()
        for shard in self.shards.ready():
            shard.journal.flush()

    def topics_changed(self, created: Iterable[str], deleted: Iterable[str], grown: Iterable[str]) -> None:
        """The broker's logs have followed a change of topics. `grown`: those with more partitions."""
        created, deleted = list(created), list(deleted)
        if CONSUMER_OFFSETS in deleted:
            self.shards.drop()
        if CONSUMER_OFFSETS in created:
            self.shards.take_up()
        names = {*created, *deleted, *grown}
        for group in list(self.groups()) if deleted else ():
            for name in deleted:
                self.carry_out(group, group.offsets.drop_topic(name))
        if names:
            # The image shows new topics only when this call is over.
            self.host.loop.call_soon(self._tell_of_topics, names)

    def _tell_of_topics(self, names: set[str]) -> None:
        now = self.now()
        for group in list(self.groups()):
            self.carry_out(group, group.core.topics_changed(names, now))

    # -- the topic and its partitions ----------------------------------------------------------------------------

    def _new_topic(self) -> NewTopic:
        config = self.host.config
        return NewTopic(
            CONSUMER_OFFSETS,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )

    def shard_of(self, group_id: str) -> Shard | ErrorCode:
        """The shard that has the group or would have it, or why it cannot be used."""
        return self.shards.of(group_id)

    def end_transaction(self, partition: Partition, producer_id: int, commit: bool) -> None:
        """A marker was written; where it is in a partition of ours, offsets count now, or never."""
        shard = self.shards.at(partition.index) if partition.topic == CONSUMER_OFFSETS else None
        if shard is not None:
            shard.end_transaction(producer_id, commit)

    def find(self, group_id: str) -> Group | ErrorCode | None:
        """The group, why it cannot be asked for, or None when there is none of that name."""
        shard = self.shard_of(group_id)
        return shard if isinstance(shard, ErrorCode) else shard.groups.get(group_id)

    def groups(self) -> Iterator[Group]:
        for shard in self.shards.ready():
            yield from shard.groups.values()

    # -- time ----------------------------------------------------------------------------------------------------

    def now(self) -> int:
        return round(self.host.loop.time() * 1000)

    def set_timer(self, group: Group, timer: Timer) -> None:
        if timer.at is None:
            self.timers.cancel(group, timer.name)
            return
        self.timers.set(group, timer.name, timer.at)
        if timer.at < self._wake_at:
            self._arm(timer.at)

    def _arm(self, at: int) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake_at = at
        self._wake = self.host.loop.call_at(at / 1000, self._ring)

    def _ring(self) -> None:
        now = self.now()
        if now - self._wake_at > HELD_UP_MS:
            self._arm(now + CATCH_UP_MS)
            return
        for group, name in self.timers.due(now):
            if group.shard.groups.get(group.id) is group:
                try:
                    self.carry_out(group, group.core.timer(name, now))
                except Exception:
                    log.exception("timer %s of group %s failed; this is a bug", name, group.id)
        self._wake, self._wake_at = None, NEVER
        following = self.timers.next()
        if following < NEVER:
            self._arm(following)

    def carry_out(self, group: Group, effects: Iterable[Effect]) -> None:
        group.shard.carry_out(group, effects)

    # -- housekeeping --------------------------------------------------------------------------------------------

    def expire_offsets(self) -> None:
        """Drop offsets that are too old, and groups that nothing is left of."""
        now_ms, retention_ms = self.host.now_ms(), self.host.config.offsets_retention_minutes * 60_000
        for group in list(self.groups()):
            aging = group.core.aging()
            if aging is not None:
                self.carry_out(group, group.offsets.expire(aging, now_ms, retention_ms))
            if not group.offsets and group.core.is_unused():
                self.carry_out(group, self.remove(group))

    def remove(self, group: Group) -> list[Effect]:
        """Take a group away, in memory; returns what does so on disk."""
        effects: list[Effect] = [*group.offsets.drop_all(), *group.core.tombstones()]
        group.shard.remove(group)
        return [*effects, *group.core.unloaded(ErrorCode.UNKNOWN_MEMBER_ID)]
