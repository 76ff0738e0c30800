"""Reading a partition of an internal topic back, in slices that leave the event loop to others.

First the log is read to its end, and of each key only the last record is kept, as it stands: that is what compaction
leaves too, so its order does not matter beyond that. Then these few are decoded. Offsets of a transaction count from
its commit marker on, where their key has not got a later record meanwhile; those of open transactions are held back.

Records of kinds that are not known are passed over. One that cannot be read is too, with a warning: a bad record must
not keep all groups of its partition from being served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from time import perf_counter

from ottla.protocol.batch import check
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records import COMMIT, control_type, iter_batches, iter_records
from ottla.replication.partition import PAYLOAD_LIMIT, Partition
from ottla.storage.errors import StorageError
from ottla.storage.file import FileSlice

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.002
READ_BYTES = 32 * 1024


class Unreadable(Exception):
    """The log cannot be read to its end."""


class Survivors:
    """The last record of each key, and what is held back, by producer: key -> (offset, value)."""

    __slots__ = ("_open", "records")

    def __init__(self) -> None:
        self.records: dict[bytes, tuple[int, bytes]] = {}
        self._open: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}

    def take(self, batch: memoryview) -> None:
        header = check(batch)
        for record in iter_records(batch, PAYLOAD_LIMIT):
            if header.is_control:
                self._end(header.producer_id, control_type(record.key) == COMMIT)
            elif record.key is None:
                continue
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, {})[record.key] = (record.offset, record.value)
            else:
                self._put(record.key, record.offset, record.value)
                for held in self._open.values():
                    held.pop(record.key, None)

    def _end(self, producer_id: int, committed: bool) -> None:
        held = self._open.pop(producer_id, {})
        if committed:
            for key, (offset, value) in held.items():
                known = self.records.get(key)
                if known is None or known[0] < offset:
                    self._put(key, offset, value)

    def _put(self, key: bytes, offset: int, value: bytes | None) -> None:
        self.records.pop(key, None)  # so that they stand in the order of their last writing
        if value is not None:
            self.records[key] = (offset, value)

    def held_back(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Producer id, key and value, in the order of the log."""
        found = []
        for producer_id, held in self._open.items():
            found += [(offset, producer_id, key, value) for key, (offset, value) in held.items() if value is not None]
        for _, producer_id, key, value in sorted(found):
            yield producer_id, key, value


class Turns:
    """Gives the loop to others whenever a slice of time is used up."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = perf_counter()

    async def pause(self) -> None:
        if perf_counter() - self._since > SLICE_SECONDS:
            await asyncio.sleep(0)
            self._since = perf_counter()


async def read_back(partition: Partition, turns: Turns) -> Survivors:
    """What the log says, up to the high watermark. Raises Unreadable."""
    survivors, log_, where = Survivors(), partition.log, f"{partition.topic}-{partition.index}"
    offset = log_.start_offset
    try:
        while offset < partition.high_watermark:
            data, length = log_.read(offset, READ_BYTES, partition.high_watermark, True)
            if not length or data is None:
                break
            view = memoryview(_bytes(data))
            at = offset
            for position, header in iter_batches(view, partial=True):
                try:
                    survivors.take(view[position:])
                except ProtocolError as error:
                    raise Unreadable(f"{where}: the batch at offset {header.base_offset}: {error}") from None
                at = header.next_offset
                await turns.pause()
            if at <= offset:
                raise Unreadable(f"{where}: nothing can be read at offset {offset}")
            offset = at
    except (StorageError, ProtocolError, OSError) as error:
        raise Unreadable(f"{where}: {error}") from None
    return survivors


def _bytes(data: bytes | FileSlice) -> bytes:
    if not isinstance(data, FileSlice):
        return data
    try:
        parts = []
        while part := data.read(1 << 30):
            parts.append(part)
        return b"".join(parts)
    finally:
        data.close()
