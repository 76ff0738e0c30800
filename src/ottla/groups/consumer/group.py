"""A consumer group of KIP-848: the broker assigns, and each member moves on when its heartbeat comes. Pure.

    group epoch      rises when a member comes, goes or reads other topics, and when its topics change
    target           who is to have what, worked out for a group epoch; at most every
                     group.consumer.assignment.interval.ms, so that many who join at once cost little (KIP-1263)
    member epoch     the target that a member has reached; reconciliation.py has the steps

Rules:

- A partition has at most one owner in any moment. A member owns what it has and what it has still to give up.
- Who speaks with another epoch than its own is fenced, and must join anew with epoch 0; except with the previous one
  and nothing that it is not to have: then the answer with the new epoch was lost.
- A member must be heard of within the session timeout, and must give up what it has to within its rebalance timeout.
- A static member that leaves for a while (epoch -2) keeps its partitions until its session ends. Then another may take
  its place under the same instance id, and not before: UNRELEASED_INSTANCE_ID.
- A member that is kept waiting, for a target or for partitions, is told to come again sooner than others.

Members of the classic protocol are in classic_members.py, the moves between both kinds of groups in migration.py.
Timers: ("session", member id), ("revoke", member id), of classic members also ("join", member id), ("sync", member id).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

from ottla.groups.classic.requests import Client, Settings
from ottla.groups.consumer import classic_members, heartbeats, migration, records
from ottla.groups.consumer.assignors import ASSIGNORS, NOTHING, Assignment, Subscriber
from ottla.groups.consumer.faults import Fault
from ottla.groups.consumer.members import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    REVOKING,
    Member,
    Owned,
    Profile,
)
from ottla.groups.consumer.reconciliation import Reported, next_step
from ottla.groups.consumer.subscriptions import Matched, Subscriptions
from ottla.groups.consumer.world import World, metadata_hash
from ottla.groups.effects import Effect, Reply, Timer, Write
from ottla.groups.offsets import Aging
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

CONSUMER = "consumer"
MEMBER_EPOCHS = 9  # version of OffsetCommit that members of this protocol use
EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"

Body = messages.ConsumerGroupHeartbeatRequest


class ConsumerGroup:
    __slots__ = (
        "_assignors",
        "_hashed",
        "_owners",
        "assigned_at",
        "classic_count",
        "classic_protocols",
        "epoch",
        "has_topics_record",
        "id",
        "members",
        "metadata_hash",
        "static",
        "subscriptions",
        "target_epoch",
        "targets",
        "world",
    )

    type = CONSUMER
    protocol_type = CONSUMER

    def __init__(self, id: str, world: World) -> None:
        self.id = id
        self.world = world
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.assigned_at = 0  # time of day of the target; 0: never
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, Assignment] = {}
        self.subscriptions = Subscriptions()
        self.classic_count = 0
        self.classic_protocols: Counter[str] = Counter()  # protocol -> classic members that know it
        self.has_topics_record = False
        self._assignors: Counter[str] = Counter()
        self._owners: dict[tuple[bytes, int], str] = {}
        self._hashed: frozenset[str] | None = None  # topics that metadata_hash is known to stand for

    # -- the protocols --------------------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, body: Body, client: Client, to: Any, now: int, matched: Matched | None = None
    ) -> list[Effect]:
        """The last effect is the answer. With an error in it, nothing has changed.

        `matched`: the topics that fit the request's pattern, where they have been looked for.
        """
        return heartbeats.serve(self, body, client, to, now, matched)

    def join(
        self, body: messages.JoinGroupRequest, client: Client, to: Any, now: int, *, new_id: str, settings: Settings
    ) -> list[Effect]:
        return classic_members.join(self, body, client, to, now, new_id)

    def sync(self, body: messages.SyncGroupRequest, to: Any, now: int) -> list[Effect]:
        return classic_members.sync(self, body, to, now)

    def heartbeat(self, body: messages.HeartbeatRequest, to: Any, now: int) -> list[Effect]:
        return classic_members.heartbeat(self, body, to, now)

    def leave(
        self, leaving: Sequence[messages.LeaveGroupRequest.Member], to: Any, now: int, *, version: int
    ) -> list[Effect]:
        return classic_members.leave(self, leaving, to, now, version)

    # -- checks ----------------------------------------------------------------------------------------------------

    def check_room(self, member_id: str, most: int) -> None:
        if len(self.members) >= most and member_id not in self.members:
            raise Fault(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def unknown(self, member_id: str) -> Fault:
        return Fault(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}.")

    def check_instance(self, member_id: str, instance_id: str) -> Member:
        """The static member, if it has this member id."""
        known = self.static.get(instance_id)
        if known is None:
            raise Fault(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if known != member_id:
            raise Fault(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {known}.",
            )
        return self.members[known]

    # -- members ---------------------------------------------------------------------------------------------------

    def settle(
        self, out: list[Effect], known: Member | None, member_id: str, profile: Profile, *, rejoins: bool
    ) -> tuple[Member, bool]:
        """Take in a member, or what it says of itself; also returns whether it reads other topics than before.

        A static member that begins anew has the place of the one that was there.
        """
        if known is None:
            member, before = Member(member_id), Profile()
            self.members[member_id] = member
        else:
            member, before = known, known.profile
        is_another = known is not None and rejoins and (known.id != member_id or known.epoch == LEAVING_FOR_A_WHILE)
        if is_another:
            self._rename(out, member, member_id)
        if known is None or member.profile != profile or is_another:
            self.introduce(member, profile)
            out.append(records.member_record(self.id, member))
        if is_another:
            target = self.targets.get(member_id, NOTHING)
            out.append(records.member_target_record(self.id, member_id, target))
            out.append(records.member_state_record(self.id, member))
        if known is not None and before.classic is not None and profile.classic is None:
            out += [Timer(("join", member_id), None), Timer(("sync", member_id), None)]
            member.must_join = False
        return member, (before.topics, before.regex) != (profile.topics, profile.regex)

    def introduce(self, member: Member, profile: Profile) -> None:
        """Note what a member says of itself."""
        self._forget_profile(member)
        member.profile = profile
        self.subscriptions.add(profile)
        if profile.instance_id is not None:
            self.static[profile.instance_id] = member.id
        if profile.assignor is not None:
            self._assignors[profile.assignor] += 1
        if profile.classic is not None:
            self.classic_count += 1
            self.classic_protocols.update({name for name, _ in profile.classic.protocols})

    def _forget_profile(self, member: Member) -> None:
        profile = member.profile
        self.subscriptions.remove(profile)
        if profile.instance_id is not None and self.static.get(profile.instance_id) == member.id:
            del self.static[profile.instance_id]
        if profile.assignor is not None:
            self._assignors[profile.assignor] -= 1
        if profile.classic is not None:
            self.classic_count -= 1
            self.classic_protocols.subtract({name for name, _ in profile.classic.protocols})

    def _rename(self, out: list[Effect], member: Member, new_id: str) -> None:
        out += records.member_tombstones(self.id, member.id)
        out += self.timers_off(member)
        target = self.targets.pop(member.id, NOTHING)
        del self.members[member.id]
        if member.instance_id is not None:
            self.static[member.instance_id] = new_id
        member.id, member.epoch, member.previous_epoch = new_id, JOINING, JOINING
        self.members[new_id] = member
        self.targets[new_id] = target
        self.own(member, member.assigned, member.revoking)

    def fence(self, out: list[Effect], leaving: Collection[Member], now: int) -> None:
        """Members are out; the others share what they had."""
        if migration.may_downgrade(self, leaving):
            out += migration.downgrade(self, leaving, now, rebalances=True)
            return
        for member in leaving:
            self.remove(out, member)
        self.raise_epoch(out)

    def remove(self, out: list[Effect], member: Member) -> None:
        out += records.member_tombstones(self.id, member.id)
        out += self.timers_off(member)
        self.own(member, {}, {})
        self._forget_profile(member)
        del self.members[member.id]
        self.targets.pop(member.id, None)

    def timers_off(self, member: Member) -> list[Timer]:
        names = ("session", "revoke") if member.profile.classic is None else ("session", "revoke", "join", "sync")
        return [Timer((name, member.id), None) for name in names]

    # -- epochs and targets ----------------------------------------------------------------------------------------

    def raise_epoch(self, out: list[Effect]) -> None:
        for pattern in self.subscriptions.forget_unread():
            out.append(Write(records.pattern_key(self.id, pattern), None))
        self.rehash()
        self.epoch += 1
        out.append(records.group_record(self.id, self.epoch, self.metadata_hash))
        if self.has_topics_record:
            out.append(Write(records.group_key(records.TOPICS, self.id), None))
            self.has_topics_record = False

    def rehash(self) -> None:
        names = self.subscriptions.all()
        if names != self._hashed:
            self.metadata_hash, self._hashed = metadata_hash(names, self.world.image), names

    def pattern_record(self, pattern: str) -> Write:
        topics = self.subscriptions.topics_of_pattern[pattern]
        return records.pattern_record(self.id, pattern, topics, self.world.now_ms())

    def assign_if_due(self, out: list[Effect], *, at_once: bool = False) -> None:
        """Work out a target for the group's epoch, unless that was done a moment ago for another."""
        if self.target_epoch >= self.epoch:
            return
        settings, now_ms = self.world.settings(self.id), self.world.now_ms()
        if not at_once and 0 <= now_ms - self.assigned_at < settings.assignment_interval_ms:
            return
        subscribers, partitions = self._subscribers()
        for member_id, target in ASSIGNORS[self.assignor(settings.assignors)](subscribers, partitions).items():
            if target != self.targets.get(member_id, NOTHING) or member_id not in self.targets:
                self.targets[member_id] = target
                out.append(records.member_target_record(self.id, member_id, target))
        self.target_epoch, self.assigned_at = self.epoch, now_ms
        out.append(records.target_record(self.id, self.target_epoch, now_ms))

    def assignor(self, served: Sequence[str]) -> str:
        """The one that most members want, of those that are served; otherwise the first of these."""
        wanted = [(count, name) for name, count in self._assignors.items() if count and name in served]
        return max(wanted)[1] if wanted else served[0]

    def _subscribers(self) -> tuple[list[Subscriber], dict[bytes, int]]:
        topics = self.world.image.topics
        partitions = {
            topics[name].id: len(topics[name].partitions) for name in sorted(self.subscriptions.all()) if name in topics
        }
        # Members that read the same share one set: that makes it cheap to see that they do.
        same: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
        found = []
        for member in self.members.values():
            profile = member.profile
            read = same.get((profile.topics, profile.regex))
            if read is None:
                read = same[profile.topics, profile.regex] = self._topic_ids(profile)
            held = self.targets.get(member.id, NOTHING)
            found.append(Subscriber(member.id, profile.instance_id, read, held))
        return found, partitions

    def _topic_ids(self, profile: Profile) -> frozenset[bytes]:
        topics = self.world.image.topics
        return frozenset(topics[name].id for name in self.subscriptions.topics(profile) if name in topics)

    # -- assignments -----------------------------------------------------------------------------------------------

    def reconcile(
        self, out: list[Effect], member: Member, reported: Reported | None, now: int, *, has_changed: bool
    ) -> None:
        if not has_changed and member.is_at(self.target_epoch):
            return
        target = self.targets.get(member.id, NOTHING)
        read = self._topic_ids(member.profile)
        step = next_step(member, target, self.target_epoch, read, reported, self.owner, has_changed=has_changed)
        if step is None or step == (member.state, member.epoch, member.assigned, member.revoking):
            return
        if step.epoch != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, step.epoch
        member.state = step.state
        self.own(member, step.assigned, step.revoking)
        out.append(records.member_state_record(self.id, member))
        if member.profile.classic is not None:
            return
        if member.state is REVOKING:
            member.timed_epoch = member.epoch
            out.append(Timer(("revoke", member.id), now + member.profile.rebalance_timeout_ms))
        else:
            self.revokes_no_more(out, member)

    def revokes_no_more(self, out: list[Effect], member: Member) -> None:
        member.timed_epoch = None
        out.append(Timer(("revoke", member.id), None))

    def owner(self, topic: bytes, partition: int) -> str | None:
        return self._owners.get((topic, partition))

    def own(self, member: Member, assigned: Owned, revoking: Owned) -> None:
        """Give a member these partitions in place of what it owns. Another's cannot be among them."""
        owners = self._owners
        for partition in member.owned():
            owners.pop(partition, None)
        member.assigned, member.revoking = assigned, revoking
        for partition in member.owned():
            if owners.setdefault(partition, member.id) != member.id:
                raise AssertionError(f"group {self.id}: {partition} is owned by {owners[partition]}")

    # -- time and place --------------------------------------------------------------------------------------------

    def timer(self, name: Hashable, now: int) -> list[Effect]:
        out: list[Effect] = []
        match name:
            case (str(what), str(member_id)) if member_id in self.members:
                member = self.members[member_id]
                if what == "revoke" and member.timed_epoch != member.epoch:
                    return out
                log.info("group %s: %s is out: %s", self.id, member_id, _REASONS.get(what, what))
                self.fence(out, [member], now)
        return out

    def loaded(self, now: int) -> list[Effect]:
        out: list[Effect] = [*self.sessions(now)]
        if self.members:
            # Topics may have come and gone when nobody looked.
            topics = self.world.image.topics
            out += self.topics_changed(self.subscriptions.all().union(topics), now)
        return out

    def sessions(self, now: int) -> list[Timer]:
        """All members have been heard of now."""
        out: list[Timer] = []
        settings = self.world.settings(self.id)
        for member in self.members.values():
            profile = member.profile
            timeout = settings.session_timeout_ms if profile.classic is None else profile.classic.session_timeout_ms
            out.append(Timer(("session", member.id), now + timeout))
            if member.state is REVOKING and profile.classic is None:
                member.timed_epoch = member.epoch
                out.append(Timer(("revoke", member.id), now + profile.rebalance_timeout_ms))
        return out

    def unloaded(self, code: ErrorCode) -> list[Reply]:
        return []  # nobody waits for an answer here

    def topics_changed(self, names: Collection[str], now: int) -> list[Effect]:
        out: list[Effect] = []
        topics = self.world.image.topics
        rematched = self.subscriptions.topics_changed(names, topics)
        out += [self.pattern_record(pattern) for pattern in rematched]
        if rematched or any(name in self.subscriptions for name in names):
            read = self.subscriptions.all()
            if rematched or metadata_hash(read, self.world.image) != self.metadata_hash:
                self._hashed = None
                self.raise_epoch(out)
        return out

    # -- what all kinds do -----------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        is_settled = all(member.is_at(self.target_epoch) for member in self.members.values())
        return STABLE if is_settled else RECONCILING

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
        if epoch < 0 and not self.members:
            return []
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return []
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_classic = member.profile.classic is not None
        if not transactional and not is_classic and version < MEMBER_EPOCHS:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch or (epoch < member.epoch and self._had_then(member, epoch, partitions)):
            return []
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def _had_then(self, member: Member, epoch: int, partitions: Iterable[tuple[str, int]]) -> bool:
        """Whether a member has had these since an epoch: its commit may have met its way to a newer one (KIP-1251)."""
        topics = self.world.image.topics
        asked = list(partitions)
        for name, partition in asked:
            topic = topics.get(name)
            since = None if topic is None else member.assigned_in(topic.id, partition)
            if since is None or epoch < since:
                return False
        return bool(asked)

    def fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.profile.classic is None else ErrorCode.ILLEGAL_GENERATION

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.subscriptions

    def may_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def aging(self) -> Aging | None:
        return Aging(kept=self.subscriptions.all())

    def may_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def is_unused(self) -> bool:
        return not self.members

    def tombstones(self) -> list[Write]:
        return records.tombstones(self.id, self.members, self.subscriptions.topics_of_pattern)


_REASONS = {
    "session": "it has not been heard of in time",
    "revoke": "it has not given up its partitions in time",
    "join": "it has not joined again in time",
    "sync": "it has not asked for its assignment in time",
}
