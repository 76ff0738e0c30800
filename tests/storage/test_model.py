"""A log against a list: whatever is done to it, it holds what a list of records would hold.

Appends, rolls, truncations, deletions from the start, compactions, crashes that take part of what was not flushed,
proper stops, in any order. After each step: every record, from every offset on; look-ups by time; what the producers
may send next.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.protocol.batch import HEADER, iter_batches
from ottla.protocol.records import Record, build_batch, iter_records
from ottla.storage.compaction.clean import clean
from ottla.storage.compaction.swap import dirt_of, job_for, swap_in
from ottla.storage.errors import OffsetOutOfRange
from ottla.storage.file import FileSlice
from ottla.storage.log import Log
from support.scribe import NOW, topic_config

KEYS = [b"a", b"b", b"c"]
DAY = 86_400_000


@dataclass
class Batch:
    base: int
    records: list[Record]  # those that compaction left
    size: int
    end: int  # the offset after its last
    producer: tuple[int, int] | None  # id, sequence

    def survivors(self, newest: dict[bytes | None, int], below: int) -> None:
        if self.end <= below:
            self.records = [record for record in self.records if newest[record.key] == record.offset]


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="ottla-model-")) / "t-0"
        self.batches: list[Batch] = []
        self.start = self.end = self.cleaned = 0
        self.sequences: dict[int, int] = {}
        self.was_compacted = False
        self.values = 0

    @initialize(segment_bytes=st.integers(300, 1500), interval=st.sampled_from([0, 100, 300]), compacted=st.booleans())
    def create(self, segment_bytes: int, interval: int, compacted: bool) -> None:
        self.compacted = compacted
        self.config = topic_config(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            cleanup_policy="compact,delete" if compacted else "delete",
            min_cleanable_dirty_ratio=0,
        )
        self.log = Log(self.directory, self.config)
        self.log.create()

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
        shutil.rmtree(self.directory.parent)

    # -- what may happen

    @rule(
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4),
        time=st.integers(0, 50),
        producer=st.sampled_from([None, 1, 1, 2]),
        codec=st.sampled_from([0, 0, 0, 3]),
    )
    def append(self, keys: list[bytes], time: int, producer: int | None, codec: int) -> None:
        records = []
        for at, key in enumerate(keys):
            self.values += 1
            records.append(Record(self.end + at, NOW + time + at, key, b"value %d" % self.values))
        sequence = self.sequences.get(producer, -1) + 1 if producer else -1
        batch = build_batch(
            [record._replace(offset=at) for at, record in enumerate(records)],
            codec=codec,
            producer_id=producer or -1,
            producer_epoch=0 if producer else -1,
            base_sequence=sequence,
        )
        header = HEADER.unpack_from(batch)
        if producer:
            assert self.log.producers.check(producer, 0, sequence, sequence + len(keys) - 1) is None
            self.sequences[producer] = sequence + len(keys) - 1
        assert self.log.append(batch, 0, header, header[8]) == self.end
        self.end += len(keys)
        self.batches.append(
            Batch(records[0].offset, records, len(batch), self.end, (producer, sequence) if producer else None)
        )

    @rule()
    def roll(self) -> None:
        if self.log.active.size:
            self.log.roll()

    @rule()
    def flush(self) -> None:
        for segment in self.log.segments:
            segment.fsync()
        self.log.recovery_point = self.end

    @rule(back=st.integers(1, 5))
    def truncate(self, back: int) -> None:
        offset = max(self.log.segments[0].base_offset, self.end - back)
        for path in self.log.truncate_to(offset):
            path.unlink()
        self.end = min(self.end, offset)
        while self.batches and self.batches[-1].end > offset:
            self.end = min(self.end, self.batches.pop().base)
        if self.log.end_offset > self.end:  # what compaction took cannot be told from what is left
            assert self.compacted
        self.end = self.log.end_offset
        self.start = min(self.start, self.end)
        self.cleaned = min(self.cleaned, self.end)
        self.forget_sequences()

    def forget_sequences(self) -> None:
        """Producers are known by what is in the log."""
        self.sequences = {
            producer: state.batches[-1][1] for producer, state in self.log.producers.items() if state.batches
        }

    @rule(count=st.integers(1, 2))
    def delete_oldest(self, count: int) -> None:
        if self.log.size:
            for path in self.log.delete_oldest(min(count, len(self.log.segments))):
                path.unlink()
            self.start = max(self.start, self.log.segments[0].base_offset)
            assert self.log.start_offset == self.start

    @rule(forward=st.integers(1, 5))
    def delete_records(self, forward: int) -> None:
        self.start = min(self.end, self.start + forward)
        self.log.move_start(self.start)

    @precondition(lambda self: self.compacted)
    @rule()
    def compact(self) -> None:
        self.flush()
        dirt = dirt_of(self.log, checkpoint=self.cleaned, stable_offset=self.end, now_ms=NOW + DAY)
        if dirt.end <= dirt.first_dirty:
            return
        job = job_for(
            self.log, dirt, now_ms=NOW + DAY, memory=1 << 16, load_factor=0.9, buffer=1 << 16, bytes_per_second=1e12
        )
        groups: list = []
        totals = clean(job, groups.append)
        newest: dict[bytes | None, int] = {}
        first = self.log.segments[0].base_offset
        for batch in self.batches:
            if batch.end <= totals.end and batch.base >= first:
                newest.update({record.key: record.offset for record in batch.records})
        for group in groups:
            for path in swap_in(self.log, group):
                path.unlink()
        for batch in self.batches:
            if batch.base >= first:
                batch.survivors(newest, totals.end)
        self.cleaned = totals.end
        self.was_compacted = True

    @rule(taken=st.integers(0, 2000))
    def crash(self, taken: int) -> None:
        active, flushed = self.log.active, self.log.recovery_point
        in_active = [batch for batch in self.batches if batch.base >= active.base_offset]
        safe = sum(batch.size for batch in in_active if batch.base < flushed)
        kept = max(safe, active.size - taken)
        self.log.abandon()
        os.truncate(active.file.path, kept)
        position = 0
        for batch in in_active:
            position += batch.size
            if position > kept:
                self.end = batch.base
                self.batches = [one for one in self.batches if one.base < batch.base]
                break
        self.start = min(self.start, self.end)
        self.reopen(clean=False, recovery_point=flushed)
        self.forget_sequences()

    @rule()
    def stop(self) -> None:
        self.log.close()
        self.reopen(clean=True, recovery_point=self.end)

    def reopen(self, *, clean: bool, recovery_point: int) -> None:
        self.log = Log(self.directory, self.config)
        self.log.open(
            clean=clean,
            recovery_point=recovery_point,
            start_offset=self.start,
            was_compacted=self.was_compacted,
        )

    # -- what must hold

    @property
    def expected(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records if record.offset >= self.start]

    @invariant()
    def it_is_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        expected = self.expected
        assert read_from(self.log, self.start, 1 << 30) == expected
        for offset in range(self.start, self.end, max(1, (self.end - self.start) // 5)):
            assert read_from(self.log, offset, 1) == [record for record in expected if record.offset >= offset]
        for at in range(0, 55, 9):
            found = next((record for record in expected if record.timestamp >= NOW + at), None)
            assert self.log.offset_for_timestamp(NOW + at) == (found and (found.timestamp, found.offset))

    @invariant()
    def producers_may_go_on(self) -> None:
        last: dict[int, Batch] = {}
        for batch in self.batches:
            if batch.producer and batch.base >= self.log.segments[0].base_offset:
                last[batch.producer[0]] = batch
        for producer, batch in last.items():
            assert batch.producer is not None
            first = batch.producer[1]
            newest = first + batch.end - batch.base - 1
            known = self.log.producers.check(producer, 0, first, newest)
            assert known is not None
            assert known[0] == batch.base
            assert self.log.producers.check(producer, 0, newest + 1, newest + 1) is None


def read_from(log: Log, offset: int, limit: int) -> list[Record]:
    """As a consumer with that limit of bytes: all records from `offset` on."""
    found: list[Record] = []
    at = offset
    while at < log.end_offset:
        data, size = log.read(at, limit, 1 << 62, True)
        if not size:
            break
        data = whole(data)
        for position, header in iter_batches(data):
            batch = data[position : position + header.size]
            found += [record for record in iter_records(batch, 1 << 30) if record.offset >= offset]
            assert header.last_offset >= at
            at = header.last_offset + 1
    return found


def whole(data: bytes | FileSlice | None) -> bytes:
    if not isinstance(data, FileSlice):
        return data or b""
    try:
        return b"".join(iter(lambda: data.read(1 << 20), b""))
    finally:
        data.close()


LogAgainstList.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestLogAgainstList = LogAgainstList.TestCase


def test_a_truncated_log_forgets_what_its_producers_sent_behind_the_cut(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0", topic_config(segment_bytes=200))
    log.create()
    for sequence in range(4):
        batch = build_batch([Record(0, NOW, None, b"x")], producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append(batch, 0, HEADER.unpack_from(batch), NOW)
    log.truncate_to(2)
    assert log.producers.check(7, 0, 1, 1) == (1, NOW)
    assert log.producers.check(7, 0, 2, 2) is None
    log.abandon()


def test_a_log_that_is_truncated_below_its_start_is_empty_there(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0", topic_config())
    log.create()
    batch = build_batch([Record(0, NOW, None, b"x")])
    for _ in range(3):
        log.append(batch, 0, HEADER.unpack_from(batch), NOW)
    log.truncate_to(0)
    assert (log.start_offset, log.end_offset, log.size) == (0, 0, 0)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 100, 100, True)
    log.abandon()
