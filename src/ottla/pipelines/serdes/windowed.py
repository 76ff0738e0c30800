"""Keys of windowed results, in the bytes of Kafka's TimeWindowedSerializer and SessionWindowedSerializer.

    time      key bytes, start in ms (8 bytes, big-endian)
    session   key bytes, end in ms (8 bytes), start in ms (8 bytes)

The column is struct<key, start, end>. The bytes of a time window do not hold its end: `size` says it, and without
`size` the end of what is read is null.
"""

from __future__ import annotations

import datetime
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, TimestampType

from ottla.pipelines.columns import call
from ottla.pipelines.serdes.base import Serde, shown
from ottla.pipelines.serdes.cells import Change, fitter

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
LEAST, MOST = 0, 253_000_000_000_000  # windows do not start before 1970 nor, in Python's years, after 9987


class WindowedKey(NamedTuple):
    """A key and the window that its result is for."""

    key: Any
    start: datetime.datetime
    end: datetime.datetime | None = None


@dataclass(frozen=True)
class Windowed(Serde):
    """Keys with a window: of `size`, or of a session."""

    inner: Serde
    size: datetime.timedelta | None = None
    session: bool = False

    @property
    def name(self) -> str:
        return f"{'session' if self.session else 'windowed'}({self.inner.name})"

    @property
    def type(self) -> DataType:
        times = [StructField("start", TimestampType()), StructField("end", TimestampType())]
        return StructType([StructField("key", self.inner.type), *times])

    @property
    def _tail(self) -> int:
        return 16 if self.session else 8

    def decode(self, raw: Column) -> Column:
        key = self.inner.decode(self._key(raw))
        start = F.timestamp_millis(_last(raw, 0))
        if self.session:
            end = F.timestamp_millis(_last(raw, 8))
        else:
            end = F.lit(None).cast("timestamp") if self.size is None else start + F.lit(self.size)
        window = F.struct(key.alias("key"), start.alias("start"), end.alias("end"))
        return F.when(raw.isNotNull() & self._why(raw, key).isNull(), window)

    def misfit(self, raw: Column, decoded: Column) -> Column | None:
        return F.when(raw.isNotNull() & decoded.isNull(), self._why(raw, self.inner.decode(self._key(raw))))

    def _why(self, raw: Column, key: Column) -> Column:
        short = F.concat(F.length(raw), F.lit(f" bytes are too few for {self.name}"))
        reason = F.when(F.length(raw) < self._tail, short)
        for before in range(0, self._tail, 8):
            time = _last(raw, before)
            reason = reason.when(~time.between(LEAST, MOST), F.concat(time, F.lit(" ms is no time of a window")))
        inner = self.inner.misfit(self._key(raw), key)
        return reason if inner is None else reason.otherwise(inner)

    def _key(self, raw: Column) -> Column:
        return F.substring(raw, F.lit(1), F.length(raw) - self._tail)

    def encode(self, value: Column) -> Column:
        start = call("Codec.fromLong", "binary", F.unix_millis(value["start"]))
        tail = [call("Codec.fromLong", "binary", F.unix_millis(value["end"])), start] if self.session else [start]
        return F.when(value.isNotNull(), F.concat(self.inner.encode(value["key"]), *tail))

    def loads(self, data: bytes | None) -> WindowedKey | None:
        if data is None:
            return None
        if len(data) < self._tail:
            raise ValueError(f"{len(data)} bytes are too few for {self.name}")
        key = self.inner.loads(data[: -self._tail])
        if self.session:
            last, first = struct.unpack(">qq", data[-16:])
            return WindowedKey(key, _time(first), _time(last))
        start = _time(struct.unpack(">q", data[-8:])[0])
        return WindowedKey(key, start, None if self.size is None else start + self.size)

    def dumps(self, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            cell = self._fit(_named(value))
            key = self.inner.dumps(cell["key"])
            if key is None or cell["start"] is None or (self.session and cell["end"] is None):
                raise ValueError("key and window must be there")
            times = [cell["end"], cell["start"]] if self.session else [cell["start"]]
            return key + struct.pack(f">{len(times)}q", *((time - EPOCH) // MILLISECOND for time in times))
        except ValueError as error:
            raise ValueError(f"{shown(value)} cannot be written as {self.name}: {error}") from None

    @property
    def plain(self) -> bool:
        return False

    def to_python(self, cell: Any) -> Any:
        if cell is None:
            return None
        return WindowedKey(self.inner.to_python(cell["key"]), cell["start"], cell["end"])

    def from_python(self, value: Any) -> Any:
        if value is None:
            return None
        named = _named(value)
        return self._times(named) | {"key": self.inner.from_python(named.get("key"))}

    @cached_property
    def _fit(self) -> Change:
        return lambda named: self._times(named) | {"key": named.get("key")}

    @cached_property
    def _times(self) -> Change:
        instant = fitter(TimestampType())
        return lambda named: {"start": instant(named.get("start")), "end": instant(named.get("end"))}


def _named(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, tuple) and 2 <= len(value) <= 3:
        return dict(zip(("key", "start", "end"), value))
    raise ValueError(f"{shown(value)} is no key with a window: (key, start, end)")


def _last(raw: Column, before: int) -> Column:
    return call("Codec.longFromEnd", "bigint", raw, F.lit(before))


def _time(milliseconds: int) -> datetime.datetime:
    if not LEAST <= milliseconds <= MOST:
        raise ValueError(f"{milliseconds} ms is no time of a window")
    return EPOCH + datetime.timedelta(milliseconds=milliseconds)
