"""One transactional id: its producer, its transaction, and what requests do to them. Pure: time in, effects out.

Only the newest producer of an id may act. Each is known by producer id and epoch; a newer epoch fences the older.

    who asks with                                       gets
    another producer id                                 INVALID_PRODUCER_ID_MAPPING
    another epoch                                       PRODUCER_FENCED
    while markers are being written                     CONCURRENT_TRANSACTIONS, and tries again
    commit or abort where there is no transaction       INVALID_TXN_STATE

Two ways to end a transaction:

- version 1: the epoch stays, and a producer's late batch may end up in its next transaction if nobody checks.
- version 2 (KIP-890; EndTxn 5): the epoch grows by one with every end, the markers carry the new one, and what comes
  late is fenced. The same request again finds the epoch one higher and is answered as before. An abort is taken even
  where no partition was added, since the producer cannot know whether one was.

When epochs run out (32,766 is the last one that a producer gets), a new producer id takes over. A producer that comes
anew while a transaction is open has it aborted: the epoch is raised first, so that its predecessor can do nothing more.

State changes at once and is never taken back; the driver answers when the record is committed, and reads everything
back from the log where it cannot be.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import TransactionLogValue
from ottla.transactions import records
from ottla.transactions.states import (
    AT_REST,
    BEING_ENDED,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    FROM,
    IN_LOG,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    State,
)

NO_PRODUCER_ID = NO_EPOCH = -1
LAST_EPOCH = 32_766  # of a producer; one more is left for fencing it
BUMPS_EPOCH = 2  # the version of transactions that does so at every end

TopicPartition: TypeAlias = tuple[str, int]


class Answer(NamedTuple):
    """What a request gets, when the records of the same list are committed."""

    to: Any
    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


class Write(NamedTuple):
    """A record for the id's partition of __transaction_state; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class Mark(NamedTuple):
    """Write markers to these partitions once the records of the same list are committed; then call `completed`."""

    producer_id: int
    epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]


Effect: TypeAlias = Answer | Write | Mark


class NeedsProducerId(Exception):
    """To be asked again with a fresh producer id; nothing was changed."""


class Transaction:
    __slots__ = (
        "client_version",
        "epoch",
        "id",
        "key",
        "last_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer_id",
        "started_at",
        "state",
        "timeout_ms",
        "updated_at",
    )

    def __init__(self, id: str, producer_id: int, timeout_ms: int, now_ms: int) -> None:
        self.id = id
        self.key = records.key_of(id)
        self.producer_id = producer_id
        self.previous_producer_id = NO_PRODUCER_ID
        self.next_producer_id = NO_PRODUCER_ID  # that takes over when the markers are written
        self.epoch = NO_EPOCH
        self.last_epoch = NO_EPOCH  # the one before, while its producer may still ask again
        self.timeout_ms = timeout_ms
        self.state: State = EMPTY
        self.partitions: set[TopicPartition] = set()
        self.started_at = -1
        self.updated_at = now_ms
        self.client_version = 0

    # -- requests ------------------------------------------------------------------------------------------------

    def init(
        self, to: Any, timeout_ms: int, expected: tuple[int, int] | None, fresh_id: int | None, now_ms: int
    ) -> list[Effect]:
        """InitProducerId. `expected`: the producer id and epoch that the producer had (KIP-360)."""
        if expected is not None and not self._may_continue(*expected):
            return [Answer(to, ErrorCode.PRODUCER_FENCED)]
        if self.state in BEING_ENDED:
            return [Answer(to, ErrorCode.CONCURRENT_TRANSACTIONS)]
        if self.state is ONGOING:
            if expected is not None and expected[1] not in (self.epoch, self.last_epoch):
                return [Answer(to, ErrorCode.PRODUCER_FENCED)]
            return [*self.fence(now_ms, by_itself=expected is not None), Answer(to, ErrorCode.CONCURRENT_TRANSACTIONS)]
        newest = (self.epoch, self.last_epoch) if self.epoch > LAST_EPOCH else (self.epoch,)
        if self.epoch >= LAST_EPOCH and (expected is None or expected[1] in newest):
            if fresh_id is None:
                raise NeedsProducerId
            self.last_epoch = self.epoch if expected else NO_EPOCH
            self.previous_producer_id, self.producer_id, self.epoch = self.producer_id, fresh_id, 0
        elif expected is None:
            self.last_epoch, self.epoch = NO_EPOCH, self.epoch + 1
        elif self.epoch == NO_EPOCH or expected[1] == self.epoch:
            self.last_epoch, self.epoch = self.epoch, self.epoch + 1
        elif expected[1] != self.last_epoch:  # if it is, the answer was lost, and is given again
            return [Answer(to, ErrorCode.PRODUCER_FENCED)]
        self.timeout_ms = timeout_ms
        self.started_at = -1
        self._go_to(EMPTY, now_ms)
        return [self._write(), Answer(to, ErrorCode.NONE, self.producer_id, self.epoch)]

    def _may_continue(self, producer_id: int, epoch: int) -> bool:
        return (
            self.epoch == NO_EPOCH
            or producer_id == self.producer_id
            or (producer_id == self.previous_producer_id and epoch >= LAST_EPOCH)
        )

    def add(
        self, to: Any, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], now_ms: int
    ) -> list[Effect]:
        """Partitions that the transaction writes to; the first begins it."""
        code = self._check(producer_id, epoch)
        if code or (self.state is ONGOING and partitions <= self.partitions):
            return [Answer(to, code)]
        if self.state is not ONGOING:
            self.started_at = now_ms
        self.partitions |= partitions
        self._go_to(ONGOING, now_ms)
        return [self._write(), Answer(to, ErrorCode.NONE)]

    def verify(self, producer_id: int, epoch: int, partition: TopicPartition) -> ErrorCode:
        """Whether the producer may write to a partition now, without adding it."""
        code = self._check(producer_id, epoch)
        if code or (self.state is ONGOING and partition in self.partitions):
            return code
        return ErrorCode.TRANSACTION_ABORTABLE

    def _check(self, producer_id: int, epoch: int) -> ErrorCode:
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.state in BEING_ENDED else ErrorCode.NONE

    def end(
        self, to: Any, producer_id: int, epoch: int, *, commit: bool, version: int, fresh_id: int | None, now_ms: int
    ) -> list[Effect]:
        """EndTxn, by a client of that version of transactions."""
        again = version >= BUMPS_EPOCH and self._is_again(producer_id, epoch)
        if producer_id != self.producer_id and not again:
            return [Answer(to, ErrorCode.INVALID_PRODUCER_ID_MAPPING)]
        if epoch != self.epoch and not again:
            return [Answer(to, ErrorCode.PRODUCER_FENCED)]
        if self.state is ONGOING:
            return self._end(to, commit, version, fresh_id, now_ms)
        if self.state in BEING_ENDED:
            return [Answer(to, ErrorCode.CONCURRENT_TRANSACTIONS)]  # it may even be the end of the next one
        if self.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT) and (again or version < BUMPS_EPOCH):
            return [Answer(to, ErrorCode.NONE, self.producer_id, self.epoch)]
        if commit or again or version < BUMPS_EPOCH:
            return [Answer(to, ErrorCode.INVALID_TXN_STATE)]
        return self._abort_nothing(to, version, fresh_id, now_ms)

    def _is_again(self, producer_id: int, epoch: int) -> bool:
        """Whether a request to end comes again whose end has raised the epoch already."""
        if self.client_version < BUMPS_EPOCH or self.state is ONGOING or self.state is EMPTY:
            return False
        if producer_id == self.producer_id and epoch == self.epoch - 1:
            return True
        return producer_id == self.previous_producer_id and epoch == LAST_EPOCH and self.epoch == 0

    def _end(self, to: Any, commit: bool, version: int, fresh_id: int | None, now_ms: int) -> list[Effect]:
        if version >= BUMPS_EPOCH:
            self._bump(fresh_id)
        self.client_version = version
        self._go_to(PREPARE_COMMIT if commit else PREPARE_ABORT, now_ms)
        taking_over = self.next_producer_id != NO_PRODUCER_ID
        told = (self.next_producer_id, 0) if taking_over else (self.producer_id, self.epoch)
        return [self._write(), self.markers(), Answer(to, ErrorCode.NONE, *told)]

    def _bump(self, fresh_id: int | None) -> None:
        if self.epoch >= LAST_EPOCH:
            if fresh_id is None:
                raise NeedsProducerId
            self.next_producer_id = fresh_id
        self.last_epoch, self.epoch = self.epoch, self.epoch + 1

    def _abort_nothing(self, to: Any, version: int, fresh_id: int | None, now_ms: int) -> list[Effect]:
        self._bump(fresh_id)
        self.client_version = version
        self.started_at = now_ms
        self._take_over()
        self._go_to(COMPLETE_ABORT, now_ms)
        return [self._write(), Answer(to, ErrorCode.NONE, self.producer_id, self.epoch)]

    # -- without being asked -------------------------------------------------------------------------------------

    def fence(self, now_ms: int, *, by_itself: bool = False) -> list[Effect]:
        """Abort the transaction, and let its producer do nothing more; if it has asked for that, it may come again."""
        self.epoch, self.last_epoch = self.epoch + 1, self.epoch if by_itself else NO_EPOCH
        self.client_version = 0
        self._go_to(PREPARE_ABORT, now_ms)
        return [self._write(), self.markers()]

    def markers(self) -> Mark:
        """What is to be written to the partitions of a transaction that is being ended."""
        return Mark(self.producer_id, self.epoch, self.state is PREPARE_COMMIT, frozenset(self.partitions))

    def completed(self, now_ms: int) -> list[Effect]:
        """All markers are written."""
        self._take_over()
        self._go_to(COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT, now_ms)
        return [self._write()]

    def _take_over(self) -> None:
        if self.next_producer_id != NO_PRODUCER_ID:
            self.previous_producer_id, self.producer_id = self.producer_id, self.next_producer_id
            self.next_producer_id, self.epoch = NO_PRODUCER_ID, 0

    def has_timed_out(self, now_ms: int) -> bool:
        return self.state is ONGOING and now_ms > self.started_at + self.timeout_ms

    def is_forgotten(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state in AT_REST and now_ms > self.updated_at + expiration_ms

    def forget(self) -> list[Effect]:
        """For its age: nobody has used the id for long."""
        self.state = DEAD
        return [Write(self.key, None)]

    def _go_to(self, state: State, now_ms: int) -> None:
        assert state in FROM[self.state], f"{self.id}: {self.state.title} to {state.title}"
        self.state = state
        self.updated_at = max(now_ms, self.updated_at)
        if state in AT_REST:
            self.partitions = set()

    # -- the log -------------------------------------------------------------------------------------------------

    def _write(self) -> Write:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(self.partitions):
            by_topic.setdefault(topic, []).append(index)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None
            if self.state is EMPTY
            else [
                TransactionLogValue.Partitions(topic=topic, partition_ids=indexes)
                for topic, indexes in by_topic.items()
            ],
            transaction_last_update_timestamp_ms=self.updated_at,
            transaction_start_timestamp_ms=self.started_at,
            client_transaction_version=self.client_version,
        )
        return Write(self.key, records.value_of(value))

    @classmethod
    def restored(cls, id: str, value: TransactionLogValue) -> Transaction:
        """As its last record says; ValueError where that makes no sense."""
        if value.transaction_status not in IN_LOG:
            raise ValueError(f"{id}: state {value.transaction_status}")
        one = cls(id, value.producer_id, value.transaction_timeout_ms, value.transaction_last_update_timestamp_ms)
        one.previous_producer_id = value.previous_producer_id
        one.next_producer_id = value.next_producer_id
        one.epoch = value.producer_epoch
        one.state = IN_LOG[value.transaction_status]
        one.partitions = {
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        }
        one.started_at = value.transaction_start_timestamp_ms
        one.client_version = value.client_transaction_version
        return one
