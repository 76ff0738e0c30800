"""The members of a classic group: who leads, who waits for what, which protocol they agree on. No time, no effects.

A protocol (an assignor, for consumers) can be chosen if all members know it; each member votes for the first of its own
that can be, and the one with most votes wins.

A member with an instance id is static (KIP-345): under that name it may come back with another member id. A pending
member has been given an id and has not used it yet (KIP-394).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol import codec, messages
from ottla.protocol.errors import MalformedMessage

CONSUMER = "consumer"
NEWEST_SUBSCRIPTION = 3


@dataclass(slots=True)
class Member:
    """`joining` and `syncing`: whom to answer, while a request of its waits."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    joining: Any = None
    syncing: Any = None
    is_new: bool = False  # has not been told its id yet: it cannot send heartbeats

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Members:
    by_id: dict[str, Member] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    pending: set[str] = field(default_factory=set)
    leader: str | None = None
    joined: int = 0  # members whose JoinGroup waits
    _known: Counter[str] = field(default_factory=Counter)  # protocol -> members that know it

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.by_id

    def add(self, member: Member) -> None:
        self.by_id[member.id] = member
        self.pending.discard(member.id)
        self._known.update(dict(member.protocols).keys())
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member: Member) -> None:
        assert member.joining is None
        del self.by_id[member.id]
        self._known.subtract(dict(member.protocols).keys())
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.by_id), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member has come back under another id; it keeps its place."""
        assert member.instance_id is not None
        old_id, member.id = member.id, new_id
        self.by_id = {new_id if known == old_id else known: one for known, one in self.by_id.items()}
        self.static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id

    def tell(self, member: Member, protocols: list[tuple[str, bytes]]) -> None:
        """A member comes with other protocols, or other metadata for them."""
        self._known.subtract(dict(member.protocols).keys())
        self._known.update(dict(protocols).keys())
        member.protocols = protocols

    # -- waiting

    def wait(self, member: Member, to: Any) -> Any:
        """The member has joined and waits; returns whom it had left waiting before."""
        before, member.joining = member.joining, to
        self.joined += before is None
        return before

    def answered(self, member: Member) -> Any:
        """The member waits no more; returns whom to answer."""
        to, member.joining = member.joining, None
        self.joined -= to is not None
        return to

    @property
    def all_joined(self) -> bool:
        return not self.pending and self.joined == len(self)

    def elect_joined(self) -> bool:
        """Let one who has joined lead; False if nobody has."""
        if self.leader is not None and self.by_id[self.leader].joining is not None:
            return True
        found = next((member.id for member in self if member.joining is not None), None)
        if found is None:
            return False
        self.leader = found
        return True

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self), default=0)

    # -- protocols

    def candidates(self) -> set[str]:
        """Protocols that all members know."""
        return {name for name, count in self._known.items() if count == len(self)}

    def support(self, protocols: list[tuple[str, bytes]]) -> bool:
        """Whether one of them is known to all."""
        return any(self._known[name] == len(self) for name, _ in protocols)

    def choose_protocol(self) -> str:
        candidates = self.candidates()
        votes = Counter(
            next(name for name, _ in member.protocols if name in candidates) for member in self if candidates
        )
        return votes.most_common(1)[0][0] if votes else ""

    def subscribed(self, protocol: str) -> frozenset[str] | None:
        """The topics that consumers read; None if one of them does not say it in a way that is known."""
        topics: set[str] = set()
        for member in self:
            names = topics_of(member.metadata(protocol))
            if names is None:
                return None
            topics.update(names)
        return frozenset(topics)


def topics_of(metadata: bytes) -> list[str] | None:
    """The topics in a consumer's subscription; None if it is none."""
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if len(metadata) < 2 or version < 0:
        return None
    try:
        decode = codec.decoder(messages.ConsumerProtocolSubscription, min(version, NEWEST_SUBSCRIPTION))
        return decode(memoryview(metadata)[2:], 0)[0].topics
    except MalformedMessage:
        return None
