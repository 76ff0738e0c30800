"""What jvm/PythonState.scala does, without Spark: it keeps states and timers, and sends them through a Pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from ottla.streams.keyed_python import (
    BOTH,
    CLOCK,
    DATA,
    DELETE_TIMER,
    RESULT,
    SET_TIMER,
    STATE,
    TIMER,
    Pass,
)

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SENT = pa.schema(
    [
        ("kind", pa.int8()),
        ("key", pa.binary()),
        ("state", pa.binary()),
        ("value", pa.string()),
        ("time", pa.int64()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
Sent = tuple[bytes, str | None, int]  # key, value, time


class Store:
    """States and timers by key; `run` is one batch of one task."""

    def __init__(self, make: Callable[[], Pass], rows_per_batch: int = 1000) -> None:
        self.make = make
        self.size = rows_per_batch
        self.states: dict[bytes, bytes] = {}
        self.timers: set[tuple[bytes, int]] = set()
        self.offset = 0

    def run(self, records: Iterable[Sent], watermark: int = 0, now: int = 0) -> list[dict[str, Any]]:
        """The results of these records, in their order within each key; then those of timers up to the watermark."""
        rows = []
        for key, mine in groupby(sorted(records, key=lambda each: each[0]), key=lambda each: each[0]):
            state: bytes | None = self.states.get(key)
            first = True
            for _, value, time in mine:
                place = ([{"key": "n", "value": b"1"}], "in", 0, self.offset)
                rows.append((DATA, key if first else None, state if first else None, value, time, *place))
                self.offset += 1
                first = False
        results = self._through(rows, watermark, now) if rows else []
        timers = sorted(timer for timer in self.timers if timer[1] <= watermark)
        if timers:
            rows = []
            for key, times in groupby(timers, key=lambda timer: timer[0]):
                for place, (_, time) in enumerate(times):
                    state = self.states.get(key) if place == 0 else None
                    rows.append((TIMER, key if place == 0 else None, state, None, time, [], None, None, None))
            results += self._through(rows, watermark, now)
            self.timers -= set(timers)
        return results

    def _through(self, rows: list[tuple[Any, ...]], watermark: int, now: int) -> list[dict[str, Any]]:
        rows = [(CLOCK, None, None, None, watermark, [], None, None, now), *rows]
        results = []
        for batch in self.make()(self._batches(rows)):
            for row in batch.to_pylist():
                kind = row["kind"]
                if kind in (STATE, BOTH):
                    if row["state"] is None:
                        self.states.pop(row["at"], None)
                    else:
                        self.states[row["at"]] = row["state"]
                elif kind == SET_TIMER:
                    self.timers.add((row["at"], row["time"]))
                elif kind == DELETE_TIMER:
                    self.timers.discard((row["at"], row["time"]))
                if kind in (RESULT, BOTH):
                    results.append(row)
        return results

    def _batches(self, rows: list[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(rows), self.size):
            columns = zip(*rows[start : start + self.size], strict=True)
            arrays = [pa.array(cells, field.type) for cells, field in zip(columns, SENT, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=SENT)
