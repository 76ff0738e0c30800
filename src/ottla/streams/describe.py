"""A topology in words, and as a picture: Mermaid text, or SVG drawn from the same boxes (drawing.py).

In the picture topics are boxes of their own, so that one sees where queries meet: what a query reads and writes lies
in topics, and only there.
"""

from __future__ import annotations

from typing import Literal

from ottla.streams import topology as T
from ottla.streams.drawing import Box, Picture, svg
from ottla.streams.plan import Plan, Query
from ottla.streams.words import detail

Form = Literal["text", "mermaid", "svg"]


def describe(plan: Plan, topology: T.Topology, form: Form = "text") -> str:
    if form == "mermaid":
        return mermaid(picture(plan, topology), plan)
    if form == "svg":
        return svg(picture(plan, topology))
    return text(plan, topology)


# -- words -----------------------------------------------------------------------------------------------------------


def text(plan: Plan, topology: T.Topology) -> str:
    lines = [f"Topology of {plan.application}"]
    for number, query in enumerate(plan.queries):
        lines.append(f"  Query {number}: {query.name}")
        inside = sorted(query.nodes(), key=topology.nodes.index)
        for node in inside:
            children = [other.name for other in inside if node in other.parents and other is not node]
            lines.append(f"    {_line(plan, query, node)}")
            if node.parents and not _is_read(query, node):
                lines.append(f"      <-- {', '.join(parent.name for parent in node.parents)}")
            if children:
                lines.append(f"      --> {', '.join(children)}")
    stores = topology.stores()
    if stores:
        lines.append("  Stores")
        lines.extend(f"    {name}: topic {plan.topic_of(node)}" for name, node in stores.items())
    return "\n".join(lines)


def _line(plan: Plan, query: Query, node: T.Node) -> str:
    """A node in a line: what it does, under its name."""
    if _is_read(query, node):
        topics = ", ".join(plan.reads(node))
        pattern = isinstance(node, T.Source) and node.pattern
        said = f"pattern {topics}" if pattern else f"topics [{topics}]"
        return f"{'Table' if node.table else 'Source'}: {node.name} ({said})"
    said = f" ({words})" if (words := detail(node)) else ""
    written = f", to topic {plan.topic_of(node)}" if node in plan.topics and node in query.outputs else ""
    return f"{_kind(node).capitalize()}: {node.name}{said}{written}"


def _is_read(query: Query, node: T.Node) -> bool:
    """Whether a query reads this node from its topic."""
    return query.is_input(node) and node not in query.outputs


def _kind(node: T.Node) -> Literal["sink", "state", "step"]:
    if isinstance(node, T.Sink | T.Foreach):
        return "sink"
    return "state" if isinstance(node, T.STATEFUL) else "step"


# -- pictures --------------------------------------------------------------------------------------------------------


def picture(plan: Plan, topology: T.Topology) -> Picture:
    drawn = Picture()

    def topic(name: str) -> str:
        return drawn.box(Box(f"topic {name}", "topic", name))

    def ends(number: int, query: Query, node: T.Node) -> list[str]:
        """The boxes in which a node's records lie."""
        if isinstance(node, T.Global):
            return [topic(node.topic)]
        if _is_read(query, node):
            return [topic(name) for name in plan.reads(node)]
        if isinstance(node, T.Sink) and isinstance(node.topic, str):
            return [topic(node.topic)]
        if isinstance(node, T.Through):
            return [topic(plan.topic_of(node))]
        kind = _kind(node)
        return [drawn.box(Box(f"{number} {node.name}", kind, node.name, detail(node), number))]

    for number, query in enumerate(plan.queries):
        for node in sorted(query.nodes(), key=topology.nodes.index):
            places = ends(number, query, node)
            if _is_read(query, node):
                continue
            above = [*node.parents, *([node.table_node] if isinstance(node, T.Lookup) else [])]
            for parent in above:
                for start in ends(number, query, parent):
                    drawn.arrow(start, places[0])
            if node in plan.topics and node in query.outputs and not isinstance(node, T.Through):
                drawn.arrow(places[0], topic(plan.topic_of(node)))
    return drawn


def mermaid(drawn: Picture, plan: Plan) -> str:
    shapes = {"topic": '[("{}")]', "state": '[["{}"]]', "sink": '(["{}"])', "step": '["{}"]'}
    ids = {box.id: f"n{number}" for number, box in enumerate(drawn.boxes.values())}

    def line(box: Box) -> str:
        words = "<br/>".join(_escaped(part) for part in (box.title, box.detail) if part)
        return f"{ids[box.id]}{shapes[box.kind].format(words)}"

    lines = ["flowchart TD"]
    lines.extend(f"    {line(box)}" for box in drawn.boxes.values() if box.query is None)
    for number, query in enumerate(plan.queries):
        inside = [box for box in drawn.boxes.values() if box.query == number]
        if inside:
            lines.append(f'    subgraph q{number}["query {number}: {_escaped(query.name)}"]')
            lines.extend(f"        {line(box)}" for box in inside)
            lines.append("    end")
    lines.extend(f"    {ids[start]} --> {ids[end]}" for start, end in drawn.arrows)
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """As Mermaid wants signs that mean something to it."""
    for sign, name in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):  # its own sign first
        text = text.replace(sign, name)
    return text
