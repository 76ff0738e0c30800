"""What a producer's transaction must be asked before its batches are appended (KIP-890).

A batch may be written if its partition has the transaction open already, with the same epoch: then nobody is asked.
Otherwise the coordinator is:

- Produce 12 and later (version 2 of transactions): the partition is added to the transaction, and begins it perhaps.
- before that: the partition must be in it already, else a batch that comes late would open a transaction that nobody
  ends. INVALID_TXN_STATE tells so, TRANSACTION_ABORTABLE in version 11.

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

ABORTABLE, VERSION_2 = 11, 12  # versions that brought them

# Partitions that may not be written to, and why; those that are not in it may.
Verdicts: TypeAlias = dict[tuple[bytes, int], ErrorCode]
Place: TypeAlias = tuple[bytes, int]

_TRY_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def ask_coordinator(
    broker: Broker, transactional_id: bytes, topics: Topics, version: int, then: Callable[[Verdicts], None]
) -> None:
    """Call `then` with the verdicts, at once or later."""
    asked = _to_ask_about(broker, topics, version)
    if not asked:
        then({})
        return
    id = transactional_id.decode(errors="replace")
    verdicts: Verdicts = {}
    if version < VERSION_2:
        for producer, partitions in asked.items():
            for place, partition in partitions:
                code = broker.transactions.verify(id, producer, (partition.topic, partition.index))
                if code:
                    verdicts[place] = _told(code, version)
        then(verdicts)
        return
    left = len(asked)

    def answered(places: list[Place], answer: Answer) -> None:
        nonlocal left
        left -= 1
        if answer.code:
            verdicts.update(dict.fromkeys(places, _told(answer.code, version)))
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
            if records is None or len(records) < HEADER_SIZE:
                continue
            header = HEADER.unpack_from(records)
            attributes, producer_id, epoch = header[5], header[9], header[10]
            if not attributes & TRANSACTIONAL:
                continue
            state = partitions[index].log.producers.open.get(producer_id)
            if state is None or state.epoch != epoch:
                asked.setdefault((producer_id, epoch), []).append(((topic, index), partitions[index]))
    return asked


def _told(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code in _TRY_AGAIN and version < VERSION_2:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
