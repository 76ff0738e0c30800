"""Batches that clients cannot write: the markers of a transaction coordinator, and what compaction leaves."""

from __future__ import annotations

from typing import Any

from ottla.protocol.batch import HEADER, read_header, seal
from ottla.protocol.records import COMMIT, control_batch
from support.requests import batch


def write_marker(served: Any, topic: str) -> None:
    """Write a marker to partition 0."""
    _write(served, topic, control_batch(COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=5))


def write_remains(served: Any, topic: str, offsets: int) -> None:
    """Write what compaction leaves of a batch when it keeps the producer's state only: no record, `offsets` offsets."""
    data = bytearray(batch("x")[:61])
    header = read_header(data)._replace(batch_length=49, record_count=0, last_offset_delta=offsets - 1)
    HEADER.pack_into(data, 0, *header)
    seal(data, 0, len(data))
    _write(served, topic, data)


def _write(served: Any, topic: str, data: bytearray) -> None:
    async def write() -> None:
        partition = served.broker.partition(topic, 0)
        header = HEADER.unpack_from(data)
        partition.log.append(memoryview(data), 0, header, header[8])
        partition.high_watermark = partition.last_stable_offset = partition.log.end_offset

    served.run(write())
