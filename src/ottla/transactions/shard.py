"""One partition of __transaction_state on the broker that leads it: its transactional ids, and their way to the log.

A transaction that is to be ended: the decision is written; when it is committed, markers go to all partitions; when
they are there, that is written too. Where all of it happens on this broker, it is done before the client is answered,
so that its next transaction finds nothing in its way. Markers that cannot be written are tried again until they can be,
or the partition is gone; after a restart whatever was decided is carried on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.controller.names import TRANSACTION_STATE
from ottla.coordinators import shards
from ottla.coordinators.journal import Journal
from ottla.coordinators.loading import Survivors, Turns
from ottla.protocol.compression import NONE
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.replication.partition import Partition
from ottla.replication.refused import Refused
from ottla.transactions import records
from ottla.transactions.states import BEING_ENDED
from ottla.transactions.transaction import Answer, Effect, Mark, TopicPartition, Transaction, Write

if TYPE_CHECKING:
    from ottla.transactions.coordinator import Coordinator

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0

# what a marker's way ends with that need not or cannot be gone again
OVER = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # deleted
    ErrorCode.INVALID_PRODUCER_EPOCH,  # a newer producer of the id has been there: it is ended
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,  # another coordinator has taken over
)


# what producers are told when a record is refused; the rest is COORDINATOR_NOT_AVAILABLE, and they try again
TOLD = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,  # of very many partitions
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Due(NamedTuple):
    """What follows when records are committed."""

    transaction: Transaction
    mark: Mark | None
    answers: list[Answer]


class Shard(shards.Shard):
    __slots__ = ("_coordinator", "journal", "transactions")

    def __init__(self, coordinator: Coordinator, partition: Partition) -> None:
        super().__init__(partition)
        self._coordinator = coordinator
        self.transactions: dict[str, Transaction] = {}
        host = coordinator.host
        self.journal: Journal[Due] = Journal(
            host,
            partition,
            answer=self._committed,
            late=partial(_fail, code=ErrorCode.COORDINATOR_NOT_AVAILABLE),  # markers follow even so
            refused=self._refused,
            codec=lambda: NONE,
            timeout_ms=lambda: host.config.offsets_commit_timeout_ms,
        )

    # -- effects -------------------------------------------------------------------------------------------------

    def carry_out(self, transaction: Transaction, effects: Iterable[Effect]) -> None:
        """Do what a transaction wants done, now: what follows need not wait for others' records."""
        writes: list[Write] = []
        answers: list[Answer] = []
        mark = None
        for effect in effects:
            if isinstance(effect, Write):
                writes.append(effect)
            elif isinstance(effect, Mark):
                mark = effect
            else:
                answers.append(effect)
        due = [Due(transaction, mark, answers)]
        if writes:
            self.journal.append(list(writes), due)
        else:
            self.journal.answer_later(due)  # it tells of a state whose record may be on its way

    def _committed(self, due: list[Due]) -> None:
        for transaction, mark, answers in due:
            if mark is None:
                _answer(answers)
            else:
                self._mark(transaction, mark, answers)

    def _mark(self, transaction: Transaction, mark: Mark, answers: list[Answer]) -> None:
        """Write the markers. The answers wait for them if that takes no time."""
        waiting = list(answers)

        def completed() -> None:
            if self._holds(transaction) and transaction.state in BEING_ENDED:
                now = self._coordinator.host.now_ms()
                self.carry_out(transaction, [*transaction.completed(now), *waiting])
            else:
                _answer(waiting)
            waiting.clear()

        left = set(mark.partitions)
        self._write_markers(transaction, mark, left, completed)
        if left:
            _answer(waiting)
            waiting.clear()

    def _write_markers(
        self, transaction: Transaction, mark: Mark, left: set[TopicPartition], completed: Callable[[], None]
    ) -> None:
        """Write those that are `left`; each is taken out when it is there, and `completed` called after the last."""
        if not left:
            completed()
            return
        failed: list[TopicPartition] = []
        under_way = len(left)

        def then(partition: TopicPartition, code: ErrorCode) -> None:
            nonlocal under_way
            under_way -= 1
            if code in OVER:
                left.discard(partition)
            else:
                failed.append(partition)
                log.warning("%s: the marker for %s-%d will be tried again: %s", transaction.id, *partition, code.name)
            if not left:
                completed()
            elif not under_way:
                again = partial(self._again, transaction, mark, left, completed)
                self._coordinator.host.loop.call_later(AGAIN_SECONDS, again)

        for one in sorted(left):
            self._coordinator.markers.write(
                *one,
                (mark.producer_id, mark.epoch),
                self.partition.leader_epoch,
                commit=mark.commit,
                then=partial(then, one),
            )

    def _again(
        self, transaction: Transaction, mark: Mark, left: set[TopicPartition], completed: Callable[[], None]
    ) -> None:
        if self._holds(transaction):
            self._write_markers(transaction, mark, left, completed)

    def _holds(self, transaction: Transaction) -> bool:
        return self.state == shards.READY and self.transactions.get(transaction.id) is transaction

    def _refused(self, due: list[Due], refusal: Refused) -> None:
        log.warning("%s-%d: transactions cannot be written: %s", TRANSACTION_STATE, self.index, refusal.message)
        self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        _fail(due, TOLD.get(refusal.code, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self._coordinator.shards.load(self)

    def unload(self, code: ErrorCode) -> None:
        self.state = shards.FAILED
        self.transactions = {}
        _fail(self.journal.drop(), code)

    # -- loading -------------------------------------------------------------------------------------------------

    async def restore(self, survivors: Survivors, turns: Turns) -> None:
        for key, (_, value) in survivors.records.items():
            try:
                id = records.read_key(key)
                self.transactions[id] = Transaction.restored(id, records.read_value(value))
            except (ProtocolError, ValueError) as error:
                log.warning("%s-%d: passing over a record: %s", TRANSACTION_STATE, self.index, error)
            await turns.pause()

    def begin(self) -> None:
        for transaction in list(self.transactions.values()):
            if transaction.state in BEING_ENDED:
                self._mark(transaction, transaction.markers(), [])


def _answer(answers: Iterable[Answer]) -> None:
    for answer in answers:
        if answer.to is not None:
            answer.to(answer)


def _fail(due: list[Due], code: ErrorCode) -> None:
    """Answer all with an error. They are not answered again."""
    for one in due:
        answers = one.answers.copy()
        one.answers.clear()
        _answer(Answer(answer.to, code) for answer in answers)
