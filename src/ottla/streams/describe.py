"""A topology in words, and as a picture: Mermaid text, or SVG drawn from the same boxes."""

from __future__ import annotations

from typing import Literal
from xml.sax.saxutils import escape

from ottla.streams import topology as T
from ottla.streams.functions import label
from ottla.streams.plan import Plan, Query

Form = Literal["text", "mermaid", "svg"]


def describe(plan: Plan, topology: T.Topology, form: Form = "text") -> str:
    if form == "mermaid":
        return mermaid(plan)
    if form == "svg":
        return svg(plan)
    return text(plan, topology)


# -- words -----------------------------------------------------------------------------------------------------------


def text(plan: Plan, topology: T.Topology) -> str:
    lines = [f"Topology of {plan.application}"]
    for number, query in enumerate(plan.queries):
        lines.append(f"  Query {number}: {query.name}")
        nodes = query.nodes()[::-1]
        inside = sorted(nodes, key=topology.nodes.index)
        for node in inside:
            children = [other.name for other in inside if node in other.parents and other is not node]
            lines.append(f"    {what(plan, query, node)}")
            if node.parents and not (query.is_input(node) and node not in query.outputs):
                lines.append(f"      <-- {', '.join(parent.name for parent in node.parents)}")
            if children:
                lines.append(f"      --> {', '.join(children)}")
    stores = topology.stores()
    if stores:
        lines.append("  Stores")
        lines.extend(f"    {name}: {node.name}, topic {plan.topic_of(node)}" for name, node in stores.items())
    return "\n".join(lines)


def what(plan: Plan, query: Query, node: T.Node) -> str:
    """A node in a line: what it does, under its name."""
    if query.is_input(node) and node not in query.outputs:
        if isinstance(node, T.Source):
            topics = f"pattern {node.pattern}" if node.pattern else f"topics [{', '.join(node.topics)}]"
            return f"{'Table' if node.table else 'Source'}: {node.name} ({topics})"
        return f"Source: {node.name} (topics [{plan.topic_of(node)}])"
    written = f", to topic {plan.topic_of(node)}" if node in plan.topics and node in query.outputs else ""
    return f"{_kind(node)}: {node.name}{_detail(node)}{written}"


def _kind(node: T.Node) -> str:
    match node:
        case T.Sink():
            return "Sink"
        case T.Aggregate() | T.Join() | T.Process() | T.Changes():
            return "State"
        case _:
            return "Step"


def _detail(node: T.Node) -> str:
    match node:
        case T.Step():
            return f" ({node.operation} {label(node.function)})"
        case T.Aggregate():
            window = f", {node.window}" if node.window else ""
            final = ", final" if node.final else ""
            return f" ({_aggregate(node)}{window}{final})"
        case T.Join():
            return f" ({node.how} join of {node.kind.replace('_', ' and ')})"
        case T.Lookup():
            return f" ({node.how} join with {node.table_node.topic} by {label(node.key_function)})"
        case T.Process():
            return f" ({node.processor.__name__})"
        case T.Sink():
            return f" (topic {node.topic if isinstance(node.topic, str) else 'by ' + label(node.topic)})"
        case T.Foreach():
            return f" ({label(node.function)})"
    return ""


def _aggregate(node: T.Aggregate) -> str:
    how = node.how
    if isinstance(how, T.Count):
        return "count"
    if isinstance(how, T.Fold):
        return f"Python {label(how.add)}"
    if how.single is not None:
        return label(how.single)
    return ", ".join(f"{name}={label(expression)}" for name, expression in how.named)


# -- pictures --------------------------------------------------------------------------------------------------------


def _boxes(plan: Plan) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Boxes (id, kind, words) and arrows between them; topics that queries share are boxes of their own."""
    boxes: dict[str, tuple[str, str, str]] = {}
    arrows: dict[tuple[str, str], None] = {}

    def topic(name: str) -> str:
        boxes.setdefault(f"topic:{name}", (f"topic:{name}", "topic", name))
        return f"topic:{name}"

    for number, query in enumerate(plan.queries):
        for node in sorted(query.nodes(), key=lambda n: (len(list(n.ancestry())), n.name)):
            own = f"{number}:{node.name}"
            if query.is_input(node) and node not in query.outputs:
                names = [node.pattern] if isinstance(node, T.Source) and node.pattern else None
                names = names or (list(node.topics) if isinstance(node, T.Source) else [plan.topic_of(node)])
                for name in names:
                    for child in query.nodes():
                        if node in child.parents:
                            arrows[topic(str(name)), f"{number}:{child.name}"] = None
                continue
            if isinstance(node, T.Sink) and isinstance(node.topic, str):
                ends = [topic(node.topic)]
            else:
                boxes[own] = (own, _kind(node).lower(), f"{node.name}{_detail(node)}")
                ends = [own]
            for parent in node.parents:
                if not query.is_input(parent):
                    arrows[f"{number}:{parent.name}", ends[0]] = None
                elif isinstance(node, T.Sink):
                    _from_input(plan, parent, ends[0], topic, arrows)
            if node in plan.topics and node in query.outputs:
                arrows[own, topic(plan.topic_of(node))] = None
    arrows = {pair: None for pair in arrows if pair[0] in boxes and pair[1] in boxes}
    return list(boxes.values()), list(arrows)


def _from_input(plan: Plan, parent: T.Node, end: str, topic: object, arrows: dict[tuple[str, str], None]) -> None:
    names = list(parent.topics) if isinstance(parent, T.Source) else [plan.topic_of(parent)]
    for name in names:
        arrows[topic(name), end] = None  # type: ignore[operator]


def mermaid(plan: Plan) -> str:
    boxes, arrows = _boxes(plan)
    ids = {box[0]: f"n{number}" for number, box in enumerate(boxes)}
    shapes = {"topic": '[("{}")]', "state": '[["{}"]]'}
    lines = ["flowchart TD"]
    for name, kind, words in boxes:
        shape = shapes.get(kind, '["{}"]')
        lines.append(f"    {ids[name]}{shape.format(words.replace(chr(34), '#quot;'))}")
    lines.extend(f"    {ids[one]} --> {ids[other]}" for one, other in arrows)
    return "\n".join(lines)


def svg(plan: Plan) -> str:
    """Layers from the inputs down; within a layer the boxes stand side by side."""
    boxes, arrows = _boxes(plan)
    layer = {box[0]: 0 for box in boxes}
    for _ in boxes:  # the longest way from an input; there are no circles
        for one, other in arrows:
            layer[other] = max(layer[other], layer[one] + 1)
    rows: dict[int, list[tuple[str, str, str]]] = {}
    for box in boxes:
        rows.setdefault(layer[box[0]], []).append(box)
    width, height, gap, down = 260, 44, 24, 90
    columns = max(len(row) for row in rows.values())
    total = columns * (width + gap) + gap
    place: dict[str, tuple[float, float]] = {}
    for number, row in sorted(rows.items()):
        left = (total - len(row) * (width + gap) + gap) / 2
        for position, box in enumerate(row):
            place[box[0]] = (left + position * (width + gap), gap + number * down)
    tall = gap + len(rows) * down
    fills = {"topic": "#fde9c8", "state": "#d7e8d4"}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{tall}" '
        'font-family="sans-serif" font-size="12">',
        '<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z"/></marker></defs>',
    ]
    for one, other in arrows:
        (x1, y1), (x2, y2) = place[one], place[other]
        ends = f'x1="{x1 + width / 2}" y1="{y1 + height}" x2="{x2 + width / 2}" y2="{y2}"'
        parts.append(f'<line {ends} stroke="#555" marker-end="url(#to)"/>')
    for name, kind, words in boxes:
        x, y = place[name]
        round_ = 20 if kind == "topic" else 4
        short = words if len(words) <= 40 else words[:39] + "…"
        fill = fills.get(kind, "#e4ebf5")
        place_ = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="{round_}" fill="{fill}" stroke="#555"'
        middle = f'x="{x + width / 2}" y="{y + height / 2 + 4}" text-anchor="middle"'
        parts.append(f"<rect {place_}/><text {middle}>{escape(short)}<title>{escape(words)}</title></text>")
    return "\n".join([*parts, "</svg>"])
