"""What a classic group is between two events: its fields, what it may be asked for, and how it stands on disk.

What happens to it is in group.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.groups.classic.members import CONSUMER, Member, Members
from ottla.groups.classic.requests import UNKNOWN_MEMBER
from ottla.groups.classic.states import COMPLETING, DEAD, EMPTY, FOLLOWS, STABLE, ImpossibleTransition, State
from ottla.groups.effects import Effect, Timer, Write
from ottla.groups.offsets import Aging
from ottla.groups.records import group_key, group_value
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

NO_TIME = -1


class Standing:
    __slots__ = (
        "_initial",
        "_largest_record",
        "_late_member",
        "_protocol_type",
        "_subscribed",
        "_unsynced",
        "_wall",
        "generation",
        "id",
        "is_stored",
        "members",
        "protocol",
        "state",
        "state_since",
    )

    type = "classic"

    def __init__(self, id: str, wall: Callable[[], int], largest_record: Callable[[], int]) -> None:
        self.id = id
        self._wall = wall
        self._largest_record = largest_record
        self.state = EMPTY
        self.state_since = wall()
        self.generation = 0
        self._protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = Members()
        self.is_stored = False
        self._subscribed: frozenset[str] | None = None
        self._unsynced: set[str] = set()
        # of a first rebalance: the setting, how long this wait is, how much time is left after it
        self._initial: tuple[int, int, int] | None = None
        self._late_member = False  # one has come since that wait began

    def take(self, value: messages.GroupMetadataValue) -> None:
        """Become what was stored."""
        self.generation = value.generation
        self._protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.state_since = value.current_state_timestamp
        self.is_stored = True
        for one in value.members:
            self.members.add(
                Member(
                    id=one.member_id,
                    instance_id=one.group_instance_id,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    session_timeout_ms=one.session_timeout,
                    rebalance_timeout_ms=max(one.rebalance_timeout, 0) or one.session_timeout,
                    protocols=[(value.protocol or "", one.subscription)],
                    assignment=one.assignment,
                )
            )
        if value.leader is not None and value.leader in self.members:
            self.members.leader = value.leader
        self.state = STABLE if self.members else EMPTY
        self._learn_subscribed()

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_member(self, member_id: str, instance: str | None) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if instance is not None:
            known = self.members.static.get(instance)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _check_generation(self, member_id: str, instance: str | None, generation: int) -> ErrorCode:
        code = self._check_member(member_id, instance)
        if not code and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return code

    def _hear(self, out: list[Effect], member: Member, now: int) -> None:
        """The member lives: its session begins anew, unless it waits for us."""
        if member.joining is None and member.syncing is None:
            out.append(Timer(("session", member.id), now + member.session_timeout_ms))

    # -- what all kinds do ---------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return self._protocol_type or ""

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
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and self.state is EMPTY:
            return []  # not a member: a consumer that assigns itself, or an administrator
        if epoch >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            code = self._check_generation(member_id, instance_id, epoch)
            if code:
                return code
        elif not transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and self.state is COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        out: list[Effect] = []
        member = self.members.by_id.get(member_id)
        if member is not None:
            self._hear(out, member, now)
        return out

    def fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        return self._subscribed is not None and topic in self._subscribed

    def may_delete_offsets(self) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.state is not EMPTY and self._protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def aging(self) -> Aging | None:
        if self._protocol_type is None:
            return Aging()
        if self.state is EMPTY:
            return Aging(since=self.state_since if self.state_since != NO_TIME else None)
        if self.state is STABLE and self._subscribed is not None:
            return Aging(kept=self._subscribed)
        return None

    def may_delete(self) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    def is_unused(self) -> bool:
        return self.state is EMPTY and not self.members.pending

    def tombstones(self) -> list[Write]:
        return [Write(group_key(self.id), None)] if self.is_stored else []

    # -- state ---------------------------------------------------------------------------------------------------

    def _enter(self, state: State) -> None:
        if state not in FOLLOWS[self.state]:
            raise ImpossibleTransition(f"group {self.id}: from {self.state.value} to {state.value}")
        self.state = state
        self.state_since = self._wall()

    def _learn_subscribed(self) -> None:
        self._subscribed = (
            self.members.subscribed(self.protocol or "") if self._protocol_type == CONSUMER and self.members else None
        )

    def _record(self, entering: State | None = None) -> Write:
        """The group as it is, or is about to be."""
        self.is_stored = True
        value = messages.GroupMetadataValue(
            protocol_type=self._protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.members.leader,
            current_state_timestamp=self._wall() if entering else self.state_since,
            members=[
                messages.GroupMetadataValue.Member(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=member.assignment,
                )
                for member in self.members
            ],
        )
        return Write(group_key(self.id), group_value(value))
