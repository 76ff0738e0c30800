"""Compaction and retention where transactions were aborted, and where they are open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.protocol import messages as m
from ottla.protocol.batch import iter_batches
from ottla.protocol.records import iter_records
from support.requests import batch
from support.requests import fetch as fetch_records
from support.transactional import (
    Producer,
    begun,
    end_offset,
    patiently,
    read_committed,
)

Serve = Callable[..., Any]
Until = Callable[[Callable[[], Any]], Any]

FEW = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}


def contents(wire: Any, topic: str) -> list[tuple[str, str | None, str]]:
    """Kind, key and value of what lies in a log."""
    found, offset = [], 0
    while True:
        answer = fetch_records(wire, topic, offset)
        data = bytes(answer.records or b"")
        if not data:
            return found
        for position, header in iter_batches(data, partial=True):
            offset = header.next_offset
            for record in iter_records(data[position : position + header.size], 1 << 30):
                if header.is_control:
                    found.append(("marker", None, ""))
                else:
                    found.append(("data", (record.key or b"").decode(), (record.value or b"").decode()))


def test_compaction_leaves_committed_values_only_and_keeps_away_from_what_is_open(serve: Serve, until: Until) -> None:
    served = serve(**FEW, log_cleaner_backoff_ms=50, log_roll_ms=100)
    wire = served.wire()
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": "50",
        "file.delete.delay.ms": "0",
        "delete.retention.ms": "0",
    }
    wire.create("t", configs=configs)
    one, other = begun(wire), begun(wire, "other")

    def put(producer: Producer, key: str, value: str) -> None:
        assert patiently(lambda: producer.send("t", value, key=key.encode())) == "NONE"

    def write(key: str, value: str) -> None:
        wire.produce_batch("t", batch(value, key=key.encode()))

    def kept(key: str) -> list[str]:
        write("tick", "")  # rolls the segment
        return [value for kind, name, value in contents(wire, "t") if kind == "data" and name == key]

    put(one, "a", "old")
    one.commit()
    put(one, "a", "committed")
    put(one, "b", "committed")
    one.commit()
    put(one, "a", "aborted")
    put(one, "c", "aborted")
    one.abort()
    until(lambda: kept("a") == ["committed"] and kept("c") == [] and kept("b") == ["committed"])
    put(other, "a", "undecided")
    for number in range(20):
        put(one, "d", f"aborted {number}")
        one.abort()
    assert kept("a")[:1] == ["committed"], "the transaction that would replace it is open"
    assert [value for value in read_committed(wire, "t")[0] if value] == ["committed", "committed"]
    other.abort()
    until(lambda: kept("a") == ["committed"] and kept("d") == [])
    served.restart()
    wire = one.wire = other.wire = served.wire()
    values = [value for value in read_committed(wire, "t")[0] if value]
    assert values == ["committed", "committed"]
    put(other, "a", "newest")
    other.commit()
    until(lambda: kept("a") == ["newest"])
    # markers of transactions that nothing is left of go too
    until(lambda: (write("tick", ""), sum(kind == "marker" for kind, _, _ in contents(wire, "t")) < 10)[1])


def test_retention_takes_old_transactions_and_leaves_an_open_one_to_its_end(serve: Serve, until: Until) -> None:
    served = serve(**FEW, log_retention_check_interval_ms=50, log_initial_task_delay_ms=10)
    wire = served.wire()
    wire.create("t", configs={"segment.bytes": "1000", "retention.bytes": "3000", "file.delete.delay.ms": "0"})
    open_one, one = begun(wire, "open"), begun(wire)
    assert open_one.send("t", "open") == "NONE"
    for number in range(20):
        assert one.send("t", "x" * 400) == "NONE"
        assert one.end(number % 2 == 0) == "NONE"
    until(lambda: served.broker.partition("t", 0).log.start_offset > 5)
    assert open_one.send("t", "late") == "NONE"
    assert open_one.commit() == "NONE"
    end = end_offset(wire, "t", committed=False)
    assert read_committed(wire, "t", offset=end - 2) == (["late"], end)
    served.restart()
    assert read_committed(served.wire(), "t", offset=end - 2) == (["late"], end)


def test_a_partition_that_moves_to_another_disk_takes_its_transactions_along(
    serve: Serve, until: Until, tmp_path: Path
) -> None:
    disks = [str(tmp_path / "a"), str(tmp_path / "b")]
    served = serve(**FEW, log_dirs=disks)
    wire = served.wire()
    wire.create("t", configs={"segment.bytes": "1000"})
    one, open_one = begun(wire), begun(wire, "open")
    for number in range(12):
        assert one.send("t", f"{number}" + "x" * 200) == "NONE"
        assert one.end(number % 2 == 0) == "NONE"
    assert open_one.send("t", "undecided") == "NONE"
    before = read_committed(wire, "t")
    home = Path(served.broker.partition("t", 0).log.directory).parent
    (other,) = (disk for disk in disks if Path(disk) != home)
    topic = m.AlterReplicaLogDirsRequest.Topic(name="t", partitions=[0])
    request = m.AlterReplicaLogDirsRequest(dirs=[m.AlterReplicaLogDirsRequest.Dir(path=other, topics=[topic])])
    assert wire.call(request, 2).results[0].partitions[0].error_code == 0
    until(lambda: str(served.broker.partition("t", 0).log.directory).startswith(other))
    assert read_committed(wire, "t") == before
    assert open_one.send("t", "more") == "NONE"
    assert open_one.abort() == "NONE"
    assert one.send("t", "last") == "NONE"
    assert one.commit() == "NONE"
    values, stable = read_committed(wire, "t")
    assert values == [*before[0], "last"]
    assert stable == end_offset(wire, "t", committed=False)
    served.restart()
    assert read_committed(served.wire(), "t") == (values, stable)
