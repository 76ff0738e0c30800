"""The transaction coordinator: which transactional ids this broker serves, and what drives them.

A transactional id belongs to a partition of __transaction_state and is served by the broker that leads it. The topic is
made when a producer first asks for its coordinator. Requests come from the broker's handlers with a function to call
with the `Answer`, at once or later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ottla.controller.names import TRANSACTION_STATE
from ottla.controller.topics import NewTopic
from ottla.coordination.store import StoreError
from ottla.coordinators.host import Host
from ottla.coordinators.internal_topic import InternalTopic
from ottla.coordinators.shards import Shards
from ottla.protocol.errors import ErrorCode
from ottla.transactions.markers import Ended, Markers
from ottla.transactions.shard import Shard
from ottla.transactions.states import AT_REST, ONGOING
from ottla.transactions.transaction import Answer, Effect, NeedsProducerId, TopicPartition, Transaction

log = logging.getLogger(__name__)

To = Callable[[Answer], None]
Producer = tuple[int, int]  # id and epoch


class Coordinator:
    def __init__(self, host: Host, ended: Ended) -> None:
        self.host = host
        self.topic = InternalTopic(host, TRANSACTION_STATE, self._new_topic)
        self.shards: Shards[Shard] = Shards(host, self.topic, partial(Shard, self))
        self.markers = Markers(host, ended)
        self._waiting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Take up the partitions that are there; their logs are read in the background."""
        self.shards.take_up()

    async def stop(self) -> None:
        await self.shards.stop()
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    def topics_changed(self, created: Iterable[str], deleted: Iterable[str]) -> None:
        if TRANSACTION_STATE in deleted:
            self.shards.drop()
        if TRANSACTION_STATE in created:
            self.shards.take_up()

    def _new_topic(self) -> NewTopic:
        config = self.host.config
        return NewTopic(
            TRANSACTION_STATE,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )

    # -- requests ------------------------------------------------------------------------------------------------

    def init(self, id: str, timeout_ms: int, expected: Producer | None, to: To) -> None:
        """A producer comes, with the id and epoch that it had, if any."""
        if not 0 < timeout_ms <= self.host.config.transaction_max_timeout_ms:
            to(Answer(to, ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return

        def attempt(fresh_id: int | None) -> None:
            shard = self.shards.of(id)
            if isinstance(shard, ErrorCode):
                to(Answer(to, shard))
                return
            now_ms = self.host.now_ms()
            transaction = shard.transactions.get(id)
            if transaction is None:
                if fresh_id is None:
                    raise NeedsProducerId
                transaction = shard.transactions[id] = Transaction(id, fresh_id, timeout_ms, now_ms)
            was_open = transaction.state is ONGOING

            def answered(answer: Answer) -> None:
                if was_open and transaction.state in AT_REST:  # what was open is ended: no need to come again
                    self.init(id, timeout_ms, expected, to)
                else:
                    to(answer)

            shard.carry_out(transaction, transaction.init(answered, timeout_ms, expected, fresh_id, now_ms))

        self._attempt(attempt, to)

    def add(self, id: str, producer: Producer, partitions: Iterable[TopicPartition], to: To) -> None:
        """The producer is about to write to these partitions."""
        wanted = frozenset(partitions)
        self._act(id, to, lambda one: one.add(to, *producer, wanted, self.host.now_ms()))

    def verify(self, id: str, producer: Producer, partition: TopicPartition) -> ErrorCode:
        """Whether the producer may write to this partition now."""
        found = self.find(id)
        if isinstance(found, Transaction):
            return found.verify(*producer, partition)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if found is None else found

    def end(self, id: str, producer: Producer, *, commit: bool, version: int, to: To) -> None:
        def attempt(fresh_id: int | None) -> None:
            now_ms = self.host.now_ms()
            self._act(
                id,
                to,
                lambda one: one.end(to, *producer, commit=commit, version=version, fresh_id=fresh_id, now_ms=now_ms),
            )

        self._attempt(attempt, to)

    def _act(self, id: str, to: To, act: Callable[[Transaction], list[Effect]]) -> None:
        shard = self.shards.of(id)
        if isinstance(shard, ErrorCode):
            to(Answer(to, shard))
            return
        transaction = shard.transactions.get(id)
        if transaction is None:
            to(Answer(to, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        else:
            shard.carry_out(transaction, act(transaction))

    def _attempt(self, attempt: Callable[[int | None], None], to: To) -> None:
        """Do it; where it takes a fresh producer id, do it with one."""
        try:
            attempt(None)
        except NeedsProducerId:
            fresh_id = self.host.controller.producer_ids.take()
            if fresh_id is not None:
                attempt(fresh_id)
                return
            task = self.host.loop.create_task(self._attempt_later(attempt, to))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _attempt_later(self, attempt: Callable[[int | None], None], to: To) -> None:
        try:
            fresh_id = await self.host.controller.producer_ids.wait()
        except StoreError as error:
            log.error("no producer id: %s", error)
            to(Answer(to, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            attempt(fresh_id)

    # -- looking -------------------------------------------------------------------------------------------------

    def find(self, id: str) -> Transaction | ErrorCode | None:
        shard = self.shards.of(id)
        return shard if isinstance(shard, ErrorCode) else shard.transactions.get(id)

    def transactions(self) -> Iterator[Transaction]:
        for shard in self.shards.ready():
            yield from shard.transactions.values()

    # -- housekeeping --------------------------------------------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Abort transactions that have been open for longer than their producers asked for."""
        now_ms = self.host.now_ms()
        for shard in list(self.shards.ready()):
            for transaction in list(shard.transactions.values()):
                if transaction.has_timed_out(now_ms):
                    log.info("%s: its transaction is aborted after %d ms", transaction.id, transaction.timeout_ms)
                    shard.carry_out(transaction, transaction.fence(now_ms))

    def forget_unused(self) -> None:
        """Forget ids that nobody has used for transactional.id.expiration.ms."""
        now_ms, expiration_ms = self.host.now_ms(), self.host.config.transactional_id_expiration_ms
        for shard in list(self.shards.ready()):
            for transaction in list(shard.transactions.values()):
                if transaction.is_forgotten(now_ms, expiration_ms):
                    del shard.transactions[transaction.id]
                    shard.carry_out(transaction, transaction.forget())
