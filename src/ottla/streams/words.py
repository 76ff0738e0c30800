"""Steps and their functions in words, for people who look at a topology."""

from __future__ import annotations

import ast
import inspect
import linecache
from typing import Any

from ottla.streams import topology as T
from ottla.streams.functions import Native, is_native, label
from ottla.streams.windows import JoinWindow, Window

LONGEST = 60  # letters of a function
UNITS = (("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def detail(node: T.Node) -> str:
    """What a step does, where its name does not say it already."""
    match node:
        case T.Step():
            return _beside_name(node, node.operation, function(node.function))
        case T.Aggregate():
            parts = [_aggregate(node)]
            if node.window is not None:
                parts.append(window(node.window))
            return ", ".join([*parts, *(["final"] if node.final else [])])
        case T.Join():
            one, other = node.kind.split("_")
            apart = f", {join_window(node.window)}" if node.window is not None else ""
            return f"{node.how} join of {one} and {other}{apart}"
        case T.Lookup():
            return f"{node.how} join with {node.table_node.topic} by {function(node.key_function)}"
        case T.Changes():
            return f"rows by {function(node.key_function)}"
        case T.Process():
            return _beside_name(node, "process", getattr(node.processor, "__name__", str(node.processor)))
        case T.Sink():
            return f"topic {node.topic}" if isinstance(node.topic, str) else f"topic by {function(node.topic)}"
        case T.Foreach():
            return _beside_name(node, "foreach", function(node.function))
        case T.Frames():
            return _beside_name(node, "frame", function(node.change))
    return ""


def _beside_name(node: T.Node, operation: str, what: str) -> str:
    """Behind a name that was made of the operation, that need not be said again."""
    made = operation.replace("_", "-")
    return what if node.name.startswith(f"{made}-") and node.name[len(made) + 1 :].isdigit() else f"{operation} {what}"


def _aggregate(node: T.Aggregate) -> str:
    how = node.how
    if isinstance(how, T.Count):
        return "count"
    if isinstance(how, T.Fold):
        return f"{'reduce' if how.init is None else 'aggregate'} {function(how.add)}"
    if how.single is not None:
        return function(how.single)
    return ", ".join(f"{name} = {function(expression)}" for name, expression in how.named)


def function(given: Any) -> str:
    """A function as it was written, where that is short; else its name."""
    if isinstance(given, tuple):
        return ", ".join(function(part) for part in given)
    if isinstance(given, Native):
        return f"native {function(given.build)}"
    said = (None if is_native(given) else _lambda(given)) or label(given)
    said = " ".join(said.split())
    return said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"


def _lambda(given: Any) -> str | None:
    """The text of a lambda, in its file."""
    code = getattr(given, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return None
    try:
        lines, first = inspect.findsource(code)
        tree = ast.parse("".join(lines))
    except (OSError, SyntaxError, TypeError):
        return None
    linecache.checkcache(code.co_filename)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == first + 1]
    if len(found) > 1:  # several in one line: the one where the code's own instructions are
        places = {(line, column) for line, _, column, _ in code.co_positions() if column is not None}
        found = [node for node in found if _begins(node.body) & places]
    return ast.unparse(found[0]) if len(found) == 1 else None


def _begins(body: ast.expr) -> set[tuple[int | None, int | None]]:
    return {(node.lineno, node.col_offset) for node in ast.walk(body) if isinstance(node, ast.expr)}


def window(given: Window) -> str:
    if given.kind == "session":
        size = f"sessions with gaps of {span(given.size_ms)}"
    else:
        size = f"{given.kind} windows of {span(given.size_ms)}"
    advance = f" every {span(given.advance_ms)}" if given.kind == "hopping" else ""
    return f"{size}{advance}, grace {span(given.grace_ms)}"


def join_window(given: JoinWindow) -> str:
    if given.before_ms == given.after_ms:
        return f"within {span(given.before_ms)}"
    return f"from {span(given.before_ms)} before to {span(given.after_ms)} after"


def span(ms: int) -> str:
    for unit, length in UNITS:
        if ms >= length and ms % length == 0:
            return f"{ms // length} {unit}"
    return f"{ms} ms"
