"""What every kind of group does: the classic one, and those that come beside it.

A core is pure (effects.py says what comes out of it). The coordinator finds the group, hands it the event, carries out
the effects, and knows nothing of members. Requests that only one kind understands (JoinGroup, …) go to methods of that
kind; what follows here serves the requests that all kinds share: offsets, lists, deletion, loading.

A group that nobody joined, which only has offsets, is an empty classic group.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Protocol

from ottla.groups.effects import Effect, Reply, Write
from ottla.groups.offsets import Aging
from ottla.protocol.errors import ErrorCode


class Core(Protocol):
    type: str  # as ListGroups has it: classic, consumer

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type(self) -> str: ...

    # -- offsets

    def commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        now: int,
        *,
        version: int,
        transactional: bool = False,
        partitions: Iterable[tuple[str, int]] = (),
    ) -> ErrorCode | list[Effect]:
        """Whether a member with this generation or epoch may commit; `version` is that of OffsetCommit.

        `partitions`: topics and indexes that it commits, which matter where its epoch is an older one (KIP-1251).
        """

    def fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether a member with this epoch may ask for offsets (KIP-848: OffsetFetch 9+)."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read the topic: then its offsets cannot be deleted."""

    def may_delete_offsets(self) -> ErrorCode:
        """Whether offsets of topics that nobody is subscribed to can be deleted."""

    def aging(self) -> Aging | None:
        """How offsets expire now; None: not at all."""

    # -- the end

    def may_delete(self) -> ErrorCode:
        """Whether the group can be deleted: NON_EMPTY_GROUP where it has members."""

    def is_unused(self) -> bool:
        """Whether nothing is lost with the group but its offsets: it goes when these are gone."""

    def tombstones(self) -> list[Write]:
        """What takes the group off the disk, without its offsets."""

    # -- time and place

    def timer(self, name: Hashable, now: int) -> list[Effect]:
        """A timer that was set has come."""

    def loaded(self, now: int) -> list[Effect]:
        """The group has been read from the log, and is served from now on: sessions begin anew."""

    def unloaded(self, code: ErrorCode) -> list[Reply]:
        """The group is no longer served here: answers for all who wait."""

    def topics_changed(self, names: Collection[str], now: int) -> list[Effect]:
        """Topics have been created or deleted, or have other partitions."""
