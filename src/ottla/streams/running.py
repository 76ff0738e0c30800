"""An application that runs: its queries on Spark, what watches them, and its stores.

Everything that can be refused is refused before the first query starts: an unreachable broker, an unknown topic, a
checkpoint that is another's or of another topology, an expression that names a missing column.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipelines import preflight, sink
from ottla.pipelines import session as sessions
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.explain import explain
from ottla.pipelines.poison import DeadLetters
from ottla.pipelines.progress import Progress
from ottla.pipelines.serdes import Bytes, Serde, Windowed
from ottla.pipelines.state_directory import Offsets
from ottla.streams import internal_topics, real_time
from ottla.streams import topology as T
from ottla.streams.compile import Compiled, Compiler
from ottla.streams.plan import Plan, Query
from ottla.streams.reading import Reading
from ottla.streams.stores import Store

if TYPE_CHECKING:
    from ottla.streams.app import App, Settings


class Running:
    def __init__(self, app: App, spark: SparkSession | None = None, *, console: bool = False) -> None:
        self.app = app
        settings = app.settings
        self.plan = app.plan()
        if settings.latency == "real-time":
            real_time.check(self.plan, settings.delivery)
        self._partitions = self._preflight(self.plan)
        self._lock = app.state.lock()
        try:
            self._know_again()
            self._begin(spark, console)
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, spark: SparkSession | None, console: bool) -> None:
        app, settings = self.app, self.app.settings
        self.spark = spark or sessions.session(_session(app))
        if settings.latency == "real-time":
            needed = real_time.slots_needed(self.plan, self._partitions)
            real_time.check_slots(needed, self.spark.sparkContext.defaultParallelism, settings.master)
        internal_topics.create(self.plan, self._partitions, _client(settings))
        self._compiler = Compiler(self.spark, self.plan, _reading(settings, app.state.starts()))
        compiled = self._compiler.compile()
        self.progress = Progress(app.id, settings.bootstrap, console=console, client=settings.kafka)
        self._stores: dict[str, Store] = {}
        self._server: Any = None
        self.queries: list[StreamingQuery] = []
        self._stopped = threading.Event()
        try:
            for one in compiled:
                self.queries.append(self._start(one))
            self._open_stores()
        except BaseException:
            self.stop()
            raise

    # -- start ---------------------------------------------------------------------------------------------------

    def _preflight(self, plan: Plan) -> dict[str, int]:
        """The partitions of all topics that are there; raises for what is not. Makes the topics that are written to."""
        settings = self.app.settings
        wanted = internal_topics.inputs(plan)
        wanted += [node.topic for node in self.app.topology.nodes if isinstance(node, T.Global)]
        there = preflight.existing(settings.bootstrap, settings.kafka)
        preflight.check_named(wanted, there, settings.bootstrap)
        written = [
            n.topic for q in plan.queries for n in q.outputs if isinstance(n, T.Sink) and isinstance(n.topic, str)
        ]
        written += [n.topic for n in plan.topics if isinstance(n, T.Through) and n.topic is not None]
        return internal_topics.create_outputs(written, there, self._tables(), _client(settings))

    def _tables(self) -> set[str]:
        """The topics that tables are written to: made by us, they are compacted."""
        sinks = [node for node in self.app.topology.nodes if isinstance(node, T.Sink)]
        return {node.topic for node in sinks if isinstance(node.topic, str) and node.parents[0].table}

    def _know_again(self) -> None:
        """Refuse a query that has no checkpoint where the one that it seems to have been before has one.

        Steps without a name are numbered, so that one more before them gives them another: all would be read again.
        """
        app, queries = self.app, {query.name: query for query in self.plan.queries}
        known = preflight.claimed(app.state.checkpoints)
        gone = [one for one in known if one.application == app.id and one.query not in queries]
        for name in sorted(queries.keys() - {one.query for one in known}):
            for one in gone:
                if again := sorted(set(one.topics) & set(self._topics_of(queries[name]))):
                    raise PipelineError(
                        f"the topology of {app.id} has changed: {name} is new and would read {', '.join(again)} from "
                        f"the start, which {one.query} has read and is gone. If it is the same step, give it its name, "
                        f"name={one.query!r}; if not, run the application under a new id beside the old one "
                        f"(--application-id), begin anew (ottla streams reset), or delete "
                        f"{app.state.checkpoints / one.query}"
                    )

    def _topics_of(self, query: Query) -> tuple[str, ...]:
        return tuple(sorted(name for node in query.inputs() for name in self.plan.reads(node)))

    def _start(self, compiled: Compiled) -> StreamingQuery:
        app, settings, query = self.app, self.app.settings, compiled.query
        name = f"{app.id}-{query.name}"
        checkpoint = app.state.checkpoints.absolute() / query.name
        self._claim(str(checkpoint), query)
        trigger = _trigger(settings)
        if isinstance(query.outputs[0], T.Foreach):
            started = sink.discard(
                compiled.frame, query=name, checkpoint=str(checkpoint), mode=compiled.mode, trigger=trigger
            )
        else:
            real = isinstance(trigger, sink.RealTime)
            started = sink.write(
                compiled.frame.drop("timestamp") if real else compiled.frame,
                bootstrap=settings.bootstrap,
                query=name,
                delivery=settings.delivery,
                checkpoint=str(checkpoint),
                mode="update" if real else compiled.mode,
                trigger=trigger,
                options=settings.kafka,
            )
        self.progress.follow(started, query.name)
        return started

    def _claim(self, checkpoint: str, query: Query) -> None:
        """Take a checkpoint for a query, or refuse one that is another's or was made for another state."""
        mine = preflight.Identity(self.app.id, query.name, self._topics_of(query), self.plan.fingerprint(query))
        theirs = preflight.check_checkpoint(checkpoint, mine)
        if theirs is None:
            preflight.claim_checkpoint(checkpoint, mine)
        elif theirs.fingerprint != mine.fingerprint:
            raise PipelineError(
                f"the topology of {self.app.id} has changed so that {query.name} cannot go on from its checkpoint: it "
                f"was [{theirs.fingerprint}], it is [{mine.fingerprint}]. Run it under a new id beside the old one "
                "(--application-id), or begin anew: ottla streams reset"
            )

    def _open_stores(self) -> None:
        settings = self.app.settings
        for name, node in self.app.topology.stores().items():
            key, value = self._compiler.serdes_of(node)
            window = node.window if isinstance(node, T.Aggregate) else None
            kind = None
            if isinstance(key, Windowed):
                kind, key = ("session" if key.session else "time"), key.inner
            self._stores[name] = Store(
                name,
                self.plan.topic_of(node),
                key,
                value,
                kind,  # type: ignore[arg-type]
                bootstrap=settings.bootstrap,
                directory=self.app.state.stores,
                size_ms=window.size_ms if window else 0,
                grace_ms=window.grace_ms if window else 0,
                client=settings.kafka,
            )
        if settings.http is not None:
            from ottla.streams.store_server import StoreServer

            self._server = StoreServer(self._stores, settings.http, registry=self.progress.registry, ails=self._ails)

    # -- while it runs -------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries)

    def _ails(self) -> str | None:
        """Why the application is not well, for those who ask over HTTP."""
        ended = [query.name for query in self.queries if not query.isActive]
        return f"not running: {', '.join(ended)}" if ended else None

    def store(self, name: str) -> Store:
        if name not in self._stores:
            there = ", ".join(sorted(self._stores)) or "none"
            raise PipelineError(f"application {self.app.id} has no store {name!r}; there are: {there}")
        return self._stores[name]

    def serdes_of_topic(self, topic: str) -> tuple[Serde, Serde]:
        """How the application reads or writes a topic."""
        if topic in self._compiler.written:
            return self._compiler.written[topic]
        for node in self.app.topology.nodes:
            if isinstance(node, T.Source) and node.reads(topic):
                return node.key, node.value
        for policy in (self.app.settings.on_error, self.app.settings.on_late):
            if isinstance(policy, DeadLetters) and policy.topic == topic:
                return Bytes, Bytes  # as the records were
        raise PipelineError(f"application {self.app.id} neither reads nor writes a topic {topic!r}")

    @property
    def http_address(self) -> str:
        """HOST:PORT at which stores answer."""
        if self._server is None:
            raise PipelineError(f'application {self.app.id} does not serve its stores: give it http="HOST:PORT"')
        return str(self._server.address)

    def process_all(self) -> None:
        """Wait until all that is in the topics now has gone through all queries; for tests."""
        for query in self.queries:
            self._watched(query.processAllAvailable)

    def check(self) -> None:
        """Raise what a query has failed with, if one has."""
        for query in self.queries:
            if not query.isActive:
                self._watched(lambda query=query: query.awaitTermination(0))  # type: ignore[misc]

    def wait(self) -> None:
        """Until a query fails, which is raised, or a signal or stop() ends all. More signals do not hurry it."""
        ended = threading.Event()
        with _signals(ended.set):
            try:
                while not ended.wait(0.2) and not self._stopped.is_set():
                    if not all(query.isActive for query in self.queries):
                        self.check()
                        return
            finally:
                self.stop()

    def stop(self) -> None:
        """Stop all queries and close the stores. The next start goes on where this one stopped."""
        self._stopped.set()
        with ExitStack() as all_of_it:  # from the last to the first, each also where one before it fails
            all_of_it.callback(self._lock.release)
            for store in self._stores.values():
                all_of_it.callback(store.close)
            if self._server is not None:
                all_of_it.callback(self._server.stop)
            all_of_it.callback(self.progress.stop)
            for store in self._stores.values():
                all_of_it.callback(store.leave)
            for query in self.queries[::-1]:
                all_of_it.callback(query.stop)

    def _watched(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except StreamingQueryException as failure:
            raise explain(failure) from None


def frame_of(app: App, node: T.Node) -> DataFrame:
    """The DataFrame behind a stream, for what Spark can do and the DSL cannot."""
    spark = sessions.session(_session(app))
    return Compiler(spark, app.plan(), _reading(app.settings)).frame_of(node)


def _session(app: App) -> sessions.Settings:
    settings = app.settings
    partitions = settings.partitions or os.cpu_count() or 2
    extra = {"spark.sql.shuffle.partitions": str(partitions), **settings.spark}
    return sessions.Settings(master=settings.master, name=app.id, extra=extra)


def _reading(settings: Settings, starts: Offsets | None = None) -> Reading:
    return Reading(
        bootstrap=settings.bootstrap,
        max_per_batch=settings.max_per_batch if settings.latency == "micro-batch" else None,
        real_time=settings.latency == "real-time",
        options=settings.kafka,
        poisoned=settings.on_error,
        late=settings.on_late,
        starts=starts or {},
    )


def _trigger(settings: Settings) -> sink.Trigger:
    if settings.latency == "real-time":
        return sink.RealTime(real_time.INTERVAL)
    return sink.Every(f"{settings.interval_ms} milliseconds")


def _client(settings: Settings) -> dict[str, str]:
    return {"bootstrap.servers": settings.bootstrap, **settings.kafka}


class _signals:
    """SIGINT and SIGTERM call a function meanwhile; only in the main thread, where Python allows it."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, lambda *_: self._call())

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
