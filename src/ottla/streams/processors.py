"""Processors: users' classes that see each record of a key and keep state and timers of their own (A3 W1).

    class Alert(Processor):
        def init(self, context):
            self.total = context.value_state("total", Double)

        def process(self, record):
            total = (self.total.get() or 0.0) + record.value
            self.total.set(total)
            if total > 10_000:
                yield record.key, total                     # or self.context.forward(record.key, total)
                self.context.register_timer(record.timestamp + 60_000)

        def on_timer(self, time):
            self.total.clear()

`init` runs once for each task and batch, and once when the application starts, to learn what the states are. State
belongs to the key of the record or timer at hand. Records of a key come in their turns (jvm/Turns.scala). A record for
which `process` raises has no effect: what it had forwarded and changed in states and timers is taken back (but not what
it changed inside of a value), and it goes where the poison policy says. An on_timer that raises fails the query.

Timers are those of the key, in ms, and fire once. Time "event": when stream time, the largest timestamp of all earlier
batches, is there; "processing": when the clock is. Setting one twice sets it once. After a restart of the application
those that are due fire at once (jvm/Source.scala).

A value with a time to live (`ttl`, seconds) is gone so long after it was last set, by the clock of the batch. Where all
states of a processor have one, keys that are no more seen are removed too, by Spark, and `time` must be "processing".

The state of a key travels to Python as a whole when the key is seen: keep lists and maps to thousands of entries. It is
a pickled dict, state's name → value, list of values, or dict of them; keys and values are bytes by their serdes, and
with a ttl a pair of the time that it ends (ms) and the bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde
from ottla.streams.keyed_python import (
    DELETE_TIMER,
    NO_KEY,
    SET_TIMER,
    Pass,
    TimeMode,
    delay_of,
    fitting,
    inside,
    keyed,
    received,
    results,
    watermarked,
)
from ottla.streams.python_aggregates import aggregate
from ottla.streams.python_code import pair
from ottla.streams.python_stage import reason_of
from ottla.streams.shipping import parcel
from ottla.streams.steps import Record

__all__ = ["Context", "ListState", "MapState", "Processor", "ValueState", "aggregate", "process"]

V = TypeVar("V")
K = TypeVar("K")
Headers = list[tuple[str, bytes | None]]
Time = Literal["event", "processing"]


class Processor:
    """What users derive from. `context` is there before `init` runs."""

    context: Context

    def init(self, context: Context) -> None:
        """Name the states."""

    def process(self, record: Record) -> Iterable[tuple[Any, Any]] | None:
        """A record has come. The (key, value) that it returns, or each that it yields, is forwarded."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def on_timer(self, time: int) -> Iterable[tuple[Any, Any]] | None:
        """A timer of the key `self.context.key` is due."""


def process(
    frame: DataFrame,
    key: Serde,
    value: Serde,
    processor: Callable[[], Processor],
    *,
    out_key: Serde,
    out_value: Serde,
    time_mode: Time = "processing",
    name: str = "process",
) -> DataFrame:
    """The records that a processor forwards, and the rows of those that failed (see keyed_python.results)."""
    if time_mode == "event":
        frame = watermarked(frame, 0)
    delay = delay_of(frame) or 0
    work = Work(key, value, processor, out_key, out_value, name, delay if time_mode == "event" else 0)
    context = work.learn()
    lives = [state.ttl_ms or 0 for state in context.states.values()]
    ttl = max(lives) if lives and all(lives) and time_mode == "processing" else 0
    needed: TimeMode = time_mode if time_mode == "event" or ttl or work.has_timers() else "none"
    sent = parcel(work, [(name, processor)])
    columns = received(out_key, out_value)
    return results(keyed(frame, inside(key).encode(F.col("key")), columns, sent, time=needed, ttl_ms=ttl))


@dataclass(frozen=True, slots=True)
class Work:
    """All that a worker needs to know of a processor."""

    key: Serde
    value: Serde
    processor: Callable[[], Processor]
    out_key: Serde
    out_value: Serde
    name: str
    delay: int = 0  # how far the watermark is behind stream time, in ms

    def __call__(self) -> Pass:
        return ProcessorPass(self)

    def make(self, context: Context) -> Processor:
        made = self.processor()
        if not isinstance(made, Processor):
            raise PipelineError(f"{self.name} takes a class that derives from Processor, not {self.processor!r}")
        made.context = context
        made.init(context)
        context.closed = True
        return made

    def has_timers(self) -> bool:
        """Whether it can have timers at all: it says what to do with them."""
        kind = self.processor if isinstance(self.processor, type) else type(self.processor())
        return getattr(kind, "on_timer", None) is not Processor.on_timer

    def learn(self) -> Context:
        """What states there are: `init` run once, here and now."""
        context = Context(ProcessorPass.__new__(ProcessorPass))
        try:
            self.make(context)
        except PipelineError:
            raise
        except Exception as error:
            raise PipelineError(f"{self.name}: init failed with {type(error).__name__}: {error}") from error
        return context


class Context:
    """What a processor can do: name states in `init`; forward and set timers in `process` and `on_timer`."""

    def __init__(self, owner: ProcessorPass) -> None:
        self._owner = owner
        self.states: dict[str, State] = {}
        self.closed = False

    def value_state(self, name: str, serde: Serde, ttl: float | None = None) -> ValueState[Any]:
        return self._named(ValueState(name, serde, ttl))

    def list_state(self, name: str, serde: Serde, ttl: float | None = None) -> ListState[Any]:
        return self._named(ListState(name, serde, ttl))

    def map_state(self, name: str, key: Serde, value: Serde, ttl: float | None = None) -> MapState[Any, Any]:
        return self._named(MapState(name, key, value, ttl))

    def _named(self, state: S) -> S:
        if self.closed:
            raise PipelineError(f"the state {state.name!r} must be named in init")
        if state.name in self.states:
            raise PipelineError(f"there are two states with the name {state.name!r}")
        if state.ttl_ms is not None and state.ttl_ms <= 0:
            raise PipelineError(f"the time to live of the state {state.name!r} must be above 0 s")
        self.states[state.name] = state
        return state

    @property
    def key(self) -> Any:
        """The key of the record or timer at hand."""
        return self._owner.key

    @property
    def now(self) -> int:
        """The time of the batch by the clock, in ms."""
        return self._owner.now

    @property
    def stream_time(self) -> int | None:
        """The largest timestamp of all earlier batches, in ms; None in the first, and with processing time."""
        return self._owner.stream_time

    def forward(self, key: Any, value: Any, *, timestamp: int | None = None, headers: Headers | None = None) -> None:
        """Send a record on; where they are not given, with the time and headers of the record or timer at hand."""
        self._owner.forward(key, value, timestamp, headers)

    def register_timer(self, time: int) -> None:
        self._owner.set_timer(SET_TIMER, time)

    def delete_timer(self, time: int) -> None:
        self._owner.set_timer(DELETE_TIMER, time)


class State:
    """A state of the key at hand: decoded when it is first asked for, encoded when the key is left."""

    def __init__(self, name: str, serde: Serde, ttl: float | None) -> None:
        self.name = name
        self.serde = inside(serde)
        self.ttl_ms = None if ttl is None else round(ttl * 1000)
        self.now = 0
        self.changed = False
        self.loaded = False
        self.raw: Any = None
        self.undo: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def enter(self, raw: Any, now: int) -> None:
        self.raw, self.now, self.changed, self.loaded = raw, now, False, False

    def _ends(self) -> int | None:
        return None if self.ttl_ms is None else self.now + self.ttl_ms

    def _read(self, raw: Any, serde: Serde) -> tuple[Any, int | None] | None:
        """A value and when it ends, None if it has."""
        data, ends = (raw[1], raw[0]) if raw.__class__ is tuple else (raw, None)
        return None if ends is not None and ends <= self.now else (serde.loads(data), ends)

    def _written(self, entry: tuple[Any, int | None]) -> Any:
        data = self.serde.dumps(entry[0])
        if data is None:
            raise ValueError(f"the state {self.name!r} cannot hold None")
        return data if entry[1] is None else (entry[1], data)

    def leave(self) -> Any:
        """What is to be kept of it: None for nothing."""
        raise NotImplementedError


S = TypeVar("S", bound=State)


class ValueState(State, Generic[V]):
    """One value, or None."""

    def __init__(self, name: str, serde: Serde, ttl: float | None) -> None:
        super().__init__(name, serde, ttl)
        self._entry: tuple[Any, int | None] | None = None

    def get(self) -> V | None:
        if not self.loaded:
            self.loaded = True
            self._entry = None if self.raw is None else self._read(self.raw, self.serde)
        return None if self._entry is None else self._entry[0]

    def exists(self) -> bool:
        return self.get() is not None

    def set(self, value: V) -> None:
        self.get()
        self._put(None if value is None else (value, self._ends()))

    update = set

    def clear(self) -> None:
        self.get()
        self._put(None)

    def _put(self, entry: tuple[Any, int | None] | None) -> None:
        self.undo.append((self._restore, (self._entry,)))
        self._entry = entry
        self.changed = True

    def _restore(self, entry: tuple[Any, int | None] | None) -> None:
        self._entry = entry

    def leave(self) -> Any:
        return None if self._entry is None else self._written(self._entry)


class ListState(State, Generic[V]):
    """A list of values."""

    def __init__(self, name: str, serde: Serde, ttl: float | None) -> None:
        super().__init__(name, serde, ttl)
        self._entries: list[tuple[Any, int | None]] = []

    def _all(self) -> list[tuple[Any, int | None]]:
        if not self.loaded:
            self.loaded = True
            read = (self._read(raw, self.serde) for raw in self.raw or ())
            self._entries = [entry for entry in read if entry is not None]
        return self._entries

    def get(self) -> list[V]:
        return [value for value, _ in self._all()]

    def __iter__(self) -> Iterator[V]:
        return iter(self.get())

    def __len__(self) -> int:
        return len(self._all())

    def append(self, value: V) -> None:
        self.extend([value])

    def extend(self, values: Iterable[V]) -> None:
        entries = self._all()
        self.undo.append((self._cut, (len(entries),)))
        entries.extend((value, self._ends()) for value in values)
        self.changed = True

    def set(self, values: Iterable[V]) -> None:
        self.undo.append((self._restore, (self._all(),)))
        self._entries = [(value, self._ends()) for value in values]
        self.changed = True

    def clear(self) -> None:
        self.set([])

    def _cut(self, length: int) -> None:
        del self._entries[length:]

    def _restore(self, entries: list[tuple[Any, int | None]]) -> None:
        self._entries = entries

    def leave(self) -> Any:
        return [self._written(entry) for entry in self._entries] or None


class MapState(State, Generic[K, V]):
    """Values by keys of their own."""

    def __init__(self, name: str, key: Serde, value: Serde, ttl: float | None) -> None:
        super().__init__(name, value, ttl)
        self.key = inside(key)
        self._entries: dict[Any, tuple[Any, int | None]] = {}

    def _all(self) -> dict[Any, tuple[Any, int | None]]:
        if not self.loaded:
            self.loaded = True
            read = ((self.key.loads(key), self._read(raw, self.serde)) for key, raw in (self.raw or {}).items())
            self._entries = {key: entry for key, entry in read if entry is not None}
        return self._entries

    def get(self, key: K, default: V | None = None) -> V | None:
        entry = self._all().get(key)
        return default if entry is None else entry[0]

    def put(self, key: K, value: V) -> None:
        self._put(key, (value, self._ends()))

    def remove(self, key: K) -> None:
        if key in self._all():
            self._put(key, None)

    def clear(self) -> None:
        for key in list(self._all()):
            self._put(key, None)

    def items(self) -> list[tuple[K, V]]:
        return [(key, entry[0]) for key, entry in self._all().items()]

    def keys(self) -> list[K]:
        return list(self._all())

    def values(self) -> list[V]:
        return [value for _, value in self.items()]

    def __contains__(self, key: K) -> bool:
        return key in self._all()

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def __getitem__(self, key: K) -> V:
        value: V = self._all()[key][0]
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def _put(self, key: Any, entry: tuple[Any, int | None] | None) -> None:
        entries = self._all()
        self.undo.append((self._restore, (key, entries.get(key))))
        self._restore(key, entry)
        self.changed = True

    def _restore(self, key: Any, entry: tuple[Any, int | None] | None) -> None:
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry

    def leave(self) -> Any:
        return {self.key.dumps(key): self._written(entry) for key, entry in self._entries.items()} or None


class ProcessorPass(Pass):
    """A processor among the keys of a task."""

    def __init__(self, work: Work) -> None:
        super().__init__(received(work.out_key, work.out_value))
        self.name, self.value = work.name, work.value
        self.delay = work.delay
        self.loads_key, self.to_python = inside(work.key).loads, work.value.to_python
        self.key_cell, self.value_cell = fitting(work.out_key), fitting(work.out_value)
        context = Context(self)
        self.processor = work.make(context)
        self.has_timers = work.has_timers()
        self.states = list(context.states.values())
        self.undo: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        for state in self.states:
            state.undo = self.undo
        self.at = b""
        self.key: Any = None
        self.time = 0
        self.headers: list[Any] | None = None
        self.kept: dict[str, Any] = {}

    @property
    def stream_time(self) -> int | None:
        return self.watermark + self.delay if self.watermark else None

    def enter(self, at: bytes, state: bytes | None) -> None:
        self.at = at
        self.key = None if at == NO_KEY else self.loads_key(at)
        self.kept = {} if state is None else pickle.loads(state)
        self._load()

    def _load(self) -> None:
        for state in self.states:
            state.enter(self.kept.get(state.name), self.now)

    def record(self, row: int) -> None:
        batch = self.batch
        self.time, self.headers = batch.times[row], batch.headers[row]
        mark = len(self.rows)
        self.undo.clear()
        try:
            pairs = [(header["key"], header["value"]) for header in self.headers or ()]
            value = self.to_python(batch.values[row])
            where = (batch.topics[row], batch.partitions[row], batch.offsets[row])
            self._forward_all(self.processor.process(Record(self.key, value, self.time, pairs, *where)))
        except Exception as error:
            del self.rows[mark:]
            for restore, arguments in reversed(self.undo):
                restore(*arguments)
            self.reject(row, error, self._key_bytes())

    def timer(self, time: int) -> None:
        """What fails here has no record to reject: it fails the query."""
        self.time, self.headers = time + self.delay, None
        try:
            self._forward_all(self.processor.on_timer(self.time))
        except Exception as error:
            raise RuntimeError(f"{reason_of(error, self.name)} (on_timer, key {self.key!r})") from error

    def _forward_all(self, made: Iterable[tuple[Any, Any]] | None) -> None:
        if made is None:
            return
        for each in [made] if made.__class__ is tuple else made:
            key, value = pair(each)
            self.forward(key, value, None, None)

    def forward(self, key: Any, value: Any, timestamp: int | None, headers: Headers | None) -> None:
        cells = self.headers if headers is None else [{"key": name, "value": data} for name, data in headers]
        time = self.time if timestamp is None else timestamp
        self.add_result(time, self.key_cell(key), self.value_cell(value), headers=cells)

    def set_timer(self, kind: int, time: int) -> None:
        if not self.has_timers:
            raise ValueError("a timer was set, and there is no on_timer for it")
        self.add_timer(kind, self.at, time - self.delay)

    def _key_bytes(self) -> bytes | None:
        return None if self.at == NO_KEY else self.at

    def leave(self, first: int, last: int, mark: int) -> None:
        if not any(state.changed for state in self.states):
            return
        kept = dict(self.kept)
        try:
            for state in self.states:
                if state.changed:
                    kept[state.name] = state.leave()
        except Exception as error:
            self.reject_all(first, last, mark, error, self._key_bytes())
        else:
            self.kept = {name: raw for name, raw in kept.items() if raw is not None}
            self.add_state(self.at, pickle.dumps(self.kept, 5) if self.kept else None)
        self._load()
