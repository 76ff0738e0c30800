"""Streams: the records of topics and what becomes of them, one step after another.

Each method adds a step to the application's topology and returns the stream that comes out of it; nothing runs before
the application does. Where a function is plain Python, what it returns is typed by its annotation, or by `key=` and
`value=`; without either it may return anything that JSON can say (Auto).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde
from ottla.streams import topology as T
from ottla.streams.functions import Expression, Function, check, is_native
from ottla.streams.windows import JoinWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.streams.app import App
    from ottla.streams.table import GlobalTable, Table


class Stream:
    def __init__(self, app: App, node: T.Node) -> None:
        self.app = app
        self.node = node

    # -- record by record ----------------------------------------------------------------------------------------

    def map(
        self,
        function: Function | tuple[Expression, Expression],
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        name: str | None = None,
    ) -> Stream:
        """A new key and value for each record: a function (key, value) -> (key, value), or two expressions."""
        if is_native(function) and not isinstance(function, tuple):
            raise PipelineError("map takes two expressions, one for the key and one for the value: map((…, …))")
        return self._step("map", function, key, value, name)

    def map_values(self, function: Function, *, value: Serde | None = None, name: str | None = None) -> Stream:
        """A new value for each record: a function (value), or (key, value), or an expression."""
        return self._step("map_values", function, None, value, name)

    def flat_map(
        self, function: Function, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> Stream:
        """Any number of records for each: a function (key, value) -> pairs, or an array of structures (key, value)."""
        return self._step("flat_map", function, key, value, name)

    def flat_map_values(self, function: Function, *, value: Serde | None = None, name: str | None = None) -> Stream:
        """Any number of values for each, under the same key: a function (value) -> values, or an array expression."""
        return self._step("flat_map_values", function, None, value, name)

    def filter(self, predicate: Function, *, name: str | None = None) -> Stream:
        """Only the records for which the predicate (key, value) holds."""
        return self._step("filter", predicate, None, None, name)

    def filter_not(self, predicate: Function, *, name: str | None = None) -> Stream:
        """Only the records for which the predicate (key, value) does not hold."""
        return self._step("filter_not", predicate, None, None, name)

    def select_key(self, function: Function, *, key: Serde | None = None, name: str | None = None) -> Stream:
        """A new key for each record: a function (key, value), or an expression."""
        return self._step("select_key", function, key, None, name)

    def peek(self, function: Callable[..., Any], *, name: str | None = None) -> Stream:
        """Call a function (key, value) for each record on its way, for what it does; the record goes on as it is."""
        if is_native(function):
            raise PipelineError("peek calls a Python function for what it does; an expression does nothing")
        return self._step("peek", function, None, None, name)

    def split(self, **branches: Function) -> dict[str, Stream]:
        """Each record to the first branch whose predicate holds, else to `default`, which is always there."""
        if "default" in branches:
            raise PipelineError("the branch 'default' takes what no other does; it has no predicate of its own")
        result, rest = {}, self
        for name, predicate in branches.items():
            result[name] = rest.filter(predicate)
            rest = rest.filter_not(predicate)
        return {**result, "default": rest}

    def branch(self, *predicates: Function) -> list[Stream]:
        """As split(), by position: a stream per predicate. What fits none is dropped, as in Kafka Streams."""
        split = self.split(**{f"branch{n}": predicate for n, predicate in enumerate(predicates)})
        return [split[f"branch{n}"] for n in range(len(predicates))]

    def merge(self, *others: Stream, name: str | None = None) -> Stream:
        """The records of this stream and others, in no order between them."""
        nodes = (self.node, *(other.node for other in others))
        return Stream(self.app, self._add(T.Merge(name=self._name("merge", name), parents=nodes)))

    def process(
        self,
        processor: type[Any],
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        time: Literal["event", "processing"] = "processing",
        name: str | None = None,
    ) -> Stream:
        """Records through a Processor, with state and timers of its own for each key."""
        node = T.Process(
            name=self._name("process", name),
            parents=(self.node,),
            processor=processor,
            key=key,
            value=value,
            time=time,
        )
        return Stream(self.app, self._add(node))

    # -- out -----------------------------------------------------------------------------------------------------

    def to(
        self, topic: str | Function, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> None:
        """Write the records to a topic. A topic by record: a function (key, value) -> topic, or native()."""
        self._add(T.Sink(name=self._name("to", name), parents=(self.node,), topic=topic, key=key, value=value))

    def foreach(self, function: Callable[..., Any], *, name: str | None = None) -> None:
        """Call a function (key, value) for each record, in the executors."""
        self._add(T.Foreach(name=self._name("foreach", name), parents=(self.node,), function=function))

    def through(self, topic: str, *, name: str | None = None) -> Stream:
        """Write the records to a topic of yours, and go on with what is read from there."""
        return self._through(topic, None, name)

    def repartition(self, partitions: int | None = None, *, name: str | None = None) -> Stream:
        """Write the records to an internal topic by their key, and go on with what is read from there."""
        return self._through(None, partitions, name)

    def to_table(self, store: str | None = None, *, name: str | None = None) -> Table:
        """The newest value of each key; a record without a value deletes."""
        from ottla.streams.table import Table

        node = T.Through(
            name=self._name("table", name),
            parents=(self.node,),
            table=True,
            store=store,
            topic=None,
            partitions=None,
        )
        return Table(self.app, self._add(node))

    # -- groups and joins ----------------------------------------------------------------------------------------

    def group_by_key(self) -> Grouped:
        return Grouped(self)

    def group_by(self, function: Function, *, key: Serde | None = None) -> Grouped:
        """Group by another key: a function (key, value), or an expression."""
        return Grouped(self.select_key(function, key=key))

    def join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: Function,
        *,
        within: JoinWindow | None = None,
        key: Function | None = None,
        how: T.How = "inner",
        value: Serde | None = None,
        name: str | None = None,
    ) -> Stream:
        """Pairs of records with the same key, made one value by the joiner (left, right).

        With a stream, `within` says how far apart they may be. With a table, each record meets the row of its key as
        it is then. With a global table, `key` finds the row: a function (key, value), or an expression.
        """
        from ottla.streams.table import GlobalTable, Table

        node: T.Node
        if isinstance(other, Table | GlobalTable):
            if how == "outer":
                raise PipelineError(
                    "a stream joins a table inner or left: a row without a record has no time to appear"
                )
            if within is not None:
                raise PipelineError("a join with a table has no window: a record meets the row as it is then")
        if isinstance(other, GlobalTable):
            if key is None:
                raise PipelineError("a join with a global table needs key=: how a record finds its row")
            lookup = T.Lookup(
                name=self._name("lookup", name),
                parents=(self.node,),
                table_node=other.node,
                key_function=key,
                how=how,
            )
            node = self._add(lookup)
        elif key is not None:
            raise PipelineError("key= is for global tables; others are joined by the records' keys: select_key() first")
        elif isinstance(other, Table):
            node = self._join("stream_table", other.node, how, None, name)
        else:
            if within is None:
                raise PipelineError("a join of two streams needs a window: within=within(seconds=…)")
            node = self._join("stream_stream", other.node, how, within, name)
        return Stream(self.app, node)._step("join_values", joiner, None, value, None)

    def left_join(self, other: Stream | Table | GlobalTable, joiner: Function, **options: Any) -> Stream:
        return self.join(other, joiner, how="left", **options)

    def outer_join(self, other: Stream, joiner: Function, **options: Any) -> Stream:
        return self.join(other, joiner, how="outer", **options)

    # -- Spark ---------------------------------------------------------------------------------------------------

    @property
    def df(self) -> DataFrame:
        """The DataFrame that stands behind this stream, with the columns of a record."""
        return self.app.frame_of(self.node)

    def with_df(
        self,
        change: Callable[[DataFrame], DataFrame],
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        name: str | None = None,
    ) -> Stream:
        """Anything that Spark can do to the DataFrame; it must give columns `key` and `value` back."""
        node = T.Frames(name=self._name("frame", name), parents=(self.node,), change=change, key=key, value=value)
        return Stream(self.app, self._add(node))

    # -- making nodes --------------------------------------------------------------------------------------------

    def _name(self, kind: str, given: str | None) -> str:
        return self.app.topology.name(kind, given)

    def _add(self, node: T.N) -> T.N:
        return self.app.topology.add(node)

    def _step(
        self, operation: T.Operation, function: Any, key: Serde | None, value: Serde | None, name: str | None
    ) -> Stream:
        given = self._name(operation.replace("_", "-"), name)
        check(function, given)
        node = T.Step(name=given, parents=(self.node,), operation=operation, function=function, key=key, value=value)
        return Stream(self.app, self._add(node))

    def _through(self, topic: str | None, partitions: int | None, name: str | None) -> Stream:
        if partitions is not None and partitions < 1:
            raise PipelineError(f"a topic has at least one partition, not {partitions}")
        given = self._name("through" if topic else "repartition", name)
        node = T.Through(name=given, parents=(self.node,), topic=topic, partitions=partitions)
        return Stream(self.app, self._add(node))

    def _join(self, kind: Any, other: T.Node, how: T.How, window: JoinWindow | None, name: str | None) -> T.Join:
        node = T.Join(name=self._name("join", name), parents=(self.node, other), kind=kind, how=how, window=window)
        return self._add(node)


class Grouped:
    """Records by key, perhaps by windows too, to be made one value each."""

    def __init__(self, stream: Stream, window: Window | None = None) -> None:
        self._stream = stream
        self._window = window
        self._final = False

    def windowed_by(self, window: Window) -> Grouped:
        return Grouped(self._stream, window)

    def final(self) -> Grouped:
        """One result per window, when it has closed, in the place of one per update (suppress)."""
        if self._window is None:
            raise PipelineError("final() is for windows: what has no window is never final")
        if not self._window.grace_given:
            raise PipelineError("a final result waits for the window's grace: give one, for example grace=10")
        grouped = Grouped(self._stream, self._window)
        grouped._final = True
        return grouped

    def count(self, store: str | None = None, *, name: str | None = None) -> Table:
        """How many records, as a Long."""
        return self._aggregate(T.Count(), store, name)

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        store: str | None = None,
        *,
        value: Serde | None = None,
        name: str | None = None,
    ) -> Table:
        """The values made one by a Python function (one, other) -> one, from the first value on."""
        if is_native(function):
            raise PipelineError("reduce takes a Python function; expressions go to aggregate(), as in 'sum(value)'")
        return self._aggregate(T.Fold(None, function, None, None, value), store, name)

    def aggregate(
        self,
        *python: Any,
        store: str | None = None,
        value: Serde | None = None,
        merge: Callable[..., Any] | None = None,
        name: str | None = None,
        **named: Expression,
    ) -> Table:
        """Aggregates of all values of a key.

        aggregate("sum(value.price)")                                one expression
        aggregate(low="min(value.price)", n="count(*)")              several, that make a structure
        aggregate(top_n("value", by="value.gain", n=10))             the best of them
        aggregate(list, lambda key, value, total: [*total, value])   Python: a beginning, and what a record adds
        """
        native = (named and not python) or (len(python) == 1 and not named and is_native(python[0]))
        if native and (value is not None or merge is not None):
            raise PipelineError("value= and merge= are for Python functions; the type of an expression is its cast's")
        if native:
            how = T.Expressions(None, tuple(named.items())) if named else T.Expressions(python[0], ())
            return self._aggregate(how, store, name)
        if len(python) == 2 and not named and callable(python[0]) and callable(python[1]):
            return self._aggregate(T.Fold(python[0], python[1], None, merge, value), store, name)
        raise PipelineError(
            "aggregate takes one expression, named expressions, or two functions: init() and add(key, value, aggregate)"
        )

    def _aggregate(self, how: T.Count | T.Expressions | T.Fold, store: str | None, name: str | None) -> Table:
        from ottla.streams.table import Table

        app = self._stream.app
        node = T.Aggregate(
            name=app.topology.name("aggregate", name or store),
            parents=(self._stream.node,),
            table=True,
            store=store,
            how=how,
            window=self._window,
            final=self._final,
        )
        return Table(app, app.topology.add(node))
