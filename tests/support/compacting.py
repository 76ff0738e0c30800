"""Compacts a log inside the test's process, step by step, and tells what is in it."""

from __future__ import annotations

from pathlib import Path

from ottla.protocol.batch import HEADER, BatchHeader, check
from ottla.protocol.records import Record, build_batch
from ottla.storage.compaction.clean import clean
from ottla.storage.compaction.job import Group, Totals
from ottla.storage.compaction.swap import dirt_of, job_for, swap_in
from support.scribe import NOW, Scribe

MEMORY = 24 * 10_000


class Cleaner:
    """Remembers, as the broker's does, how far each log is clean."""

    def __init__(self) -> None:
        self.checkpoint: int | None = None

    def clean(self, scribe: Scribe, *, now_ms: int = NOW, memory: int = MEMORY, swap: bool = True) -> Totals:
        """Compact all that is sealed."""
        log = scribe.log
        log.recovery_point = log.active.base_offset
        dirt = dirt_of(log, checkpoint=self.checkpoint, stable_offset=log.end_offset, now_ms=now_ms)
        if not dirt.dirty_bytes:
            return Totals(end=dirt.first_dirty)
        job = job_for(
            log, dirt, now_ms=now_ms, memory=memory, load_factor=0.9, buffer=64 * 1024, bytes_per_second=1e300
        )
        ready: list[Group] = []
        totals = clean(job, ready.append)
        if swap:
            for group in ready:
                for path in swap_in(log, group):
                    path.unlink()
            self.checkpoint = totals.end
        return totals


def write(
    scribe: Scribe,
    *records: tuple[str | None, str | None],
    timestamp: int = NOW,
    producer: tuple[int, int, int] | None = None,
    codec: int = 0,
) -> int:
    """One batch of (key, value); returns its first offset."""
    producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
    made = [
        Record(at, timestamp + at, None if key is None else key.encode(), None if value is None else value.encode())
        for at, (key, value) in enumerate(records)
    ]
    return write_batch(
        scribe,
        build_batch(made, codec=codec, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence),
    )


def write_batch(scribe: Scribe, batch: bytearray) -> int:
    header = HEADER.unpack_from(batch)
    return scribe.log.append(batch, 0, header, header[8])


def contents(scribe: Scribe) -> list[tuple[int, str | None, str | None]]:
    return [
        (
            record.offset,
            None if record.key is None else record.key.decode(),
            None if record.value is None else record.value.decode(),
        )
        for record in scribe.read_all()
    ]


def headers(directory: Path) -> list[BatchHeader]:
    """The header of every batch on disk, each checked."""
    found = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            found.append(check(data, position))
            position += found[-1].size
    return found
