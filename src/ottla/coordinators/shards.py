"""The partitions of a coordinator's topic on the broker that leads them: a shard for each, which holds what is in it.

    loading   its log is being read back: COORDINATOR_LOAD_IN_PROGRESS
    ready     it is served
    failed    the log cannot be read or written, or is no longer here: NOT_COORDINATOR

Shards are loaded one after the other, in slices that leave the event loop to others. One whose log refuses what it
wants to write is read back, but not again and again: it has to rest in between.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ottla.coordinators.hashing import partition_of
from ottla.coordinators.host import Host
from ottla.coordinators.internal_topic import InternalTopic
from ottla.coordinators.loading import Survivors, Turns, Unreadable, read_back
from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import Partition

log = logging.getLogger(__name__)

LOADING, READY, FAILED = "loading", "ready", "failed"
REST_SECONDS = 1.0


class Shard(ABC):
    """One of them. What it holds, and how it is restored, its coordinator says by a class of its own."""

    __slots__ = ("index", "loaded_at", "partition", "state")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.index = partition.index
        self.state = LOADING
        self.loaded_at: float | None = None  # on the event loop's clock

    @property
    def error(self) -> ErrorCode:
        """Why it cannot be served now."""
        if self.state == LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if self.state == FAILED or self.partition.offline is not None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    async def load(self) -> None:
        self.state = LOADING
        turns = Turns()
        try:
            survivors = await read_back(self.partition, turns)
        except Unreadable as error:
            log.error("a coordinator cannot load its state: %s", error)
            self.state = FAILED
            return
        await self.restore(survivors, turns)
        if self.state != LOADING:  # the topic was deleted meanwhile
            return
        self.state = READY
        self.begin()

    @abstractmethod
    async def restore(self, survivors: Survivors, turns: Turns) -> None:
        """Take in what the log says."""

    @abstractmethod
    def begin(self) -> None:
        """Serve what has been loaded."""

    @abstractmethod
    def unload(self, code: ErrorCode) -> None:
        """Forget everything; who waits is told `code`."""


S = TypeVar("S", bound=Shard)


class Shards(Generic[S]):
    """All of a topic. `make` makes the one of a partition."""

    __slots__ = ("_by_index", "_host", "_loader", "_loading", "_make", "_resting", "topic")

    def __init__(self, host: Host, topic: InternalTopic, make: Callable[[Partition], S]) -> None:
        self.topic = topic
        self._host = host
        self._make = make
        self._by_index: dict[int, S] = {}
        self._loading: dict[S, None] = {}
        self._resting: dict[S, asyncio.TimerHandle] = {}
        self._loader: asyncio.Task[None] | None = None

    def take_up(self) -> None:
        """Take up the partitions that are there; their logs are read in the background."""
        for partition in self.topic.take_up():
            if partition.index not in self._by_index:
                shard = self._by_index[partition.index] = self._make(partition)
                if partition.log.end_offset == partition.log.start_offset:
                    shard.state = READY
                else:
                    self.load(shard)

    def drop(self) -> None:
        """The topic is deleted."""
        shards, self._by_index, self.topic.count = self._by_index, {}, 0
        for shard in shards.values():
            shard.unload(ErrorCode.NOT_COORDINATOR)

    def load(self, shard: S) -> None:
        """Have a shard read back from its log, after those that wait already."""
        if shard.partition.offline is not None:
            shard.state = FAILED
            return
        shard.state = LOADING
        loop = self._host.loop
        wait = 0.0 if shard.loaded_at is None else shard.loaded_at + REST_SECONDS - loop.time()
        if wait > 0:
            if shard not in self._resting:
                self._resting[shard] = loop.call_later(wait, self._rested, shard)
        else:
            self._enqueue(shard)

    def _rested(self, shard: S) -> None:
        del self._resting[shard]
        if shard.state == LOADING:
            self._enqueue(shard)

    def _enqueue(self, shard: S) -> None:
        self._loading[shard] = None
        if self._loader is None:
            self._loader = self._host.loop.create_task(self._load_all())

    async def _load_all(self) -> None:
        while self._loading:
            shard = next(iter(self._loading))
            del self._loading[shard]
            try:
                await shard.load()
                shard.loaded_at = self._host.loop.time()
            except Exception:
                log.exception("%s-%d could not be loaded; this is a bug", self.topic.name, shard.index)
                shard.unload(ErrorCode.NOT_COORDINATOR)
        self._loader = None

    async def stop(self) -> None:
        await self.topic.stop()
        for timer in self._resting.values():
            timer.cancel()
        if self._loader is not None:
            self._loader.cancel()
            await asyncio.gather(self._loader, return_exceptions=True)

    @property
    def is_loading(self) -> bool:
        return any(shard.state == LOADING for shard in self._by_index.values())

    def ready(self) -> Iterator[S]:
        """Those that are served now."""
        return (shard for shard in self._by_index.values() if not shard.error)

    def at(self, index: int) -> S | None:
        return self._by_index.get(index)

    def of(self, id: str) -> S | ErrorCode:
        """The shard that has this id or would have it, or why it cannot be used."""
        if not self.topic.is_there:
            return ErrorCode.NOT_COORDINATOR
        shard = self._by_index.get(partition_of(id, self.topic.count))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard.error or shard
