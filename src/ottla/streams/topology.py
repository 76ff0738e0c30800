"""What an application does, as a graph: sources, steps, stores and sinks. Pure data, no Spark.

A node names its parents; its `table` says whether a newer record of a key replaces the older one. Stateful nodes are
those whose output depends on earlier records (Aggregate, Join, Changes, Process); plan.py cuts the graph between them.
A node's name is its kind and a number, unless the user gave one, and is unique; it names checkpoints and internal
topics, so a name given by hand keeps them over changes of the topology elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde
from ottla.pipelines.topics import Start
from ottla.streams.functions import Expression, Function
from ottla.streams.windows import JoinWindow, Window

NAME = re.compile(r"(?=.*[^.])[A-Za-z0-9._-]{1,80}")  # of steps and stores

How = Literal["inner", "left", "outer"]
Operation = Literal[
    "map", "map_values", "flat_map", "flat_map_values", "filter", "filter_not", "select_key", "peek", "join_values"
]


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    name: str
    parents: tuple[Node, ...] = ()
    table: bool = False
    store: str | None = None  # under which name interactive queries find it, of a table


@dataclass(eq=False, slots=True, kw_only=True)
class Source(Node):
    """Records of topics, by name or by a pattern. A table's source is the table's store."""

    topics: tuple[str, ...]
    pattern: str | None
    key: Serde
    value: Serde
    timestamp: Expression | None  # event time, where it is not the record's own timestamp
    start: Start = "earliest"

    def reads(self, topic: str) -> bool:
        return topic in self.topics or (self.pattern is not None and re.fullmatch(self.pattern, topic) is not None)


@dataclass(eq=False, slots=True, kw_only=True)
class Global(Node):
    """A topic that every executor holds whole."""

    topic: str
    key: Serde
    value: Serde


@dataclass(eq=False, slots=True, kw_only=True)
class Step(Node):
    """A record in, any number of records out, nothing kept."""

    operation: Operation
    function: Function | tuple[Expression, Expression]
    key: Serde | None  # what the function returns, where it is said
    value: Serde | None


@dataclass(eq=False, slots=True, kw_only=True)
class Merge(Node):
    """The records of several streams, in no order between them."""


@dataclass(eq=False, slots=True, kw_only=True)
class Through(Node):
    """Records written to a topic and read again: one of the user's, or an internal one with so many partitions."""

    topic: str | None
    partitions: int | None


@dataclass(frozen=True, slots=True)
class Count:
    """How many records."""


@dataclass(frozen=True, slots=True)
class Expressions:
    """Aggregates in Spark's words: a single one, or named ones that make a structure."""

    single: Expression | None
    named: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Python functions that keep a value per key. Without `init` the first value begins (reduce)."""

    init: Any  # Callable[[], Any] | None
    add: Any  # (key, value, aggregate) -> aggregate; of a reduce: (aggregate, value) -> aggregate
    subtract: Any  # the reverse, for tables whose rows change
    merge: Any  # (key, one, other) -> aggregate, of sessions
    result: Serde | None


@dataclass(eq=False, slots=True, kw_only=True)
class Aggregate(Node):
    """One value per key, or per key and window."""

    how: Count | Expressions | Fold
    window: Window | None
    final: bool  # only when a window has closed


@dataclass(eq=False, slots=True, kw_only=True)
class Join(Node):
    """Pairs of records. The joiner is a step of its own, that follows."""

    kind: Literal["stream_stream", "stream_table", "table_table"]
    how: How
    window: JoinWindow | None


@dataclass(eq=False, slots=True, kw_only=True)
class Lookup(Node):
    """Pairs of a record and a row of a global table, found by a key made of the record."""

    table_node: Global
    key_function: Function
    how: How


@dataclass(eq=False, slots=True, kw_only=True)
class Changes(Node):
    """What a table's row was and is, under the keys that a grouping gives both: the input of a table's aggregate."""

    key_function: Function
    key: Serde | None
    value_function: Function | None
    value: Serde | None


@dataclass(eq=False, slots=True, kw_only=True)
class Process(Node):
    """A user's processor with state and timers of its own."""

    processor: Any
    key: Serde | None
    value: Serde | None
    time: Literal["event", "processing"]


@dataclass(eq=False, slots=True, kw_only=True)
class Sink(Node):
    """Records to a topic, or to the one that a function names for each."""

    topic: str | Function
    key: Serde | None
    value: Serde | None


@dataclass(eq=False, slots=True, kw_only=True)
class Foreach(Node):
    """A function called for each record, in the executors, for what it does."""

    function: Any


@dataclass(eq=False, slots=True, kw_only=True)
class Frames(Node):
    """A user's DataFrame in the place of a stream, or a user's change of one."""

    change: Any  # (spark) -> DataFrame, or (DataFrame) -> DataFrame where the node has a parent
    key: Serde | None
    value: Serde | None


N = TypeVar("N", bound=Node)

STATEFUL = (Aggregate, Join, Changes, Process)


@dataclass(slots=True)
class Topology:
    nodes: list[Node] = field(default_factory=list)

    def name(self, kind: str, given: str | None) -> str:
        taken = {node.name for node in self.nodes}
        if given is not None:
            _check_name(given)
            if given in taken:
                raise PipelineError(f"two steps of the application are named {given!r}")
            return given
        return next(name for n in range(len(taken) + 1) if (name := f"{kind}-{len(self.nodes) + n}") not in taken)

    def add(self, node: N) -> N:
        if node.store is not None:
            _check_name(node.store)
            for other in self.nodes:
                if other.store == node.store:
                    raise PipelineError(f"two tables of the application are kept in a store named {node.store!r}")
        self.nodes.append(node)
        return node

    def stores(self) -> dict[str, Node]:
        return {node.store: node for node in self.nodes if node.store is not None}


def _check_name(name: str) -> None:
    """Of a step or a store: topics and directories have it in theirs."""
    if not NAME.fullmatch(name):
        raise PipelineError(f"{name!r} is no name of a step or a store: it has letters, digits, -, _ and ., up to 80")
