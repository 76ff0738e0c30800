"""A partition of an internal topic as a coordinator writes to it: many small records, and answers that wait for them.

What is put in during one turn of the event loop goes into one append, and the answers follow when it is committed. With
many clients, that is what keeps a small write cheap. When an append is refused, memory is ahead of the log: the owner
is told, fails those who wait and reads its state back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from ottla.coordinators.host import Host
from ottla.protocol.records import Record, build_batch
from ottla.replication.partition import Partition
from ottla.replication.refused import Refused

BATCH_BYTES = 256 * 1024
RECORD_OVERHEAD, BATCH_OVERHEAD = 30, 100  # at most, beside key and value

A = TypeVar("A")
KeyValue = tuple[bytes, bytes | None]


class Journal(Generic[A]):
    """`A`: what the owner wants back when a write is committed.

    `answer` gets them then. `late` gets them when that takes too long; what it leaves in the list is due all the same
    when it is committed. `refused` gets all that wait, and why.
    """

    __slots__ = (
        "_answer",
        "_answers",
        "_codec",
        "_host",
        "_late",
        "_refused",
        "_scheduled",
        "_timeout_ms",
        "_writes",
        "partition",
    )

    def __init__(
        self,
        host: Host,
        partition: Partition,
        *,
        answer: Callable[[list[A]], None],
        late: Callable[[list[A]], None],
        refused: Callable[[list[A], Refused], None],
        codec: Callable[[], int],
        timeout_ms: Callable[[], int],
    ) -> None:
        self.partition = partition
        self._host = host
        self._answer = answer
        self._late = late
        self._refused = refused
        self._codec = codec
        self._timeout_ms = timeout_ms
        self._writes: list[KeyValue] = []
        self._answers: list[A] = []
        self._scheduled = False

    @property
    def largest_record(self) -> int:
        """Bytes of key and value that one record may have."""
        config = self.partition.config
        return min(config.max_message_bytes, config.segment_bytes) - RECORD_OVERHEAD - BATCH_OVERHEAD

    def put(self, writes: Iterable[KeyValue], answers: Iterable[A]) -> None:
        """Write these, before long; then the answers are due."""
        self._writes += writes
        self._answers += answers
        if not self._scheduled:
            self._scheduled = True
            self._host.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what has come together."""
        self._scheduled = False
        writes, answers = self._writes, self._answers
        self._writes, self._answers = [], []
        self.append(writes, answers)

    def append(self, writes: list[KeyValue], answers: list[A], producer: tuple[int, int] | None = None) -> None:
        """Write these now; with a producer id and epoch, as part of that producer's transaction."""
        if not writes:
            self._answer(answers)
            return
        partition, now_ms = self.partition, self._host.now_ms()
        try:
            for batch in self._batches(writes, now_ms, producer):
                partition.append(memoryview(batch), now_ms, all_replicas=True, zstd=True, by_broker=True)
        except Refused as refusal:
            self._refused(answers, refusal)
            return
        self.answer_later(answers)

    def answer_later(self, answers: list[A]) -> None:
        """The answers are due when all that was written so far is committed: now, as a rule."""
        partition, end = self.partition, self.partition.log.end_offset
        if partition.commit is None or partition.high_watermark >= end:
            self._answer(answers)
        else:
            self._wait(answers, end)

    def _batches(self, writes: list[KeyValue], now_ms: int, producer: tuple[int, int] | None) -> Iterator[bytearray]:
        limit = min(BATCH_BYTES, self.largest_record)
        codec = self._codec()
        records: list[Record] = []
        size = 0
        for key, value in writes:
            length = len(key) + RECORD_OVERHEAD + (len(value) if value is not None else 0)
            if size + length > limit and records:
                yield self._batch(records, codec, producer)
                records, size = [], 0
            records.append(Record(len(records), now_ms, key, value))
            size += length
        yield self._batch(records, codec, producer)

    def _batch(self, records: list[Record], codec: int, producer: tuple[int, int] | None) -> bytearray:
        if producer is None:
            return build_batch(records, codec=codec)
        return build_batch(
            records, codec=codec, producer_id=producer[0], producer_epoch=producer[1], transactional=True
        )

    def _wait(self, answers: list[A], end: int) -> None:
        commit = self.partition.commit
        assert commit is not None

        def is_late() -> None:
            self._late(answers)

        timer = self._host.loop.call_later(self._timeout_ms() / 1000, is_late)

        def settled(refusal: Refused | None) -> None:
            timer.cancel()
            if refusal is None:
                self._answer(answers)
            else:
                self._refused(answers, refusal)

        commit.when_committed(end, settled)

    def drop(self) -> list[A]:
        """Forget what is not written yet; returns who waits for it."""
        answers, self._writes, self._answers = self._answers, [], []
        return answers
