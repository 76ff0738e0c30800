"""The topic that a coordinator keeps its state in: made when somebody first needs it, once for all who wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.controller.topics import NewTopic
from ottla.coordinators.host import Host
from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import Partition

log = logging.getLogger(__name__)


class InternalTopic:
    """`wanted` says how to make it."""

    __slots__ = ("_creation", "_host", "_wanted", "count", "name")

    def __init__(self, host: Host, name: str, wanted: Callable[[], NewTopic]) -> None:
        self.name = name
        self._host = host
        self._wanted = wanted
        self._creation: asyncio.Task[ErrorCode] | None = None
        self.count = 0  # of its partitions; 0 while it is not there

    @property
    def is_there(self) -> bool:
        return self.count > 0

    def take_up(self) -> list[Partition]:
        """Its partitions, as they are now."""
        partitions: list[Partition] = []
        while (partition := self._host.partition(self.name, len(partitions))) is not None:
            partitions.append(partition)
        self.count = len(partitions)
        return partitions

    def begin(self) -> None:
        """Have it made, if it is not there."""
        if not self.is_there and self._creation is None:
            self._creation = self._host.loop.create_task(self._create())

    async def create(self) -> ErrorCode:
        """Have it made and wait for it. NONE when it is there."""
        if self.is_there:
            return ErrorCode.NONE
        self.begin()
        assert self._creation is not None
        return await asyncio.shield(self._creation)

    async def _create(self) -> ErrorCode:
        try:
            (result,) = await self._host.controller.create_topics([self._wanted()])
        finally:
            self._creation = None
        if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return ErrorCode.NONE if self.is_there else ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.error("%s cannot be created: %s", self.name, result.message)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def stop(self) -> None:
        if self._creation is not None:
            self._creation.cancel()
            await asyncio.gather(self._creation, return_exceptions=True)
