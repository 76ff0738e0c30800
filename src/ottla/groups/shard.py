"""One partition of __consumer_offsets on the broker that leads it: its groups in memory, and their way to the log.

When an append is refused, memory is ahead of the log: those who wait are told COORDINATOR_NOT_AVAILABLE, all groups of
the partition are dropped and read back from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.controller.names import CONSUMER_OFFSETS
from ottla.coordinators import shards
from ottla.coordinators.journal import Journal
from ottla.coordinators.loading import Survivors, Turns
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.consumer.surroundings import Surroundings
from ottla.groups.effects import Become, Effect, Reply, Timer, Write
from ottla.groups.group import Group
from ottla.groups.kinds import RESTORERS
from ottla.groups.records import OFFSET_KEYS, Committed, kind_of, read_offset_key, read_offset_value
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.model import Message
from ottla.replication.partition import Partition
from ottla.replication.refused import Refused

if TYPE_CHECKING:
    from ottla.groups.coordinator import Coordinator

log = logging.getLogger(__name__)


class Shard(shards.Shard):
    __slots__ = ("_coordinator", "_ended", "_holding", "groups", "journal", "world")

    def __init__(self, coordinator: Coordinator, partition: Partition) -> None:
        super().__init__(partition)
        self._coordinator = coordinator
        self.groups: dict[str, Group] = {}
        self._holding: dict[int, set[str]] = {}  # groups with offsets in a producer's open transaction
        self._ended: list[tuple[int, bool]] = []  # transactions that ended while the log was read
        host = coordinator.host
        self.journal: Journal[Reply] = Journal(
            host,
            partition,
            answer=_answer,
            late=partial(_fail, code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
            refused=self._refused,
            codec=lambda: host.config.offsets_topic_compression_codec,
            timeout_ms=lambda: host.config.offsets_commit_timeout_ms,
        )
        self.world = Surroundings(host, self)

    @property
    def largest_record(self) -> int:
        """Bytes of key and value that one record may have."""
        return self.journal.largest_record

    # -- groups --------------------------------------------------------------------------------------------------

    def find_or_create(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self, self.new_core(group_id))
        return group

    def new_core(self, group_id: str) -> ClassicGroup:
        """An empty group, as every group begins."""
        return ClassicGroup(group_id, self._coordinator.host.now_ms, lambda: self.largest_record)

    def remove(self, group: Group) -> None:
        self.groups.pop(group.id, None)

    # -- effects -------------------------------------------------------------------------------------------------

    def carry_out(self, group: Group, effects: Iterable[Effect]) -> None:
        """Do what a group wants done. Answers wait for the records of the same list."""
        replies: list[Reply] = []
        writes: list[Write] = []
        for effect in effects:
            if isinstance(effect, Timer):
                self._coordinator.set_timer(group, effect)
            elif isinstance(effect, Write):
                writes.append(effect)
            elif isinstance(effect, Become):
                group.core = effect.core
            else:
                replies.append(effect)
        if writes:
            self.journal.put(writes, replies)
        elif replies:
            _answer(replies)

    def write_in_transaction(self, writes: list[Write], reply: Reply, producer: tuple[int, int]) -> None:
        """Write offsets as part of a producer's transaction, behind all that is to be written."""
        self.journal.flush()
        self.journal.append(list(writes), [reply], producer)

    def hold_back(self, group: Group, producer_id: int, topic: str, index: int, committed: Committed) -> Write:
        """An offset that counts when the producer's transaction is committed; returns its record."""
        self._holding.setdefault(producer_id, set()).add(group.id)
        return group.offsets.hold_back(producer_id, topic, index, committed)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        if self.state == shards.LOADING:
            self._ended.append((producer_id, commit))
            return
        for group_id in self._holding.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, commit=commit)

    def _refused(self, answers: list[Reply], refusal: Refused) -> None:
        log.warning("%s-%d: groups cannot be written: %s", CONSUMER_OFFSETS, self.index, refusal.message)
        _fail(answers, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._coordinator.shards.load(self)

    def unload(self, code: ErrorCode) -> None:
        """Forget all groups; who waits is told `code`."""
        self.state = shards.FAILED
        groups, self.groups = self.groups, {}
        self._holding.clear()
        self._ended.clear()
        _fail(self.journal.drop(), code)
        for group in groups.values():
            _answer(group.core.unloaded(code))

    # -- loading -------------------------------------------------------------------------------------------------

    async def restore(self, survivors: Survivors, turns: Turns) -> None:
        for key, (_, value) in survivors.records.items():
            self._take(key, value, None)
            await turns.pause()
        for producer_id, key, value in survivors.held_back():
            self._take(key, value, producer_id)

    def _take(self, key: bytes, value: bytes, producer_id: int | None) -> None:
        try:
            kind = kind_of(key)
            if kind in OFFSET_KEYS:
                group_id, topic, index = read_offset_key(key)
                group, committed = self.find_or_create(group_id), read_offset_value(value)
                if producer_id is None:
                    group.offsets.put(topic, index, committed)
                else:
                    self.hold_back(group, producer_id, topic, index, committed)
            elif kind in RESTORERS:
                RESTORERS[kind](self, key, value)
        except (ProtocolError, ValueError, LookupError) as error:
            log.warning("%s-%d: passing over a record: %r", CONSUMER_OFFSETS, self.index, error)

    def begin(self) -> None:
        """Serve the groups that have been loaded."""
        for producer_id, commit in self._ended:
            self.end_transaction(producer_id, commit)
        self._ended.clear()
        now = self._coordinator.now()
        topics = self._coordinator.host.image.topics
        for group in list(self.groups.values()):
            self.carry_out(group, group.core.loaded(now))
            for topic in group.offsets.topics() - topics.keys():
                self.carry_out(group, group.offsets.drop_topic(topic))  # deleted when nobody looked


def _answer(answers: Iterable[Reply]) -> None:
    for to, message in answers:
        if to is not None:
            to(message)


def _fail(answers: list[Reply], code: ErrorCode) -> None:
    """Answer all with an error. They are not answered again."""
    for _, message in answers:
        _put_error(message, code)
    _answer(answers)
    answers.clear()


def _put_error(message: Any, code: ErrorCode) -> None:
    """Put a code into all places of a response that have room for one."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_code":
            message.error_code = code
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, Message):
                    _put_error(one, code)
