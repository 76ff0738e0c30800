"""A tree of Python steps as one Python function: written out as source, compiled, called once per Arrow batch.

The source is loops and ifs over local variables, so that a record costs its users' functions and little else. Of
flat_map_values(str.split), filter(long), to("words", value=Text) it is, in essence:

    for i, v0 in enumerate(values):
        mark = len(rows)
        try:
            for v1 in f0(v0):
                if f1(v1):
                    rows.append(i); out_value.append(v1 if v1.__class__ is str else fit(v1))
        except Exception as error:
            failed(i, error); del rows[mark:], out_value[mark:]

Which step an exception comes from is told by the line in the traceback: nothing is noted while all goes well. A record
in which one function fails has no outputs at all: those that it already had are taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Bool, Bytes, Double, Float, Int, Long, Serde, Short, Text
from ottla.streams.steps import (
    Filter,
    FilterNot,
    FlatMap,
    FlatMapValues,
    Function,
    Map,
    MapValues,
    MapValuesWithKey,
    Output,
    Peek,
    SelectKey,
    Step,
    Tree,
    arguments,
)

DEEPEST = 18  # loops within loops; CPython takes 20 blocks within blocks, and the outer loop and the try are two
INDENTS = 90  # of the 100 that CPython takes


@dataclass(frozen=True, slots=True)
class Typed:
    """The end of a chain that goes on natively: key and value as cells of the given serdes' columns."""

    key: Serde
    value: Serde


@dataclass(frozen=True, slots=True)
class Code:
    """The compiled function, and what its caller needs to know.

    `run(count, keys, values, record, rows, columns, failed)`: `keys` and `values` are lists of the record frame's cells
    (of those in `uses`), `record(i, key, value)` makes a Record; `rows` gets the index of its record for each output,
    each list of `columns` its cell; `failed(i, error)` hears of each record that fails.
    """

    run: Callable[..., None]
    labels: Mapping[int, str]  # line → step
    uses: frozenset[str]  # of "key", "value", "record"
    straight: bool  # each record that does not fail has one output, in order: `rows` stays empty
    columns: tuple[str, ...]  # of "topic", "key", "value"; what is missing is the same as in the input
    topic: str | None  # the one topic of all outputs, if it is one
    setters: Mapping[str, str]  # column → the step that sets it, the last one where there are several

    def step(self, error: BaseException) -> str:
        """The step in which an exception that `run` reports was raised."""
        trace = error.__traceback__
        return self.labels.get(trace.tb_lineno, "?") if trace is not None else "?"


def compiled(tree: Tree, key: Serde, value: Serde, end: Typed | None = None) -> Code:
    """The code of a tree over records of the given serdes. With `end` it is a single chain and ends there."""
    return _Writer(key, value, tree, end).code()


def ends(tree: Tree) -> list[tuple[Output, bool, bool]]:
    """Each output of a tree; whether a step on the way to it sets the key, the value."""
    sets_key, sets_value = _sets(tree)
    below = [*tree.branches, *(case.then for case in tree.split)]
    found = [(output, False, False) for output in tree.outputs] + [end for branch in below for end in ends(branch)]
    return [(output, key or sets_key, value or sets_value) for output, key, value in found]


def _sets(tree: Tree) -> tuple[bool, bool]:
    """Whether a step of a tree's chain sets the key, the value."""
    sets_key = any(isinstance(step, Map | FlatMap | SelectKey) for step in tree.steps)
    return sets_key, any(not isinstance(step, SelectKey | Filter | FilterNot | Peek) for step in tree.steps)


def arrow_writes(serde: Serde) -> type | None:
    """The type of values that Arrow turns into the serde's bytes by itself."""
    return str if serde == Text else bytes if serde == Bytes else None


def _arrow_takes(serde: Serde) -> type | None:
    """The type of values that Arrow takes as they are for the serde's column, or refuses."""
    if serde in (Short, Int, Long):
        return int
    if serde in (Float, Double):
        return float
    return bool if serde == Bool else arrow_writes(serde)


@dataclass(frozen=True, slots=True)
class _Now:
    """The record at a place in the tree: the variables that hold it and the steps that set them."""

    depth: int
    loops: int = 0
    key: str = "k0"
    value: str = "v0"
    key_step: str = "reading the key"
    value_step: str = "reading the value"


@dataclass(slots=True)
class _Writer:
    key: Serde
    value: Serde
    tree: Tree
    end: Typed | None
    lines: list[str] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    uses: set[str] = field(default_factory=set)
    setters: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def code(self) -> Code:
        found = ends(self.tree)
        topics = {output.topic for output, _, _ in found}
        topic = topics.pop() if len(topics) == 1 else None
        only = topic if isinstance(topic, str) else None
        self.columns = self._columns(found, only)
        straight = self._straight(found)
        self._write_tree(self.tree, _Now(depth=3))
        body, body_labels, self.lines, self.labels = self.lines, self.labels, [], {}
        self._write_head(straight)
        labels = self.labels | {line + len(self.lines): label for line, label in body_labels.items()}
        source = "\n".join([*self.lines, *body, *self._tail(straight)]) + "\n"
        exec(compile(source, "<python stage>", "exec"), self.names)
        run = self.names["run"]
        return Code(run, labels, frozenset(self.uses), straight, self.columns, only, self.setters)

    def _columns(self, found: list[tuple[Output, bool, bool]], only: str | None) -> tuple[str, ...]:
        if self.end is not None:
            sets_key, sets_value = _sets(self.tree)
            key, value = sets_key or self.end.key != self.key, sets_value or self.end.value != self.value
            return (*(["key"] if key else []), *(["value"] if value else []))
        columns = [] if only is not None else ["topic"]
        if any(sets or output.key != self.key or arrow_writes(self.key) is None for output, sets, _ in found):
            columns.append("key")
        if any(sets or output.value != self.value or arrow_writes(self.value) is None for output, _, sets in found):
            columns.append("value")
        return tuple(columns)

    def _straight(self, found: list[tuple[Output, bool, bool]]) -> bool:
        """Whether the outputs are the records one by one: a chain of maps to one end."""
        tree, dropping = self.tree, Filter | FilterNot | FlatMap | FlatMapValues
        one = self.end is not None or (len(found) == 1 == len(tree.outputs))
        return one and not any(isinstance(step, dropping) for step in tree.steps)

    def _write_head(self, straight: bool) -> None:
        self._line(0, "def run(count, keys, values, record, rows, columns, failed):")
        self._line(1, "row = rows.append")
        for place, name in enumerate(self.columns):
            self._line(1, f"{name}_column = columns[{place}]")
            self._line(1, f"add_{name} = {name}_column.append")
        key, value = "key" in self.uses, "value" in self.uses
        loop = {
            (True, True): "for i, (k0, v0) in enumerate(zip(keys, values)):",
            (True, False): "for i, k0 in enumerate(keys):",
            (False, True): "for i, v0 in enumerate(values):",
            (False, False): "for i in range(count):",
        }
        self._line(1, loop[key, value])
        if not straight:
            self._line(2, "mark = len(rows)")
        self._line(2, "try:")
        for used, serde, name, variable in ((key, self.key, "key", "k0"), (value, self.value, "value", "v0")):
            if used and not serde.plain:
                self.names[f"load_{name}"] = serde.to_python
                self._line(3, f"{variable} = load_{name}({variable})", f"reading the {name}")

    def _tail(self, straight: bool) -> list[str]:
        lines = ["            pass", "        except Exception as error:", "            failed(i, error)"]
        if not straight:
            lines += [f"            del {name}[mark:]" for name in ("rows", *(f"{c}_column" for c in self.columns))]
        return lines

    def _line(self, depth: int, text: str, label: str = "") -> None:
        self.lines.append("    " * depth + text)
        if label:
            self.labels[len(self.lines)] = label

    def _bind(self, value: object) -> str:
        name = f"x{len(self.names)}"
        self.names[name] = value
        return name

    def _variable(self, letter: str) -> str:
        return f"{letter}{len(self.lines) + 1}"

    def _key(self, now: _Now) -> str:
        self.uses |= {"key"} if now.key == "k0" else set()
        return now.key

    def _value(self, now: _Now) -> str:
        self.uses |= {"value"} if now.value == "v0" else set()
        return now.value

    def _call(self, function: Function, natural: tuple[str, ...], label: str, now: _Now) -> str:
        """The text of a call of a user's function with what it asks for."""
        wanted = arguments(function, natural, label)
        texts = []
        for place, name in enumerate(wanted):
            if name == "record":
                self.uses.add("record")
                made = f"record(i, {self._key(now)}, {self._value(now)})"
                texts.append(f"record={made}" if place == len(wanted) - 1 else made)
            else:
                texts.append(self._key(now) if name == "key" else self._value(now))
        return f"{self._bind(function)}({', '.join(texts)})"

    def _write_tree(self, tree: Tree, now: _Now) -> None:
        for step in tree.steps:
            now = self._write_step(step, now)
            if now.loops > DEEPEST or now.depth > INDENTS:
                raise PipelineError(
                    f"{step.label} is one of too many Python steps in a row: put a repartition before it"
                )
        if self.end is not None:
            self._write_cells(self.end.key, self.end.value, now)
        for output in tree.outputs:
            self._write_output(output, now)
        for branch in tree.branches:
            self._write_tree(branch, now)
        word = "if"
        for case in tree.split:
            if case.when is not None:
                self._line(now.depth, f"{word} {self._call(case.when, Filter.natural, case.name, now)}:", case.name)
            else:
                self._line(now.depth, "else:" if word == "elif" else "if True:")
            self._line(now.depth + 1, "pass")
            self._write_tree(case.then, replace(now, depth=now.depth + 1))
            word = "elif"
            if case.when is None:
                break

    def _write_step(self, step: Step, now: _Now) -> _Now:
        label = step.label
        call = self._call(step.function, step.natural, label, now)
        match step:
            case Filter() | FilterNot():
                self._line(now.depth, f"if {'not ' if isinstance(step, FilterNot) else ''}{call}:", label)
                self._line(now.depth + 1, "pass")
                return replace(now, depth=now.depth + 1)
            case Peek():
                self._line(now.depth, call, label)
                return now
            case SelectKey():
                key = self._variable("k")
                self._line(now.depth, f"{key} = {call}", label)
                return replace(now, key=key, key_step=label)
            case MapValues() | MapValuesWithKey():
                value = self._variable("v")
                self._line(now.depth, f"{value} = {call}", label)
                return replace(now, value=value, value_step=label)
            case Map():
                return self._write_pair(call, now, label)
            case FlatMap() | FlatMapValues():
                self.names |= {"text": (str, bytes), "refuse": _refuse}
                many = self._variable("m")
                self._line(now.depth, f"{many} = {call}", label)
                self._line(now.depth, f"if {many}.__class__ in text: refuse({many})", label)
                inner = replace(now, depth=now.depth + 1, loops=now.loops + 1)
                if isinstance(step, FlatMapValues):
                    value = self._variable("v")
                    self._line(now.depth, f"for {value} in {many}:", label)
                    self._line(now.depth + 1, "pass")
                    return replace(inner, value=value, value_step=label)
                item = self._variable("e")
                self._line(now.depth, f"for {item} in {many}:", label)
                return self._write_pair(item, inner, label)
        raise PipelineError(f"{label} is no step that runs as Python")

    def _write_pair(self, expression: str, now: _Now, label: str) -> _Now:
        self.names["pair"] = pair
        both = self._variable("p")
        self._line(now.depth, f"{both} = {expression}", label)
        self._line(now.depth, f"if {both}.__class__ is not tuple or len({both}) != 2: {both} = pair({both})", label)
        key, value = self._variable("k"), self._variable("v")
        self._line(now.depth, f"{key}, {value} = {both}", label)
        return replace(now, key=key, value=value, key_step=label, value_step=label)

    def _write_output(self, output: Output, now: _Now) -> None:
        label = output.label
        topic = repr(output.topic)
        if not isinstance(output.topic, str):
            self.names["topic_name"] = _topic_name
            topic = self._variable("t")
            self._line(now.depth, f"{topic} = {self._call(output.topic, Filter.natural, label, now)}", label)
            self._line(now.depth, f"if {topic}.__class__ is not str or not {topic}: topic_name({topic})", label)
        self._write_cells(output.key, output.value, now, topic)

    def _write_cells(self, key: Serde, value: Serde, now: _Now, topic: str | None = None) -> None:
        """Make the cells of an output, each of which may fail, and only then add them. `topic`: it goes to a sink."""
        sink = topic is not None
        adds = [f"add_topic({topic})"] if "topic" in self.columns else []
        self.setters |= {"key": now.key_step, "value": now.value_step}
        if "key" in self.columns:
            adds.append(f"add_key({self._cell(key, self._key(now), now, now.key_step, sink)})")
        if "value" in self.columns:
            adds.append(f"add_value({self._cell(value, self._value(now), now, now.value_step, sink)})")
        if not self._straight(ends(self.tree)):
            adds.append("row(i)")
        self._line(now.depth, "; ".join(adds) or "pass")

    def _cell(self, serde: Serde, variable: str, now: _Now, label: str, sink: bool) -> str:
        fit = self._bind(serde.dumps if sink else serde.from_python)
        cell = self._variable("c")
        wanted = arrow_writes(serde) if sink else _arrow_takes(serde)
        if wanted is None:
            self._line(now.depth, f"{cell} = {fit}({variable})", label)
        else:
            check = f"{variable}.__class__ is {wanted.__name__} or {variable} is None"
            self._line(now.depth, f"{cell} = {variable} if {check} else {fit}({variable})", label)
        return cell


def pair(result: object) -> tuple[Any, Any]:
    """A (key, value), or TypeError."""
    if isinstance(result, tuple | list) and len(result) == 2:
        return result[0], result[1]
    raise TypeError(f"a (key, value) is needed, not {_brief(result)}")


def _refuse(result: object) -> None:
    raise TypeError(f"a list or other iterable of results is needed, not the {type(result).__name__} {_brief(result)}")


def _topic_name(result: object) -> None:
    raise TypeError(f"the name of a topic is needed, not {_brief(result)}")


def _brief(result: object) -> str:
    text = repr(result)
    return text if len(text) <= 80 else text[:77] + "..."
