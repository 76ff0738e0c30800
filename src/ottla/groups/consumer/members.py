"""A member of a consumer group: what it said of itself, and how far it has come with its assignment.

    stable       it has reached an assignment: its epoch says which
    revoking     it must give up `revoking` before it goes on; others wait for these partitions
    waiting      it is at the newest epoch, and others have not given up all that it is to get

A member that speaks the classic protocol inside of a consumer group has `classic`: what it sent with JoinGroup.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

Owned = dict[bytes, dict[int, int]]  # topic id -> partition -> epoch in which it was assigned (KIP-1251)

JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2  # epochs with a meaning of their own
NO_EPOCH = -1
NO_TIMEOUT = -1
NO_REGEX = ""


class State(IntEnum):
    """With the numbers of the record."""

    STABLE = 0
    REVOKING = 1
    WAITING = 2


STABLE, REVOKING, WAITING = State


class Classic(NamedTuple):
    """Protocols: name and metadata, in the order in which the member prefers them."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Profile(NamedTuple):
    """What a member says of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = NO_REGEX
    rebalance_timeout_ms: int = NO_TIMEOUT
    assignor: str | None = None
    classic: Classic | None = None


@dataclass(slots=True)
class Member:
    id: str
    profile: Profile = field(default_factory=Profile)
    epoch: int = JOINING
    previous_epoch: int = NO_EPOCH
    state: State = STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    timed_epoch: int | None = None  # that it must leave in time, while it revokes
    must_join: bool = False  # a classic member that has been told so, and has a time for it

    @property
    def instance_id(self) -> str | None:
        return self.profile.instance_id

    def is_at(self, epoch: int) -> bool:
        """Whether it has the whole assignment of an epoch."""
        return self.state is STABLE and self.epoch == epoch

    def owned(self) -> Iterator[tuple[bytes, int]]:
        """What nobody else may have yet."""
        for owned in (self.assigned, self.revoking):
            for topic, partitions in owned.items():
                for partition in partitions:
                    yield topic, partition

    def assigned_in(self, topic: bytes, partition: int) -> int | None:
        """The epoch in which it got a partition that it has, or has still to give up."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
