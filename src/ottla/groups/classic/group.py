"""A classic group: how members join, are given partitions by one of them, and are missed. Pure: see ../effects.py.

Rules that hold here (KIP-62, KIP-134, KIP-345, KIP-394, KIP-814; states.py has the states, standing.py the fields):

- A rebalance begins when a member joins, leaves, is lost or comes with other protocols, and when the leader joins
  again. It waits until all members have joined, at most the longest of their rebalance timeouts; who has not joined by
  then is out, unless it is static: those stay until their session ends. The first rebalance of an empty group waits
  `group.initial.rebalance.delay.ms`, again and again while members keep coming.
- Each completed rebalance is a new generation. Whoever speaks with another one is told ILLEGAL_GENERATION.
- The leader's SyncGroup brings the assignments. They are on disk before anybody learns of them.
- A member must be heard of within its session timeout; JoinGroup and SyncGroup that wait count as being heard.
- A static member that comes back under a new member id takes its old place. In a stable group nothing else changes,
  unless another protocol would be chosen; the old id is fenced.

Timers: ("session", member id), ("pending", member id), "join" (the end of joining), "sync" (the last SyncGroup).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

from ottla.groups.classic.members import CONSUMER, Member, Members
from ottla.groups.classic.requests import (
    BATCHED_LEAVES,
    ID_REQUIRED,
    SKIPS_ASSIGNMENT,
    UNKNOWN_MEMBER,
    Client,
    Settings,
    join_error,
    rebalance_timeout,
)
from ottla.groups.classic.standing import Standing
from ottla.groups.classic.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from ottla.groups.effects import Effect, Reply, Timer
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

NEW_MEMBER_TIMEOUT_MS = 300_000  # of a member that waits for its id, so that retries do not pile up

JoinResponse = messages.JoinGroupResponse
SyncResponse = messages.SyncGroupResponse


class ClassicGroup(Standing):
    __slots__ = ()

    # -- moves from and to the consumer protocol: ../consumer/migration.py

    def adopt(self, generation: int, members: Iterable[Member], now: int, *, rebalances: bool) -> list[Effect]:
        """Go on with the members of a consumer group, and what they have."""
        for member in members:
            self.members.add(member)
        self.generation, self._protocol_type = generation, CONSUMER
        self.protocol = self.members.choose_protocol()
        self.state, self.state_since = STABLE, self._wall()
        self._learn_subscribed()
        out: list[Effect] = [self._record()]
        for member in self.members:
            self._hear(out, member, now)
        if rebalances:
            self._rebalance(out, now)
        return out

    def dissolved(self) -> list[Effect]:
        """What leaves nobody waiting, when another kind of group takes the place of this one. Changes nothing."""
        out: list[Effect] = [Timer("join", None), Timer("sync", None)]
        out += [Timer(("pending", member_id), None) for member_id in self.members.pending]
        for member in self.members:
            out.append(Timer(("session", member.id), None))
            code = ErrorCode.REBALANCE_IN_PROGRESS
            if member.joining is not None:
                out.append(Reply(member.joining, JoinResponse(error_code=code, member_id=member.id)))
            if member.syncing is not None:
                out.append(Reply(member.syncing, SyncResponse(error_code=code)))
        return out

    # -- JoinGroup -----------------------------------------------------------------------------------------------

    def join(
        self, body: messages.JoinGroupRequest, client: Client, to: Any, now: int, *, new_id: str, settings: Settings
    ) -> list[Effect]:
        """`new_id` makes the id of a member that has none yet: something nobody else has."""
        out: list[Effect] = []
        asker, instance = body.member_id, body.group_instance_id
        protocols = [(one.name, one.metadata) for one in body.protocols]
        if self.state is DEAD:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif not self._has_room(asker, settings.group_max_size):
            self._turn_away(out, asker, now)
            code, asker = ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER
        elif not self._supports(body.protocol_type, protocols):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif asker != UNKNOWN_MEMBER and (asker not in self.members.pending or instance is not None):
            code = self._check_member(asker, instance)
            if not code:
                self._join_again(out, self.members.by_id[asker], body, protocols, client, to, now)
        else:
            code = ErrorCode.NONE
            made_id = asker or f"{instance or client.id}-{new_id}"
            if instance is not None and instance in self.members.static:
                self._come_back(out, self.members.by_id[self.members.static[instance]], made_id, body, client, to, now)
            elif instance is None and not asker and client.version >= ID_REQUIRED:
                self.members.pending.add(made_id)
                out.append(Timer(("pending", made_id), now + body.session_timeout_ms))
                code, asker = ErrorCode.MEMBER_ID_REQUIRED, made_id
            else:
                self._add(out, made_id, body, protocols, client, to, now, settings)
        if code:
            out.append(Reply(to, join_error(code, asker, client.version)))
        return out

    def _has_room(self, member_id: str, most: int) -> bool:
        members = self.members
        if self.state is EMPTY:
            return True
        if self.state is PREPARING:
            known = members.by_id.get(member_id)
            return (known is not None and known.joining is not None) or members.joined < most
        return member_id in members or len(members) < most

    def _turn_away(self, out: list[Effect], member_id: str, now: int) -> None:
        """A member finds its group full: others have taken its place, so it is not waited for."""
        if member_id in self.members:
            self._remove(out, self.members.by_id[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        elif member_id in self.members.pending:
            self.members.pending.discard(member_id)
            out.append(Timer(("pending", member_id), None))
        self._complete_join_if_all_are_there(out, now)

    def _supports(self, protocol_type: str, protocols: list[tuple[str, bytes]]) -> bool:
        if not protocols or not protocol_type:
            return False
        return self.state is EMPTY or (protocol_type == self._protocol_type and self.members.support(protocols))

    def _add(
        self,
        out: list[Effect],
        member_id: str,
        body: messages.JoinGroupRequest,
        protocols: list[tuple[str, bytes]],
        client: Client,
        to: Any,
        now: int,
        settings: Settings,
    ) -> None:
        if not self.members:
            self._protocol_type = body.protocol_type
        if member_id in self.members.pending:
            out.append(Timer(("pending", member_id), None))
        if self._initial is not None and self.generation == 0:
            self._late_member = True
        member = Member(
            id=member_id,
            instance_id=body.group_instance_id,
            client_id=client.id,
            client_host=client.host,
            session_timeout_ms=body.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout(body, client.version),
            protocols=protocols,
            is_new=True,
        )
        self.members.add(member)
        self.members.wait(member, to)
        out.append(Timer(("session", member_id), now + NEW_MEMBER_TIMEOUT_MS))
        self._rebalance(out, now, settings.group_initial_rebalance_delay_ms)

    def _join_again(
        self,
        out: list[Effect],
        member: Member,
        body: messages.JoinGroupRequest,
        protocols: list[tuple[str, bytes]],
        client: Client,
        to: Any,
        now: int,
    ) -> None:
        same = member.protocols == protocols
        if same and self.state is COMPLETING:
            # The answer to its first join was lost, perhaps; it has the same one again.
            out.append(Reply(to, self._joined(member)))
            return
        if same and self.state is STABLE and member.id != self.members.leader:
            self._hear(out, member, now)
            out.append(Reply(to, self._joined(member, tells_members=False)))
            return
        self._update(member, body, protocols, client.version)
        self._let_wait(out, member, to)
        self._rebalance(out, now)

    def _come_back(
        self,
        out: list[Effect],
        member: Member,
        new_id: str,
        body: messages.JoinGroupRequest,
        client: Client,
        to: Any,
        now: int,
    ) -> None:
        """A static member begins anew: under another id, in its old place."""
        leader_before, old_id = self.members.leader, member.id
        self._answer_join(out, member, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id, client.version))
        if member.syncing is not None:
            out.append(Reply(member.syncing, SyncResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)))
            member.syncing = None
        out.append(Timer(("session", old_id), None))
        if old_id in self._unsynced:
            self._unsynced.remove(old_id)
            self._unsynced.add(new_id)
        self.members.rename(member, new_id)
        member.client_id, member.client_host, member.is_new = client.id, client.host, False
        self._update(member, body, [(one.name, one.metadata) for one in body.protocols], client.version)
        if self.state is STABLE and self.members.choose_protocol() == self.protocol:
            self._learn_subscribed()
            self._hear(out, member, now)
            out.append(self._record())
            if client.version >= SKIPS_ASSIGNMENT:
                answer = self._joined(member)
                answer.skip_assignment = member.id == self.members.leader
            else:
                # Told that it leads, it would assign anew, and nobody would ask for that: so another seems to lead.
                answer = self._joined(member, tells_members=False)
                answer.leader = leader_before or ""
            out.append(Reply(to, answer))
            return
        self._let_wait(out, member, to)
        self._rebalance(out, now)

    def _update(
        self, member: Member, body: messages.JoinGroupRequest, protocols: list[tuple[str, bytes]], version: int
    ) -> None:
        self.members.tell(member, protocols)
        member.session_timeout_ms = body.session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout(body, version)

    def _let_wait(self, out: list[Effect], member: Member, to: Any) -> None:
        """Park a join. While it waits, its member is alive; a request of the same member that waited is told so."""
        before = self.members.wait(member, to)
        if before is not None:
            out.append(Reply(before, JoinResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.id)))
        if not member.is_new:
            out.append(Timer(("session", member.id), None))

    # -- the rebalance -------------------------------------------------------------------------------------------

    def _rebalance(self, out: list[Effect], now: int, initial_delay_ms: int = 0) -> None:
        """Begin one, unless one has begun; then see whether it is complete."""
        if self.state is not PREPARING:
            if self.state is COMPLETING:
                self._fail_syncs(out, ErrorCode.REBALANCE_IN_PROGRESS, now)
            if self.state is not EMPTY:
                self._forget_syncs(out)
            wait = timeout = self.members.rebalance_timeout_ms
            if self.state is EMPTY and initial_delay_ms:
                wait = initial_delay_ms
                self._initial = (wait, wait, max(timeout - wait, 0))
                self._late_member = False
            out.append(Timer("join", now + wait))
            self._enter(PREPARING)
        self._complete_join_if_all_are_there(out, now)

    def _complete_join_if_all_are_there(self, out: list[Effect], now: int) -> None:
        if self.state is PREPARING and self._initial is None and self.members.all_joined:
            self._complete_join(out, now)

    def _joining_is_over(self, out: list[Effect], now: int) -> None:
        if self._initial is not None:
            delay, waited, left = self._initial
            if self._late_member and left:
                self._late_member = False
                wait = min(delay, left)
                self._initial = (delay, wait, max(left - waited, 0))
                out.append(Timer("join", now + wait))
                return
        self._complete_join(out, now)

    def _complete_join(self, out: list[Effect], now: int) -> None:
        self._initial = None
        members = self.members
        for member in [one for one in members if one.joining is None and one.instance_id is None]:
            self._remove(out, member, ErrorCode.NONE)
        if members and not members.elect_joined():
            # Only static members are left, and none has come: their sessions decide.
            out.append(Timer("join", now + members.rebalance_timeout_ms))
            return
        out.append(Timer("join", None))
        self.generation = self.generation + 1 & 0x7FFFFFFF
        if not members:
            self.protocol, self._subscribed = None, None
            self._enter(EMPTY)
            out.append(self._record())
            return
        self.protocol = members.choose_protocol()
        self._learn_subscribed()
        self._enter(COMPLETING)
        for member in members:
            self._answer_join(out, member, self._joined(member))
            member.is_new = False
            self._hear(out, member, now)
            self._unsynced.add(member.id)
        out.append(Timer("sync", now + members.rebalance_timeout_ms))

    def _joined(self, member: Member, *, tells_members: bool = True) -> messages.JoinGroupResponse:
        leads = member.id == self.members.leader
        return JoinResponse(
            generation_id=self.generation,
            protocol_type=self._protocol_type,
            protocol_name=self.protocol or "",
            leader=self.members.leader or "",
            member_id=member.id,
            members=[
                JoinResponse.Member(
                    member_id=one.id, group_instance_id=one.instance_id, metadata=one.metadata(self.protocol)
                )
                for one in self.members
            ]
            if leads and tells_members
            else [],
        )

    def _answer_join(self, out: list[Effect], member: Member, message: messages.JoinGroupResponse) -> None:
        to = self.members.answered(member)
        if to is not None:
            out.append(Reply(to, message))

    def _remove(self, out: list[Effect], member: Member, code: ErrorCode) -> None:
        """A member is out. If it waits for something, it is told `code`."""
        if member.joining is not None:
            self._answer_join(out, member, JoinResponse(error_code=code, member_id=member.id))
        if member.syncing is not None:
            out.append(Reply(member.syncing, SyncResponse(error_code=code)))
            member.syncing = None
        out.append(Timer(("session", member.id), None))
        self.members.remove(member)

    def _after_removal(self, out: list[Effect], now: int) -> None:
        if self.state in (STABLE, COMPLETING):
            self._rebalance(out, now)
        else:
            self._complete_join_if_all_are_there(out, now)

    # -- SyncGroup -----------------------------------------------------------------------------------------------

    def sync(self, body: messages.SyncGroupRequest, to: Any, now: int) -> list[Effect]:
        code = self._check_generation(body.member_id, body.group_instance_id, body.generation_id)
        if not code and (
            body.protocol_type not in (None, self._protocol_type) or body.protocol_name not in (None, self.protocol)
        ):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not code and self.state is PREPARING:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code:
            return [Reply(to, SyncResponse(error_code=code))]
        out: list[Effect] = []
        member = self.members.by_id[body.member_id]
        self._unsynced.discard(member.id)
        if member.syncing is not None:
            out.append(Reply(member.syncing, SyncResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
        member.syncing = to
        if self.state is STABLE:
            self._answer_sync(out, member, now)
        else:
            out.append(Timer(("session", member.id), None))
            if member.id == self.members.leader:
                self._assign(out, body, now)
        if self.state is STABLE and not self._unsynced:
            out.append(Timer("sync", None))
        return out

    def _assign(self, out: list[Effect], body: messages.SyncGroupRequest, now: int) -> None:
        given = {one.member_id: one.assignment for one in body.assignments}
        for member in self.members:
            member.assignment = given.get(member.id, b"")
        record = self._record(STABLE)
        if len(record.key) + len(record.value or b"") > self._largest_record():
            log.warning("group %s: its record of %d bytes cannot be stored", self.id, len(record.value or b""))
            self._fail_syncs(out, ErrorCode.UNKNOWN_SERVER_ERROR, now)
            self._rebalance(out, now)
            return
        self._enter(STABLE)
        out.append(record)
        for member in self.members:
            if member.syncing is not None:
                self._answer_sync(out, member, now)

    def _answer_sync(self, out: list[Effect], member: Member, now: int) -> None:
        answer = SyncResponse(
            protocol_type=self._protocol_type, protocol_name=self.protocol, assignment=member.assignment
        )
        out.append(Reply(member.syncing, answer))
        member.syncing = None
        self._hear(out, member, now)

    def _fail_syncs(self, out: list[Effect], code: ErrorCode, now: int) -> None:
        for member in self.members:
            if member.syncing is not None:
                out.append(Reply(member.syncing, SyncResponse(error_code=code)))
                member.syncing = None
                self._hear(out, member, now)

    def _forget_syncs(self, out: list[Effect]) -> None:
        self._unsynced.clear()
        out.append(Timer("sync", None))

    # -- Heartbeat, LeaveGroup -----------------------------------------------------------------------------------

    def heartbeat(self, body: messages.HeartbeatRequest, to: Any, now: int) -> list[Effect]:
        code = self._check_generation(body.member_id, body.group_instance_id, body.generation_id)
        out: list[Effect] = []
        if not code:
            self._hear(out, self.members.by_id[body.member_id], now)
            if self.state is PREPARING:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        out.append(Reply(to, messages.HeartbeatResponse(error_code=code)))
        return out

    def leave(
        self, leaving: Sequence[messages.LeaveGroupRequest.Member], to: Any, now: int, *, version: int
    ) -> list[Effect]:
        out: list[Effect] = []
        if self.state is DEAD:
            out.append(Reply(to, messages.LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)))
            return out
        answers = []
        for one in leaving:
            code = self._leave(out, one, now)
            answers.append(
                messages.LeaveGroupResponse.Member(
                    member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code
                )
            )
        if any(not answer.error_code for answer in answers):
            self._after_removal(out, now)
        answer = messages.LeaveGroupResponse(members=answers)
        if version < BATCHED_LEAVES:
            answer.error_code = answers[0].error_code
        out.append(Reply(to, answer))
        return out

    def _leave(self, out: list[Effect], leaving: messages.LeaveGroupRequest.Member, now: int) -> ErrorCode:
        member_id, instance = leaving.member_id, leaving.group_instance_id
        if member_id == UNKNOWN_MEMBER and instance is not None:
            member_id = self.members.static.get(instance, UNKNOWN_MEMBER)  # an administrator removes it
        if member_id in self.members.pending and instance is None:
            self.members.pending.discard(member_id)
            out.append(Timer(("pending", member_id), None))
            return ErrorCode.NONE
        code = self._check_member(member_id, instance)
        if not code:
            log.info("group %s: %s leaves: %s", self.id, member_id, leaving.reason or "no reason given")
            self._remove(out, self.members.by_id[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        return code

    # -- time ----------------------------------------------------------------------------------------------------

    def timer(self, name: Hashable, now: int) -> list[Effect]:
        out: list[Effect] = []
        match name:
            case ("session", str(member_id)) if member_id in self.members:
                log.info("group %s: %s has not been heard of in time", self.id, member_id)
                self._remove(out, self.members.by_id[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
                self._after_removal(out, now)
            case ("pending", str(member_id)):
                self.members.pending.discard(member_id)
                self._complete_join_if_all_are_there(out, now)
            case "join" if self.state is PREPARING:
                self._joining_is_over(out, now)
            case "sync" if self.state in (COMPLETING, STABLE):
                for member_id in list(self._unsynced):
                    self._remove(out, self.members.by_id[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
                self._after_removal(out, now)
        return out

    def loaded(self, now: int) -> list[Effect]:
        out: list[Effect] = []
        for member in self.members:
            self._hear(out, member, now)
        return out

    def unloaded(self, code: ErrorCode) -> list[Reply]:
        out: list[Effect] = []
        for member in list(self.members):
            self._remove(out, member, code)
        self.members = Members()
        if self.state is not DEAD:
            self._enter(DEAD)
        return [effect for effect in out if isinstance(effect, Reply)]

    def topics_changed(self, names: Collection[str], now: int) -> list[Effect]:
        return []  # consumers look themselves, and join again
