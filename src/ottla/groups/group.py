"""A group as the coordinator holds it: its core, which may be exchanged for another kind's, and its offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.groups.kind import Core
from ottla.groups.offsets import Offsets

if TYPE_CHECKING:
    from ottla.groups.shard import Shard


class Group:
    __slots__ = ("core", "id", "offsets", "shard")

    def __init__(self, id: str, shard: Shard, core: Core) -> None:
        self.id = id
        self.shard = shard
        self.core = core
        self.offsets = Offsets(id)
