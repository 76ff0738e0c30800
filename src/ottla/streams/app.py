"""An application: its topology, and the ways to run it.

    app = App("wordcount", bootstrap="localhost:9092")
    lines = app.stream("wordcount-input", value=Text)
    …
    app.run()

The id names the application everywhere: its consumer group, its internal topics, its transactions, its checkpoint. It
is unique per cluster (A3 W4). What an application has to remember lies in `<state_dir>/<id>`: Spark's checkpoint per
query, and the files of its stores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ottla.pipelines import poison, topics
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde, Text
from ottla.pipelines.state_directory import DEFAULT, StateDirectory
from ottla.streams import topology as T
from ottla.streams.functions import Expression
from ottla.streams.plan import Plan, plan
from ottla.streams.stream import Stream
from ottla.streams.table import GlobalTable, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.streams.running import Running
    from ottla.streams.stores import Store

ID = re.compile(r"[A-Za-z0-9._-]{1,150}")

Delivery = Literal["at_least_once", "exactly_once"]
Latency = Literal["micro-batch", "real-time"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How an application runs; what it does is in its topology."""

    bootstrap: str = "localhost:9092"
    delivery: Delivery = "at_least_once"
    latency: Latency = "micro-batch"
    interval_ms: int = 100  # how often a batch begins, at most; 0: as soon as the last one is over
    max_per_batch: int | None = 1_000_000  # records, over all partitions
    on_error: poison.Policy = poison.fail
    on_late: poison.Policy = poison.skip
    state_dir: Path = DEFAULT
    master: str = "local[*]"
    partitions: int | None = None  # of the state; None: as many as the machine has cores
    http: str | None = None  # where stores answer over HTTP
    kafka: Mapping[str, str] = field(default_factory=dict)  # of all Kafka clients, as security
    spark: Mapping[str, str] = field(default_factory=dict)


_not_now: ContextVar[str | None] = ContextVar("not_now", default=None)


@contextmanager
def not_to_be_started(refusal: str) -> Iterator[None]:
    """While a file is loaded, its applications are made and not started; an attempt is answered with `refusal`."""
    token = _not_now.set(refusal)
    try:
        yield
    finally:
        _not_now.reset(token)


class App:
    def __init__(
        self,
        id: str,
        bootstrap: str = "localhost:9092",
        *,
        key: Serde = Text,
        value: Serde = Text,
        delivery: Delivery = "at_least_once",
        latency: Latency = "micro-batch",
        interval_ms: int = 100,
        max_per_batch: int | None = 1_000_000,
        on_error: poison.Policy = poison.fail,
        on_late: poison.Policy = poison.skip,
        state_dir: str | Path = DEFAULT,
        master: str = "local[*]",
        partitions: int | None = None,
        http: str | None = None,
        kafka: Mapping[str, str] | None = None,
        spark: Mapping[str, str] | None = None,
    ) -> None:
        self.rename(id)
        for name, given, legal in (
            ("delivery", delivery, ("at_least_once", "exactly_once")),
            ("latency", latency, ("micro-batch", "real-time")),
        ):
            if given not in legal:
                raise PipelineError(f"{name} is {' or '.join(legal)}, not {given!r}")
        self.topology = T.Topology()
        self.settings = Settings(
            bootstrap=bootstrap,
            delivery=delivery,
            latency=latency,
            interval_ms=interval_ms,
            max_per_batch=max_per_batch,
            on_error=on_error,
            on_late=on_late,
            state_dir=Path(state_dir),
            master=master,
            partitions=partitions,
            http=http,
            kafka=dict(kafka or {}),
            spark=dict(spark or {}),
        )
        self._key, self._value = key, value
        self._running: Running | None = None

    def rename(self, id: str) -> None:
        """Another id: another group, other internal topics, another state."""
        if not ID.fullmatch(id):
            raise PipelineError(f"{id!r} is no application id: use letters, digits, '.', '_' and '-', at most 150")
        self.id = id

    def change(self, **settings: object) -> None:
        """Other settings than those given at first, as the command line does."""
        self.settings = replace(self.settings, **settings)  # type: ignore[arg-type]

    # -- sources -------------------------------------------------------------------------------------------------

    def stream(
        self,
        *names: str,
        pattern: str | None = None,
        key: Serde | None = None,
        value: Serde | None = None,
        timestamp: Expression | None = None,
        start: topics.Start = "earliest",
        name: str | None = None,
    ) -> Stream:
        """The records of one or several topics, or of all whose name a pattern (a regular expression) matches.

        `timestamp` is an expression for the event time, where that is not the record's own: "value.time" (a timestamp,
        ISO 8601, or ms since 1970), or "current_timestamp()" for processing time.
        """
        return Stream(self, self.topology.add(self._source(names, pattern, key, value, timestamp, start, name)))

    def table(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        timestamp: Expression | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table:
        """A topic as a table: the newest value of each key; a record without a value deletes."""
        node = self._source((topic,), None, key, value, timestamp, "earliest", name)
        node.table, node.store = True, store
        return Table(self, self.topology.add(node))

    def global_table(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> GlobalTable:
        """A topic as a table that every executor holds whole: joined by any key, always as it is now."""
        node = T.Global(
            name=self.topology.name("global", name),
            table=True,
            store=store,
            topic=topic,
            key=key or self._key,
            value=value or self._value,
        )
        return GlobalTable(self, self.topology.add(node))

    def from_df(
        self,
        frame: DataFrame | Callable[[SparkSession], DataFrame],
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        name: str | None = None,
    ) -> Stream:
        """A streaming DataFrame of yours, with columns `key` and `value`, as a stream; or a function that makes it."""
        make = frame if callable(frame) else lambda spark: frame
        node = T.Frames(name=self.topology.name("frame", name), change=make, key=key, value=value)
        return Stream(self, self.topology.add(node))

    def _source(
        self,
        names: tuple[str, ...],
        pattern: str | None,
        key: Serde | None,
        value: Serde | None,
        timestamp: Expression | None,
        start: topics.Start,
        name: str | None,
    ) -> T.Source:
        if bool(names) == (pattern is not None):
            raise PipelineError("a stream is read from topics by name, or from those that pattern= matches")
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as wrong:
                raise PipelineError(f"the pattern {pattern!r} is no regular expression: {wrong}") from None
        return T.Source(
            name=self.topology.name("source", name),
            topics=names,
            pattern=pattern,
            key=key or self._key,
            value=value or self._value,
            timestamp=timestamp,
            start=start,
        )

    # -- what it is ----------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        return plan(self.id, self.topology)

    def describe(self, form: Literal["text", "mermaid", "svg"] = "text") -> str:
        """The topology in words, or as a picture."""
        from ottla.streams.describe import describe

        return describe(self.plan(), self.topology, form)

    # -- running -------------------------------------------------------------------------------------------------

    @property
    def state(self) -> StateDirectory:
        return StateDirectory(self.settings.state_dir, self.id)

    def start(self, spark: SparkSession | None = None, *, console: bool = False) -> Running:
        """Start all queries, and return."""
        from ottla.streams.running import Running

        if (refusal := _not_now.get()) is not None:
            raise PipelineError(refusal)
        if self._running is not None and self._running.is_active:
            raise PipelineError(f"application {self.id} runs already")
        self._running = Running(self, spark, console=console)
        return self._running

    def run(self, *, console: bool = True) -> None:
        """Start all queries, and wait until one fails or Ctrl-C or SIGTERM stops them."""
        self.start(console=console).wait()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def store(self, name: str) -> Store:
        """The table of that name, to be asked for rows. The application must run."""
        return self._active().store(name)

    def frame_of(self, node: T.Node) -> DataFrame:
        from ottla.streams.running import frame_of

        return frame_of(self, node)

    def _active(self) -> Running:
        if self._running is None:
            raise PipelineError(f"application {self.id} does not run: its stores answer after app.start()")
        return self._running
