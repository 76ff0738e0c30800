"""From a topology to the queries that run it. Pure: no Spark.

A query reads topics, takes records through steps, at most one of them stateful, and writes topics. Where two stateful
steps follow each other, or meet in a merge, the records between them lie in an internal topic, as between the
sub-topologies of Kafka Streams (A3 AR6):

    <application>-<step>-repartition     records on their way to a stateful step
    <application>-<store>-changelog      the rows of a table; compacted

What several outputs share is read and worked out once where one pass can serve them (`fused`): when all steps on the
way to them are native, or all are Python. Otherwise each output has a query of its own, which reads the sources again,
or, after a stateful step, the topic that it is written to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ottla.pipelines.errors import PipelineError
from ottla.streams import topology as T
from ottla.streams.functions import is_native, label

Fusion = Literal["native", "python"]


@dataclass(frozen=True, slots=True)
class Internal:
    """A topic that belongs to the application."""

    topic: str
    compacted: bool
    partitions: int | None = None  # None: as many as the largest input has


@dataclass(slots=True)
class Query:
    name: str
    outputs: list[T.Node]  # sinks and foreach; other nodes are written to their own topic (Plan.topics)
    read_back: set[T.Node] = field(default_factory=set)  # nodes that this query reads from their topics
    fused: Fusion | None = None

    def stateful(self) -> T.Node | None:
        return next((node for node in self.nodes() if isinstance(node, T.STATEFUL)), None)

    def nodes(self) -> list[T.Node]:
        """The nodes that this query works out, outputs first; those read from topics are the last on their way."""
        seen: dict[int, T.Node] = {}
        waiting = list(self.outputs)
        while waiting:
            node = waiting.pop(0)
            if id(node) in seen:
                continue
            seen[id(node)] = node
            if not self.is_input(node) or node in self.outputs:
                waiting.extend(node.parents)
        return list(seen.values())

    def is_input(self, node: T.Node) -> bool:
        return isinstance(node, T.Source | T.Through) or node in self.read_back

    def inputs(self) -> list[T.Node]:
        return [node for node in self.nodes() if self.is_input(node) and node not in self.outputs]


@dataclass(slots=True)
class Plan:
    application: str
    queries: list[Query]
    topics: dict[T.Node, Internal]  # nodes that are written to topics of their own

    def topic_of(self, node: T.Node) -> str:
        """The topic that holds a node's records: that of the node, or of the source of a table."""
        if node in self.topics:
            return self.topics[node].topic
        if isinstance(node, T.Source) and len(node.topics) == 1:
            return node.topics[0]
        if isinstance(node, T.Global):
            return node.topic
        raise PipelineError(f"{node.name} lies in no topic of its own")

    def fingerprint(self, query: Query) -> str:
        """What a checkpoint must agree with: inputs, and the stateful step with what it keeps."""
        words = sorted(f"reads {','.join(self.reads(node))}" for node in query.inputs())
        stateful = query.stateful()
        if stateful is not None:
            words.append(_shape(stateful))
        return "; ".join(words)

    def reads(self, node: T.Node) -> tuple[str, ...]:
        """The topics that a query reads for an input of it, or the pattern of their names."""
        if isinstance(node, T.Source):
            return (node.pattern,) if node.pattern else node.topics
        return (self.topic_of(node),)


def plan(application: str, topology: T.Topology) -> Plan:
    return _Planner(application, topology).plan()


class _Planner:
    def __init__(self, application: str, topology: T.Topology) -> None:
        self._application = application
        self._topology = topology
        self._topics: dict[T.Node, Internal] = {}
        self._cuts: set[T.Node] = set()

    def plan(self) -> Plan:
        self._cut()
        for node in self._topology.stores().values():
            if not isinstance(node, T.Source | T.Global):
                self._give_topic(node)
        outputs = [
            node for node in self._topology.nodes if isinstance(node, T.Sink | T.Foreach) or node in self._topics
        ]
        if not outputs:
            raise PipelineError(f"application {self._application} writes nothing: end a stream with to() or foreach()")
        queries: list[Query] = []
        for root, group in self._by_root(outputs):
            queries.extend(self._queries(root, group))
        return Plan(self._application, _writers_first(queries), self._topics)

    # -- where topics lie between steps --------------------------------------------------------------------------

    def _cut(self) -> None:
        state_above: dict[T.Node, bool] = {}
        for node in self._topology.nodes:  # parents come first
            if isinstance(node, T.Through):
                self._give_topic(node)
            if isinstance(node, (T.Merge, *T.STATEFUL)):
                for parent in node.parents:
                    if state_above[parent]:
                        self._cuts.add(parent)
                        self._give_topic(parent)
            above = any(state_above[parent] and parent not in self._cuts for parent in node.parents)
            state_above[node] = isinstance(node, T.STATEFUL) or (above and not isinstance(node, T.Through))

    def _give_topic(self, node: T.Node) -> None:
        if node in self._topics:
            return
        if isinstance(node, T.Through) and node.topic is not None:
            self._topics[node] = Internal(node.topic, compacted=False)
            return
        suffix = "changelog" if node.table else "repartition"
        partitions = node.partitions if isinstance(node, T.Through) else None
        self._topics[node] = Internal(
            f"{self._application}-{node.store or node.name}-{suffix}", compacted=node.table, partitions=partitions
        )

    # -- outputs into queries ------------------------------------------------------------------------------------

    def _by_root(self, outputs: Iterable[T.Node]) -> list[tuple[T.Node, list[T.Node]]]:
        groups: dict[T.Node, list[T.Node]] = {}
        for output in outputs:
            groups.setdefault(self._root(output), []).append(output)
        return list(groups.items())

    def _root(self, output: T.Node) -> T.Node:
        """Where the steps to an output begin: a stateful step, a source, a merge, or a topic read back."""
        node = output if self._is_stop(output, output) else output.parents[0]
        while not self._is_stop(node, output):
            node = node.parents[0]
        return node

    def _is_stop(self, node: T.Node, output: T.Node) -> bool:
        if isinstance(node, T.Through):
            return node is not output
        return isinstance(node, (T.Source, T.Merge, *T.STATEFUL)) or not node.parents

    def _queries(self, root: T.Node, outputs: list[T.Node]) -> list[Query]:
        if len(outputs) == 1:
            return [self._query(outputs)]
        fused = _fusion(root, outputs)
        if fused is not None:
            return [self._query(outputs, fused)]
        if not isinstance(root, T.STATEFUL):
            return [self._query([output]) for output in outputs]
        shared = self._shared(root)
        self._give_topic(shared)
        rest = [output for output in outputs if output is not shared]
        return [self._query([shared]), *(self._query([output], read_back={shared}) for output in rest)]

    def _shared(self, root: T.Node) -> T.Node:
        """What all outputs of a stateful step read: its records; of a join, what its joiner makes of them."""
        if isinstance(root, T.Join):
            return next(node for node in self._topology.nodes if node.parents == (root,))
        return root

    def _query(
        self, outputs: Sequence[T.Node], fused: Fusion | None = None, read_back: set[T.Node] | None = None
    ) -> Query:
        query = Query("", list(outputs), set(read_back or ()), fused)
        for node in query.nodes():
            if isinstance(node, (T.Merge, *T.STATEFUL)):
                query.read_back.update(parent for parent in node.parents if parent in self._cuts)
        stateful = query.stateful()
        query.name = (stateful or outputs[0]).name
        return query


def _writers_first(queries: Sequence[Query]) -> list[Query]:
    """The queries so that one that reads a topic of the application comes after the one that writes it."""
    waiting, done = list(queries), list[Query]()
    while waiting:
        written = {node for query in done for node in query.outputs}
        ready = [q for q in waiting if all(isinstance(n, T.Source) or n in written for n in q.inputs())]
        done.extend(ready)
        waiting = [query for query in waiting if query not in ready]
        assert ready, "a topology has no circles"
    return done


def _fusion(root: T.Node, outputs: Sequence[T.Node]) -> Fusion | None:
    """How one pass can serve several outputs below a node, if it can."""
    steps = [node for output in outputs for node in _below(root, output)]
    if any(
        isinstance(node, T.Foreach) or not isinstance(node, T.Step | T.Sink | T.Aggregate | T.Process | T.Changes)
        for node in steps
    ):
        return None
    functions = [node.function for node in steps if isinstance(node, T.Step)]
    functions += [node.topic for node in steps if isinstance(node, T.Sink) and not isinstance(node.topic, str)]
    explodes = any(isinstance(node, T.Step) and node.operation.startswith("flat_map") for node in steps)
    if all(is_native(function) for function in functions) and not explodes:
        return "native"
    if not any(is_native(function) for function in functions):
        return "python"
    return None


def _below(root: T.Node, output: T.Node) -> list[T.Node]:
    """The nodes from below a root down to an output, in order."""
    path: list[T.Node] = []
    node = output
    while node is not root:
        path.append(node)
        node = node.parents[0]
    return path[::-1]


def _shape(node: T.Node) -> str:
    """What a stateful step keeps, in words that change when the state does."""
    if isinstance(node, T.Aggregate):
        how = node.how
        if isinstance(how, T.Expressions):
            parts = [label(how.single)] if how.single is not None else [f"{n}={label(e)}" for n, e in how.named]
            what = ", ".join(parts)
        else:
            what = type(how).__name__.lower()
        window = f" in {node.window.kind} windows" if node.window else ""
        return f"aggregates {what}{window}{' when closed' if node.final else ''}"
    if isinstance(node, T.Join):
        return f"joins {node.kind} {node.how}"
    if isinstance(node, T.Process):
        return f"processes by {node.processor.__name__}"
    return "keeps the rows of a table"
