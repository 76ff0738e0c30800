"""What a partition remembers of its producers, so that a retried batch is written once (KIP-98).

For each producer id: its epoch and the last five batches (first sequence, last sequence, first offset, timestamp).

    same epoch, a batch that is one of the five      duplicate: answered with its old offset
    same epoch, first sequence = last + 1            in order
    newer epoch, first sequence = 0                  in order
    nothing known of the producer                    in order, whatever its sequence (its state may have expired)
    same epoch, known only by a marker               in order if it begins with 0
    older epoch                                      INVALID_PRODUCER_EPOCH
    anything else                                    OUT_OF_ORDER_SEQUENCE_NUMBER

Sequences wrap from 2**31 - 1 to 0. A `<offset>.snapshot` beside the segments holds the state of all records below that
offset, in Kafka's format:

    version int16 = 1 | CRC-32C uint32 of the rest | count int32 | entries
    entry: producer id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32
           | timestamp int64 | coordinator epoch int32 | first offset of the open transaction int64

That is one batch of each producer; whoever loads a snapshot finds the others in the log, and has them recalled.

A transaction is open from its first batch to its marker. What lies behind the first batch of the oldest open one is not
decided: readers of committed records see what is below, the last stable offset. A marker counts when it is committed
itself. A marker may bring a newer epoch (KIP-890); then sequences begin anew.
"""

from __future__ import annotations

import struct
from collections import deque
from pathlib import Path
from typing import NamedTuple

from fastcrc import crc32

from ottla.storage.checkpoints import replace_file

REMEMBERED = 5

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


class InvalidProducerEpoch(Exception):
    """A batch of a producer that has been fenced by a newer one of the same id."""


class OutOfOrderSequence(Exception):
    """A batch before this one is missing."""


class CoordinatorFenced(Exception):
    """A marker from a coordinator that has been replaced."""


class CorruptSnapshot(ValueError):
    """A snapshot file that cannot be believed."""


class SnapshotEntry(NamedTuple):
    """What a snapshot says of one producer: the last batch of the five, if any (its offset is -1 else)."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_start: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & 0x7FFFFFFF


def read_snapshot(data: bytes) -> list[SnapshotEntry]:
    """The entries of a snapshot file; CorruptSnapshot when it is not wholly one."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes, a snapshot has at least {_HEAD.size}")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"format {version}, known is {_VERSION}")
    computed = crc32.iscsi(data[6:])
    if crc != computed:
        raise CorruptSnapshot(f"CRC {crc:#010x} in it, {computed:#010x} over its bytes")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} entries in {len(data)} bytes")
    return [SnapshotEntry._make(_ENTRY.unpack_from(data, at)) for at in range(_HEAD.size, len(data), _ENTRY.size)]


class ProducerState:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "timestamp", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[tuple[int, int, int, int]] = []  # first sequence, last sequence, first offset, timestamp
        self.timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_start = -1


class ProducerStates:
    __slots__ = ("_ended", "_states", "open")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.open: dict[int, ProducerState] = {}  # those with an open transaction, the oldest first
        self._ended: deque[tuple[int, int]] = deque()  # first and last offset of those whose markers may not count yet

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._states

    def items(self) -> list[tuple[int, ProducerState]]:
        return list(self._states.items())

    def check(self, producer_id: int, epoch: int, first: int, last: int) -> tuple[int, int] | None:
        """None when the batch may be appended; (first offset, timestamp) of the old one when it is a duplicate."""
        state = self._states.get(producer_id)
        if state is None:
            return None
        if epoch == state.epoch:
            batches = state.batches
            newest = batches[-1][1] if batches else -1
            if first == newest + 1 or (first == 0 and newest == 0x7FFFFFFF):
                return None
            for old_first, old_last, offset, timestamp in batches:
                if old_first == first and old_last == last:
                    return offset, timestamp
            raise OutOfOrderSequence(f"producer {producer_id}: sequence {first} after {newest}")
        if epoch < state.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id}: epoch {epoch}, the current one is {state.epoch}")
        if first != 0:
            raise OutOfOrderSequence(f"producer {producer_id}: sequence {first} at the start of epoch {epoch}")
        return None

    def appended(self, producer_id: int, epoch: int, first: int, last: int, offset: int, timestamp: int) -> None:
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches.clear()
        state.timestamp = timestamp
        if first < 0:
            return  # written by a coordinator, without sequence numbers
        batches = state.batches
        batches.append((first, last, offset, timestamp))
        if len(batches) > REMEMBERED:
            del batches[0]

    def begun(self, producer_id: int, offset: int) -> None:
        """A transactional batch was appended, after which `appended` was called."""
        if producer_id not in self.open:
            state = self.open[producer_id] = self._states[producer_id]
            state.transaction_start = offset

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        state = self._states.get(producer_id)
        if state is not None and epoch < state.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id}: epoch {epoch}, the current one is {state.epoch}")

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        self.check_epoch(producer_id, epoch)
        state = self._states.get(producer_id)
        if state is not None and coordinator_epoch < state.coordinator_epoch:
            raise CoordinatorFenced(
                f"producer {producer_id}: coordinator epoch {coordinator_epoch}, known is {state.coordinator_epoch}"
            )

    def marked(self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int) -> int | None:
        """A marker was appended at `offset`; returns where the transaction began, None when there was none."""
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif epoch > state.epoch:
            state.epoch = epoch
            state.batches.clear()
        state.coordinator_epoch = max(coordinator_epoch, state.coordinator_epoch)
        state.timestamp = timestamp
        if self.open.pop(producer_id, None) is None:
            return None
        first, state.transaction_start = state.transaction_start, -1
        self._ended.append((first, offset))
        return first

    def stable_below(self, high_watermark: int) -> int:
        """The last stable offset where the high watermark is this."""
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
        stable = min((first for first, _ in ended), default=high_watermark)
        for state in self.open.values():
            return min(stable, state.transaction_start, high_watermark)
        return min(stable, high_watermark)

    def recall(self, producer_id: int, epoch: int, first: int, last: int, offset: int, timestamp: int) -> None:
        """Put a batch before the last one of its producer, if that is all that is known of it. Oldest first."""
        state = self._states.get(producer_id)
        if state is None or state.epoch != epoch or not state.batches or offset >= state.batches[-1][2]:
            return
        state.batches.insert(len(state.batches) - 1, (first, last, offset, timestamp))
        if len(state.batches) > REMEMBERED:
            del state.batches[0]

    def expire(self, older_than: int) -> None:
        """Forget producers that wrote nothing since `older_than` (`producer.id.expiration.ms`)."""
        for producer_id, state in self.items():
            if state.timestamp < older_than and state.transaction_start < 0:
                del self._states[producer_id]

    def clear(self) -> None:
        self._states.clear()
        self.open.clear()
        self._ended.clear()

    # -- snapshots -----------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        entries = []
        for producer_id, state in self._states.items():
            first, last, offset, timestamp = state.batches[-1] if state.batches else (-1, -1, -1, state.timestamp)
            delta = (last - first) & 0x7FFFFFFF
            entries.append(
                _ENTRY.pack(
                    producer_id,
                    state.epoch,
                    last,
                    offset + delta if offset >= 0 else -1,
                    delta,
                    timestamp,
                    state.coordinator_epoch,
                    state.transaction_start,
                )
            )
        body = struct.pack(">i", len(entries)) + b"".join(entries)
        return struct.pack(">hI", _VERSION, crc32.iscsi(body)) + body

    def decode(self, data: bytes) -> None:
        entries = read_snapshot(data)
        self.clear()
        for entry in entries:
            state = self._states[entry.producer_id] = ProducerState(entry.epoch)
            state.timestamp = entry.timestamp
            state.coordinator_epoch = entry.coordinator_epoch
            state.transaction_start = entry.transaction_start
            if entry.last_sequence >= 0:
                state.batches.append(
                    (entry.first_sequence, entry.last_sequence, entry.last_offset - entry.offset_delta, entry.timestamp)
                )
        for entry in sorted(entries, key=lambda entry: entry.transaction_start):
            if entry.transaction_start >= 0:
                self.open[entry.producer_id] = self._states[entry.producer_id]

    def save(self, path: Path) -> None:
        replace_file(path, self.encode(), sync=False)
