"""What a producer's transaction must be asked before its batches are appended (KIP-890).

A batch may be written if its partition has the transaction open already, with the same epoch: then nobody is asked.
Otherwise the coordinator is:

- Produce 12 and later (version 2 of transactions): the partition is added to the transaction, and begins it perhaps.
- before that: the partition must be in it already, else a batch that comes late would open a transaction that nobody
  ends. INVALID_TXN_STATE tells so, TRANSACTION_ABORTABLE in version 11.

A batch that had to wait since then (for a thread that looks through its records) is asked for again: its transaction
may be over.

What the coordinator says is told in words that producers of all ages understand and try again where that helps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.handlers.produce_wire import TOPIC_IDS, Topics
from ottla.protocol.batch import HEADER, HEADER_SIZE, TRANSACTIONAL
from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import Partition
from ottla.transactions.transaction import Answer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.protocol.codec import Buffer

ABORTABLE, VERSION_2 = 11, 12  # versions that brought them

Place: TypeAlias = tuple[bytes, int]

_NOT_NOW = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Verdicts:
    """`refused`: partitions that may not be written to, and why; the others may."""

    __slots__ = ("_broker", "_id", "_version", "refused")

    def __init__(self, broker: Broker, id: str, version: int) -> None:
        self._broker = broker
        self._id = id
        self._version = version
        self.refused: dict[Place, ErrorCode] = {}

    def refuse(self, place: Place, code: ErrorCode) -> None:
        self.refused[place] = _told(code, self._version)

    def later(self, partition: Partition, batch: Buffer) -> ErrorCode:
        """Whether a batch may still be written that had to wait."""
        producer = _producer_of(partition, batch)
        if producer is None:
            return ErrorCode.NONE
        code = self._broker.transactions.verify(self._id, producer, (partition.topic, partition.index))
        return _told(code, self._version)


def ask_coordinator(
    broker: Broker, transactional_id: bytes, topics: Topics, version: int, then: Callable[[Verdicts], None]
) -> None:
    """Call `then` with the verdicts, at once or later."""
    id = transactional_id.decode(errors="replace")
    verdicts = Verdicts(broker, id, version)
    asked = _to_ask_about(broker, topics, version)
    if not asked:
        then(verdicts)
        return
    if version < VERSION_2:
        for producer, partitions in asked.items():
            for place, partition in partitions:
                code = broker.transactions.verify(id, producer, (partition.topic, partition.index))
                if code:
                    verdicts.refuse(place, code)
        then(verdicts)
        return
    left = len(asked)

    def answered(places: list[Place], answer: Answer) -> None:
        nonlocal left
        left -= 1
        if answer.code:
            for place in places:
                verdicts.refuse(place, answer.code)
        if not left:
            then(verdicts)

    for producer, partitions in asked.items():
        places = [place for place, _ in partitions]
        broker.transactions.add(
            id,
            producer,
            [(partition.topic, partition.index) for _, partition in partitions],
            lambda answer, places=places: answered(places, answer),  # type: ignore[misc]
        )


def _to_ask_about(broker: Broker, topics: Topics, version: int) -> dict[tuple[int, int], list[tuple[Place, Partition]]]:
    """Partitions with transactional batches whose transaction is not open there, by producer id and epoch."""
    known = broker.replicas.by_id if version >= TOPIC_IDS else broker.replicas.by_name
    asked: dict[tuple[int, int], list[tuple[Place, Partition]]] = {}
    for topic, batches in topics:
        partitions = known.get(topic)
        for index, records in batches:
            if partitions is None or not 0 <= index < len(partitions) or partitions[index].is_internal:
                continue
            producer = None if records is None else _producer_of(partitions[index], records)
            if producer is not None:
                asked.setdefault(producer, []).append(((topic, index), partitions[index]))
    return asked


def _producer_of(partition: Partition, batch: Buffer) -> tuple[int, int] | None:
    """Id and epoch of a transactional batch whose transaction is not open in the partition; None for others."""
    if len(batch) < HEADER_SIZE:
        return None
    header = HEADER.unpack_from(batch)
    attributes, producer_id, epoch = header[5], header[9], header[10]
    if not attributes & TRANSACTIONAL:
        return None
    state = partition.log.producers.open.get(producer_id)
    return None if state is not None and state.epoch == epoch else (producer_id, epoch)


def _told(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code in _NOT_NOW or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < VERSION_2):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
