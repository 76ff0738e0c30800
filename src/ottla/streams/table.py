"""Tables: the newest value of each key. A record without a value deletes the row.

Every table lies in a topic: the one it was read from, or the compacted `<application>-<store>-changelog` that the
query which makes it writes. Interactive queries and joins read it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde
from ottla.streams import topology as T
from ottla.streams.functions import Function, check
from ottla.streams.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.streams.app import App


class Table:
    def __init__(self, app: App, node: T.Node) -> None:
        self.app = app
        self.node = node

    def map_values(
        self, function: Function, *, value: Serde | None = None, store: str | None = None, name: str | None = None
    ) -> Table:
        """A new value for each row; deletions stay deletions."""
        return self._step("map_values", function, value, store, name)

    def filter(self, predicate: Function, *, store: str | None = None, name: str | None = None) -> Table:
        """Only the rows for which the predicate (key, value) holds; one that no longer does is deleted."""
        return self._step("filter", predicate, None, store, name)

    def filter_not(self, predicate: Function, *, store: str | None = None, name: str | None = None) -> Table:
        return self._step("filter_not", predicate, None, store, name)

    def to_stream(self) -> Stream:
        """The changes of the table as a stream. Of windows, the key is the pair of key and window."""
        return Stream(self.app, self.node)

    def to(self, topic: str, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None) -> None:
        """Write the changes to a topic; made by us it is compacted, so that it keeps the newest of each key."""
        self.to_stream().to(topic, key=key, value=value, name=name)

    def join(
        self,
        other: Table,
        joiner: Function,
        *,
        how: T.How = "inner",
        value: Serde | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table:
        """Rows of the same key in both tables, made one value by the joiner (left, right)."""
        if not isinstance(other, Table):
            raise PipelineError("a table joins a table; a stream joins a table with stream.join(table, …)")
        topology = self.app.topology
        node = topology.add(
            T.Join(
                name=topology.name("join", name),
                parents=(self.node, other.node),
                table=True,
                kind="table_table",
                how=how,
                window=None,
            )
        )
        return Table(self.app, node)._step("join_values", joiner, value, store, None)

    def left_join(self, other: Table, joiner: Function, **options: Any) -> Table:
        return self.join(other, joiner, how="left", **options)

    def outer_join(self, other: Table, joiner: Function, **options: Any) -> Table:
        return self.join(other, joiner, how="outer", **options)

    def group_by(
        self,
        key_function: Function,
        *,
        key: Serde | None = None,
        values: Function | None = None,
        value: Serde | None = None,
        name: str | None = None,
    ) -> GroupedTable:
        """Group the rows by another key, with another value if `values` is given, both functions of (key, value)."""
        topology = self.app.topology
        given = topology.name("changes", name)
        check(key_function, given)
        if values is not None:
            check(values, given)
        node = T.Changes(
            name=given,
            parents=(self.node,),
            key_function=key_function,
            key=key,
            value_function=values,
            value=value,
        )
        return GroupedTable(self.app, topology.add(node))

    @property
    def df(self) -> DataFrame:
        return self.app.frame_of(self.node)

    def _step(
        self, operation: T.Operation, function: Any, value: Serde | None, store: str | None, name: str | None
    ) -> Table:
        topology = self.app.topology
        given = topology.name(operation.replace("_", "-"), name)
        check(function, given)
        node = T.Step(
            name=given,
            parents=(self.node,),
            table=True,
            store=store,
            operation=operation,
            function=function,
            key=None,
            value=value,
        )
        return Table(self.app, topology.add(node))


class GroupedTable:
    """Rows of a table under other keys: a row that changes leaves its old group and joins its new one."""

    def __init__(self, app: App, node: T.Changes) -> None:
        self._app = app
        self._node = node

    def count(self, store: str | None = None, *, name: str | None = None) -> Table:
        """How many rows."""
        return self._aggregate(T.Count(), store, name)

    def reduce(
        self,
        add: Callable[[Any, Any], Any],
        subtract: Callable[[Any, Any], Any],
        store: str | None = None,
        *,
        value: Serde | None = None,
        name: str | None = None,
    ) -> Table:
        return self._aggregate(T.Fold(None, add, subtract, None, value), store, name)

    def aggregate(
        self,
        init: Callable[[], Any],
        add: Callable[[Any, Any, Any], Any],
        subtract: Callable[[Any, Any, Any], Any],
        store: str | None = None,
        *,
        value: Serde | None = None,
        name: str | None = None,
    ) -> Table:
        return self._aggregate(T.Fold(init, add, subtract, None, value), store, name)

    def _aggregate(self, how: T.Count | T.Fold, store: str | None, name: str | None) -> Table:
        topology = self._app.topology
        node = T.Aggregate(
            name=topology.name("aggregate", name or store),
            parents=(self._node,),
            table=True,
            store=store,
            how=how,
            window=None,
            final=False,
        )
        return Table(self._app, topology.add(node))


class GlobalTable:
    """A table that every executor holds whole, for joins by any key."""

    def __init__(self, app: App, node: T.Global) -> None:
        self.app = app
        self.node = node
