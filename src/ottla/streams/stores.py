"""Interactive queries: the latest value of each key of a table, from a local file, in microseconds.

A table is a compacted topic: its source topic, or the changelog that its query writes. A `Store` follows that topic
(store_follower.py) and keeps its rows in a file of the application's state directory (store_file.py). So a look-up asks
neither Spark nor the broker. What it sees is as old as the last batch that the query has finished and the store has
read: `lag` says how far it is behind, `wait_until_current` waits.

Rules:
- Records apply in the order of their offsets. A null value deletes. A record without a key, or whose key or value the
  serde cannot read, changes nothing and is counted (`rejected`).
- A restart goes on from the file. Where that cannot be, the store is built again from the topic's beginning; look-ups
  wait for that.
- A missing topic or an unreachable broker is waited for; look-ups answer from the file meanwhile.
- A window is kept until the newest one ends `retention_ms` later than it, in event time: a day, or size and grace if
  these are more. (Kafka Streams keeps size and grace.)
- Times are ms since 1970 or datetimes, those without a zone in UTC; they come back as datetimes in UTC.

Bytes of windowed keys are those of Kafka's serializers: key + start, session: key + end + start, 8 bytes in ms each.
Order is that of the keys' bytes: texts as in UTF-8, numbers from 0 up and the negative ones after them.
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from ottla.pipelines.serdes import Serde, WindowedKey
from ottla.streams.store_file import Damaged, Place, Row, StoreFile
from ottla.streams.store_follower import Follower, StoreError

__all__ = ["Moment", "Store", "StoreError", "WindowedKey"]

Moment = int | datetime
T = TypeVar("T")

DAY_MS = 86_400_000
PATIENCE = 30.0  # seconds for a store that is being rebuilt
NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 253_402_300_799_999  # the last moment that a datetime can say


class Store:
    def __init__(
        self,
        name: str,
        topic: str,
        key: Serde,
        value: Serde,
        windowed: Literal["time", "session"] | None = None,
        *,
        bootstrap: str,
        directory: str | Path,
        size_ms: int = 0,
        grace_ms: int = 0,
        retention_ms: int = DAY_MS,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin to follow `topic`. `key`: the serde of the key without its window; `size_ms`: of time windows;
        `client`: more settings for the Kafka client, as those of security."""
        if not NAME.fullmatch(name):
            raise StoreError(f"{name!r} is no name for a store: letters, digits, '.', '_' and '-', at most 200")
        if windowed == "time" and size_ms <= 0:
            raise StoreError(f"store {name} is one of time windows: it needs size_ms")
        self.name, self.topic, self.key, self.value = name, topic, key, value
        self.windowed, self.size_ms = windowed, size_ms
        self.retention_ms = max(retention_ms, size_ms + grace_ms) if windowed else None
        kind = f"{windowed} {size_ms}" if windowed else "plain"
        self._file = StoreFile(Path(directory), name, topic=topic, kind=kind)
        self._closed = threading.Event()
        settings = {**(client or {}), "bootstrap.servers": bootstrap}
        self._follower = Follower(name, topic, self._file, settings, self._locate, self.retention_ms)

    def leave(self) -> None:
        """Follow the topic no longer; so several stores do not wait for one after the other when they close."""
        self._follower.leave()

    def close(self) -> None:
        """Stop following and close the file. The next run goes on from there."""
        if not self._closed.is_set():
            self._closed.set()
            self._follower.close()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    # look-ups

    def get(self, key: Any, start: Moment | None = None) -> Any:
        """The value of a key, None if it has none. With windows: that of the window that starts at `start`."""
        raw = self._raw(key)
        if self.windowed is None:
            if start is not None:
                raise StoreError(f"store {self.name} has no windows: get(key)")
            return self.value.loads(self._read(lambda: self._file.get(raw)))
        if start is None:
            raise StoreError(f"store {self.name} has windows: get(key, window_start), or fetch(key)")
        where = {"key = ?": raw, "start = ?": ms(start)}
        found = self._read(lambda: list(self._file.select(where, reverse=True, limit=1)))
        return self.value.loads(found[0].value) if found else None

    def range(self, first: Any = None, last: Any = None, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """(key, value) of the keys from `first` to `last`, both included, None is open; in the order of their bytes."""
        return self._entries(self._between(first, last), reverse)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """All (key, value), in the order of the keys' bytes. With windows: (WindowedKey, value)."""
        return self._entries({}, reverse)

    def fetch(
        self, key: Any, from_time: Moment | None = None, to_time: Moment | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[WindowedKey, Any]]:
        """The windows of a key, oldest first, that start from `from_time` to `to_time`, both included, None is open;
        of sessions: those that touch this time."""
        return self._entries({"key = ?": self._raw(key), **self._during(from_time, to_time)}, reverse)

    def fetch_all(
        self, from_time: Moment | None = None, to_time: Moment | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[WindowedKey, Any]]:
        """The same of all keys, in the order of their bytes."""
        return self._entries(self._during(from_time, to_time), reverse)

    def count(self) -> int:
        """How many rows there are, windows each for itself."""
        return self._read(self._file.count)

    def rows(
        self,
        key: Any = None,
        *,
        start: Moment | None = None,
        first: Any = None,
        last: Any = None,
        from_time: Moment | None = None,
        to_time: Moment | None = None,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Any of the above as rows: bytes as in the topic, windows in ms, with the records' timestamps."""
        where = self._between(first, last)
        if key is not None:
            where["key = ?"] = self._raw(key)
        if start is not None:
            where["start = ?"] = ms(start)
        if from_time is not None or to_time is not None:
            where |= self._during(from_time, to_time)
        return self._rows(where, False, limit)

    # how far it is

    @property
    def lag(self) -> int:
        """How many of the topic's offsets are not in here yet, as far as has been heard."""
        return self._follower.lag

    @property
    def rejected(self) -> int:
        """How many records the serdes could not read, since the start."""
        return self._follower.rejected

    @property
    def trouble(self) -> str | None:
        """Why the topic cannot be followed at the moment."""
        return self._follower.trouble

    def wait_until_current(self, timeout: float = 30.0) -> None:
        """Wait until all that was committed to the topic before this call is in here; StoreError when it is not."""
        self._check_open()
        self._follower.wait_until_current(timeout)

    def _entries(self, where: Mapping[str, object], reverse: bool) -> Iterator[tuple[Any, Any]]:
        for row in self._rows(where, reverse):
            key = self.key.loads(row.key)
            if self.windowed:
                key = WindowedKey(key, moment(row.start), moment(row.end))
            yield key, self.value.loads(row.value)

    def _rows(self, where: Mapping[str, object], reverse: bool, limit: int | None = None) -> Iterator[Row]:
        first, rest = self._read(lambda: self._begin(where, reverse, limit))
        try:
            yield from first
            yield from rest
        except Damaged as damage:
            self._follower.rebuild()
            raise StoreError(f"store {self.name} is damaged ({damage}) and is built again; ask again") from None

    def _begin(self, where: Mapping[str, object], reverse: bool, limit: int | None) -> tuple[list[Row], Iterator[Row]]:
        """The first row, and the others as they were at the same moment."""
        rows = self._file.select(where, reverse=reverse, limit=limit)
        return list(islice(rows, 1)), rows

    def _read(self, look_up: Callable[[], T]) -> T:
        """What a whole store says: one that is being rebuilt, or has to be, is waited for."""
        while True:
            self._check_open()
            if self._follower.rebuilding:
                self._follower.wait_until_rebuilt(PATIENCE)
            try:
                found = look_up()
            except Damaged:
                self._follower.rebuild()
            else:
                if not self._follower.rebuilding:
                    return found

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise StoreError(f"store {self.name} is closed")

    def _raw(self, key: Any) -> bytes:
        raw = self.key.dumps(key)
        if raw is None:
            raise StoreError(f"store {self.name}: a key cannot be null")
        return raw

    def _between(self, first: Any, last: Any) -> dict[str, object]:
        bounds = {"key >= ?": first, "key <= ?": last}
        return {condition: self._raw(key) for condition, key in bounds.items() if key is not None}

    def _during(self, from_time: Moment | None, to_time: Moment | None) -> dict[str, object]:
        if self.windowed is None:
            raise StoreError(f"store {self.name} has no windows: get(key), range() or all()")
        bounds = {"start >= ?" if self.windowed == "time" else "end >= ?": from_time, "start <= ?": to_time}
        return {condition: ms(time) for condition, time in bounds.items() if time is not None}

    def _locate(self, key: bytes | None, value: bytes | None) -> Place | None:
        """The row of a record; None: the record has none."""
        place = self._place(key)
        try:
            if place is not None:
                self.key.loads(place.key)
                self.value.loads(value)
        except ValueError:
            return None
        return place

    def _place(self, key: bytes | None) -> Place | None:
        if key is None:
            return None
        if self.windowed is None:
            return Place(key)
        try:
            if self.windowed == "time":
                (start,) = struct.unpack_from(">q", key, max(0, len(key) - 8))
                end, inner = start + self.size_ms, key[:-8]
            else:
                end, start = struct.unpack_from(">qq", key, max(0, len(key) - 16))
                inner = key[:-16]
        except struct.error:  # too short
            return None
        return Place(inner, start, end) if 0 <= start <= end <= LAST_MS else None


def ms(time: Moment) -> int:
    """Milliseconds since 1970, UTC."""
    if isinstance(time, datetime):
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)
    return time


def moment(time: int) -> datetime:
    return EPOCH + timedelta(milliseconds=time)
