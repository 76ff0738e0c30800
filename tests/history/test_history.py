"""The checker of histories finds what is planted in them, and nothing else."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.history import Event, check, read


class Told:
    """A history in the making. Its methods are what clients do."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._clock = count(1)

    def add(self, op: str, **more: Any) -> None:
        self.events.append({"op": op, "at": next(self._clock), **more})

    def transaction(self, txn: str, *records: tuple[int, int, str], end: str = "committed", process: str = "p") -> None:
        """Records are (partition, offset, value)."""
        self.add("begin", txn=txn, process=process)
        for partition, _, value in records:
            self.add("send", txn=txn, process=process, place=["t", partition], value=value)
        for partition, offset, value in records:
            self.add("sent", txn=txn, process=process, record=["t", partition, offset, value])
        if end != "aborted":
            self.add("commit", txn=txn)
        if end != "unknown":
            self.add(end, txn=txn)

    def poll(self, reader: str, *records: tuple[int, int, str], txn: str | None = None) -> None:
        self.add("poll", reader=reader, txn=txn, records=[["t", *record] for record in records])

    def final(self, *records: tuple[int, int, str]) -> None:
        for partition in (0, 1):
            self.add(
                "final",
                place=["t", partition],
                records=[["t", *record] for record in records if record[0] == partition],
            )

    @property
    def names(self) -> list[str]:
        return sorted({anomaly.name for anomaly in check(self.events)})


A, B, C, D = (0, 0, "a"), (1, 0, "b"), (0, 2, "c"), (0, 4, "d")


@pytest.fixture
def told() -> Told:
    """Two transactions that were committed."""
    told = Told()
    told.transaction("t1", A, B)
    told.transaction("t2", C)
    return told


def test_a_good_history_has_no_anomalies(told: Told) -> None:
    told.transaction("t3", D, end="aborted")
    told.poll("r", A, C)
    told.poll("r", B)
    told.add("moved", reader="r")
    told.poll("r", A, txn="t4")
    told.transaction("t4", (1, 3, "e"))
    told.transaction("t5", (1, 5, "f"), end="unknown")
    told.transaction("t6", (1, 7, "g"), end="unknown")
    told.final(A, C, B, (1, 3, "e"), (1, 7, "g"))
    assert told.names == []


def test_a_lost_write(told: Told) -> None:
    told.final(A, B)
    assert told.names == ["lost write"]


def test_a_lost_write_outside_of_transactions(told: Told) -> None:
    told.add("send", txn=None, process="q", place=["t", 0], value="x")
    told.add("sent", txn=None, process="q", record=["t", 0, 9, "x"])
    told.final(A, B, C)
    assert told.names == ["lost write"]


def test_a_torn_transaction(told: Told) -> None:
    told.transaction("t3", (0, 4, "d"), (1, 2, "e"), end="unknown")
    told.final(A, B, C, (0, 4, "d"))
    assert told.names == ["torn transaction"]


def test_a_duplicate(told: Told) -> None:
    told.final(A, B, C, (1, 8, "c"))
    assert told.names == ["duplicate"]


def test_a_value_written_again_after_an_abort_is_none() -> None:
    told = Told()
    told.transaction("t1", (0, 0, "a"), end="aborted")
    told.transaction("t2", (0, 2, "a2"))
    told.final((0, 2, "a2"))
    assert told.names == []


def test_inconsistent_offsets(told: Told) -> None:
    told.poll("r", (0, 0, "b"))
    told.final(A, B, C)
    assert told.names == ["inconsistent offsets"]


def test_an_aborted_read(told: Told) -> None:
    told.transaction("t3", D, end="aborted")
    told.poll("r", D)
    told.final(A, B, C)
    assert "aborted read" in told.names


def test_an_aborted_transaction_that_is_there_in_the_end(told: Told) -> None:
    told.transaction("t3", D, end="aborted")
    told.final(A, B, C, D)
    assert told.names == ["aborted read"]


def test_an_early_read(told: Told) -> None:
    told.add("send", txn="t3", process="p", place=["t", 0], value="d")
    told.poll("r", D)
    told.add("commit", txn="t3")
    told.add("committed", txn="t3")
    told.final(A, B, C, D)
    assert told.names == ["early read"]


def test_a_circular_flow(told: Told) -> None:
    told.poll("r", A, txn="t2")
    told.poll("s", C, txn="t1")
    told.final(A, B, C)
    assert told.names == ["circular flow"]


def test_a_long_circle_is_found_and_a_diamond_is_none() -> None:
    told = Told()
    records = [(0, number, f"v{number}") for number in range(6)]
    for number, record in enumerate(records):
        told.transaction(f"t{number}", record)
    for reader, writer in ((1, 0), (2, 0), (3, 1), (3, 2), (4, 3)):
        told.poll(f"r{reader}", records[writer], txn=f"t{reader}")
        told.add("moved", reader=f"r{reader}")
    told.final(*records)
    assert told.names == []
    told.poll("x", records[4], txn="t0")
    assert told.names == ["circular flow"]


def test_a_poll_that_goes_back_and_one_that_skips(told: Told) -> None:
    told.transaction("t3", D)
    told.poll("back", C)
    told.poll("back", A)
    told.final(A, B, C, D)
    assert told.names == ["non-monotonic poll"]
    told.poll("skips", A, D)
    assert told.names == ["non-monotonic poll", "skipping poll"]


def test_a_reader_that_sees_the_same_twice(told: Told) -> None:
    told.poll("r", A)
    told.poll("r", A)
    told.final(A, B, C)
    assert told.names == ["non-monotonic poll"]


def test_sends_in_another_order() -> None:
    told = Told()
    told.transaction("t1", (0, 5, "a"), (0, 4, "b"))
    told.final((0, 5, "a"), (0, 4, "b"))
    assert told.names == ["non-monotonic send"]


def test_a_phantom(told: Told) -> None:
    told.final(A, B, C, (1, 9, "nobody"))
    assert told.names == ["phantom"]


def test_histories_of_many_processes_are_read_in_order_of_time_and_torn_lines_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(json.dumps({"op": "moved", "at": 3}) + "\n" + '{"op": "po')
    (tmp_path / "2.jsonl").write_text(json.dumps({"op": "begin", "at": 1}) + "\n")
    assert [event["op"] for event in read(tmp_path)] == ["begin", "moved"]
