"""What compaction must know of transactions: which batches were aborted, and which markers still have data (KIP-98).

A batch of an aborted transaction goes, whatever its keys. The marker that ends a transaction stays until no batch of it
is left, and then until its own delete horizon, so that readers who have seen the data learn how it ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from ottla.protocol.batch import BatchHeader
from ottla.protocol.records import ABORT, COMMIT
from ottla.storage.transactions import AbortedTransaction


class CleanedTransactions:
    """Follows the transactions of a log, batch by batch in order."""

    __slots__ = ("_aborted", "_committed", "_open", "_seen", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = list(aborted)  # still to come, a heap by first offset
        heapify(self._aborted)
        self._open: dict[int, AbortedTransaction] = {}  # aborted ones under way, by producer
        self._seen: set[int] = set()  # producers whose open one had a batch
        self._committed: set[int] = set()  # producers that wrote batches which no marker has ended so far
        self.kept: list[AbortedTransaction] = []  # whose markers stay

    def drops(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._open:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_over(self, header: BatchHeader, control: int | None) -> bool:
        """Whether no batch is left of the transaction that this marker ends; None: the marker is empty already."""
        self._advance(header.last_offset)
        producer_id = header.producer_id
        if control is None:
            return True
        if control == COMMIT:
            had_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_batches
        if control == ABORT:
            transaction = self._open.pop(producer_id, None)
            if transaction is None or producer_id not in self._seen:
                return True
            self._seen.discard(producer_id)
            self.kept.append(transaction)
            return False
        return False

    def _advance(self, offset: int) -> None:
        while self._aborted and self._aborted[0].first_offset <= offset:
            transaction = heappop(self._aborted)
            self._open.setdefault(transaction.producer_id, transaction)
