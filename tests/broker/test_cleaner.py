"""The log cleaner in a broker: topics are compacted while clients write and read."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol import messages
from ottla.protocol.batch import iter_batches
from ottla.protocol.records import Record, build_batch, iter_records
from ottla.storage.checkpoints import CLEANER, read_offsets
from support.wire import Wire

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "file.delete.delay.ms": "0"}
QUICK = {"log_cleaner_backoff_ms": 50}

Until = Callable[[Callable[[], Any]], Any]


def read(wire: Wire, topic: str, offset: int = 0) -> list[Record]:
    """All records from `offset` on."""
    found: list[Record] = []
    while True:
        wanted = messages.FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = messages.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            topics=[messages.FetchRequest.Topic(topic=topic, partitions=[wanted])],
        )
        (answer,) = wire.call(request, 11).responses[0].partitions
        assert answer.error_code == 0
        data = bytes(answer.records or b"")
        if not data:
            return found
        for position, header in iter_batches(data):
            offset = header.next_offset
            found += iter_records(data[position : position + header.size], 1 << 30)


def write(wire: Wire, topic: str, *records: tuple[str, str | None], **batch: Any) -> int:
    now = wire_clock()
    made = [
        Record(at, now, key.encode(), None if value is None else value.encode())
        for at, (key, value) in enumerate(records)
    ]
    return wire.produce(topic, made, **batch)


def wire_clock() -> int:
    from time import time

    return int(time() * 1000)


def pairs(records: list[Record]) -> list[tuple[str, str | None]]:
    return [
        ((record.key or b"").decode(), None if record.value is None else record.value.decode()) for record in records
    ]


def directory_of(served: Any, topic: str) -> Path:
    return Path(served.broker.partition(topic, 0).log.directory)


def test_a_topic_is_compacted_once_its_segment_is_old_enough(serve: Callable[..., Any], until: Until) -> None:
    served = serve(**QUICK)
    wire = served.wire()
    wire.create("t", configs={**COMPACT, "segment.ms": "100"})
    write(wire, "t", ("A", "1"), ("B", "1"))
    write(wire, "t", ("A", "2"))
    assert pairs(read(wire, "t")) in ([("A", "1"), ("B", "1"), ("A", "2")], [("B", "1"), ("A", "2")])
    until(lambda: pairs(read(wire, "t")) == [("B", "1"), ("A", "2")])
    directory = directory_of(served, "t")
    until(lambda: read_offsets(directory.parent / CLEANER) == {("t", 0): 3})
    until(lambda: not list(directory.glob("*.deleted")))
    served.restart()
    assert pairs(read(served.wire(), "t")) == [("B", "1"), ("A", "2")]


def test_a_reader_under_way_is_not_disturbed(serve: Callable[..., Any], until: Until) -> None:
    served = serve(**QUICK, log_cleaner_enable=True)
    wire = served.wire()
    wire.create("t", configs={**COMPACT, "segment.bytes": "300000", "segment.ms": "100"})
    value = "v" * 1000
    seen: list[Record] = []
    for at in range(200):
        write(wire, "t", *((f"{at}-{key}" if key else "same", value) for key in range(10)))
        seen += read(wire, "t", seen[-1].offset + 1 if seen else 0)
    offsets = [record.offset for record in seen]
    assert offsets == sorted(set(offsets))
    assert served.broker.cleaner.cleaned > 0 or until(lambda: served.broker.cleaner.cleaned)
    until(lambda: len(read(wire, "t")) == 200 * 9 + 1)
    assert [record.offset for record in read(wire, "t")] == sorted(
        {record.key: record.offset for record in [*seen, *read(wire, "t")]}.values()
    )


def test_an_idempotent_producer_goes_on_after_its_batches_were_compacted_away(
    serve: Callable[..., Any], until: Until
) -> None:
    served = serve(**QUICK)
    wire = served.wire()
    wire.create("t", configs={**COMPACT, "segment.ms": "100"})
    write(wire, "t", ("a", "1"), producer_id=5, producer_epoch=0, base_sequence=0)
    write(wire, "t", ("a", "2"), producer_id=5, producer_epoch=0, base_sequence=1)
    write(wire, "t", ("a", "3"))
    until(lambda: pairs(read(wire, "t")) == [("a", "3")])
    served.stop()
    for snapshot in directory_of(served, "t").glob("*.snapshot"):
        snapshot.unlink()
    served.start()
    wire = served.wire()
    batch = build_batch([Record(0, wire_clock(), b"a", b"2")], producer_id=5, producer_epoch=0, base_sequence=1)
    assert wire.produce_batch("t", batch) == 1  # a retry: it was written as offset 1
    assert write(wire, "t", ("a", "4"), producer_id=5, producer_epoch=0, base_sequence=2) == 3


def test_a_damaged_log_is_put_down_and_the_others_go_on(serve: Callable[..., Any], until: Until) -> None:
    served = serve(**QUICK)
    wire = served.wire()
    for topic in ("bad", "good"):
        wire.create(topic, configs={**COMPACT, "segment.bytes": "100"})
        write(wire, topic, ("a", "1"))
        if topic == "bad":
            path = next(directory_of(served, topic).glob("*.log"))
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
        write(wire, topic, ("a", "2"))
        write(wire, topic, ("a", "3"))
    cleaner = served.broker.cleaner
    until(lambda: pairs(read(wire, "good")) == [("a", "2"), ("a", "3")])
    until(lambda: ("bad", 0) in cleaner.uncleanable)
    assert "CRC" in cleaner.uncleanable["bad", 0]
    assert cleaner.uncleanable_bytes == served.broker.partition("bad", 0).log.size
    assert not list(directory_of(served, "bad").glob("*.cleaned"))
    write(wire, "good", ("a", "4"))
    until(lambda: pairs(read(wire, "good")) == [("a", "3"), ("a", "4")])


@pytest.fixture
def busy(serve: Callable[..., Any], until: Until) -> tuple[Any, Wire]:
    """A broker in the middle of a job: the worker may read no more than a kilobyte a second."""
    served = serve(**QUICK, log_cleaner_io_max_bytes_per_second=1000.0)
    wire = served.wire()
    wire.create("t", configs={**COMPACT, "segment.bytes": "3000", "file.delete.delay.ms": "60000"})
    for at in range(10):
        write(wire, "t", ("a", str(at) * 2000))
    until(lambda: served.broker.cleaner._at_work)
    return served, wire


def test_a_broker_that_stops_ends_its_workers(busy: tuple[Any, Wire]) -> None:
    served, _ = busy
    (worker,) = served.broker.cleaner._at_work.values()
    directory = directory_of(served, "t")
    served.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(worker.process_id, 0)
    assert not list(directory.glob("*.cleaned"))
    served.start()


def test_deleting_a_topic_ends_the_job(busy: tuple[Any, Wire], until: Until) -> None:
    served, wire = busy
    cleaner = served.broker.cleaner
    (worker,) = cleaner._at_work.values()
    root = directory_of(served, "t").parent
    request = messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000)
    assert wire.call(request, 5).responses[0].error_code == 0
    assert not cleaner._jobs
    assert not worker.is_alive
    assert read_offsets(root / CLEANER) == {}
    wire.create("t", configs={**COMPACT, "segment.bytes": "3000"})
    assert read(wire, "t") == []


def test_a_worker_that_dies_is_replaced(busy: tuple[Any, Wire], until: Until) -> None:
    served, wire = busy
    cleaner = served.broker.cleaner
    (worker,) = cleaner._at_work.values()
    served.broker.config.log_cleaner_io_max_bytes_per_second = 1e300
    os.kill(worker.process_id, signal.SIGKILL)
    until(lambda: len(read(wire, "t")) == 2)  # one in the sealed part, one in the active segment
    assert cleaner.uncleanable == {}


def test_nothing_is_compacted_when_the_cleaner_is_off(serve: Callable[..., Any]) -> None:
    served = serve(**QUICK, log_cleaner_enable=False)
    assert served.broker.cleaner._watch is None
