"""Markers: the records that end a transaction in each partition it wrote to.

Written to partitions that this broker leads, whoever asks: its own coordinator, another broker's, or an administrator
who ends a transaction that hangs (WriteTxnMarkers). A marker in __consumer_offsets also decides what becomes of the
offsets that were committed in the transaction; `ended` tells whoever holds them.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinators.host import Host
from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import Partition
from ottla.replication.refused import Refused

Ended = Callable[[Partition, int, bool], None]  # the partition, the producer id, whether it is committed


class Markers:
    __slots__ = ("_ended", "_host")

    def __init__(self, host: Host, ended: Ended) -> None:
        self._host = host
        self._ended = ended

    def write(
        self,
        topic: str,
        index: int,
        producer: tuple[int, int],
        coordinator_epoch: int,
        *,
        commit: bool,
        then: Callable[[ErrorCode], None],
    ) -> None:
        """End the transaction of a producer (id and epoch) in a partition. `then` is called when that is committed, or
        cannot be."""
        partition = self._host.partition(topic, index)
        if partition is None:
            then(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        try:
            end = partition.end_transaction(*producer, coordinator_epoch, commit=commit, now_ms=self._host.now_ms())
        except Refused as refusal:
            then(refusal.code)
            return

        def settled(refusal: Refused | None) -> None:
            if refusal is None:
                self._ended(partition, producer[0], commit)
            then(refusal.code if refusal else ErrorCode.NONE)

        if partition.commit is None:
            settled(None)
        else:
            partition.commit.when_committed(end, settled)
