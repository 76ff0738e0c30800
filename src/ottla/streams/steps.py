"""Steps that call a user's plain Python function for each record, as values; python_stage.py runs them.

A function is called with what it asks for by its parameters:

    lambda value: …                 the value
    lambda key: …                   the key, if that is the parameter's name
    lambda key, value: …            both
    lambda value, record: …         and the whole Record: key, value, timestamp, headers, topic, partition, offset
    lambda record: …                the Record alone

so one that has a parameter named `record` gets the Record there, two others are key and value, and a single other is
the value. Parameters with a default are left alone. What tells nothing of its parameters (some built-in functions) is
called as the step says: with the value for map_values and flat_map_values, else with key and value.

Consecutive steps form a Tree: a chain, and at its end outputs, branches that all get each record, and a split, of which
the first branch whose condition holds gets it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from ottla.pipelines.serdes import Serde

Function = Callable[..., Any]


class Record(NamedTuple):
    """What a function gets of a record beyond key and value. Where a step before it has lost something, it is None."""

    key: Any
    value: Any
    timestamp: int | None = None  # ms since 1970
    headers: list[tuple[str, bytes | None]] | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a chain. `name` is what errors call it; its kind when not given."""

    function: Function
    name: str = ""

    kind: ClassVar[str]
    natural: ClassVar[tuple[str, ...]] = ("key", "value")

    @property
    def label(self) -> str:
        return self.name or self.kind


class Map(Step):
    """To one (key, value)."""

    kind = "map"


class MapValues(Step):
    kind = "map_values"
    natural = ("value",)


class MapValuesWithKey(Step):
    kind = "map_values"


class FlatMap(Step):
    """To any number of (key, value)."""

    kind = "flat_map"


class FlatMapValues(Step):
    """To any number of values, each with the key as it is."""

    kind = "flat_map_values"
    natural = ("value",)


class Filter(Step):
    kind = "filter"


class FilterNot(Step):
    kind = "filter_not"


class SelectKey(Step):
    kind = "select_key"


class Peek(Step):
    """Calls the function and goes on with the record as it is."""

    kind = "peek"


@dataclass(frozen=True, slots=True)
class Output:
    """A topic that records go to, or a function that names it for each."""

    topic: str | Function
    key: Serde
    value: Serde
    name: str = ""

    @property
    def label(self) -> str:
        return self.name or "to"


@dataclass(frozen=True, slots=True)
class Tree:
    steps: tuple[Step, ...] = ()
    outputs: tuple[Output, ...] = ()
    branches: tuple[Tree, ...] = ()
    split: tuple[Case, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A branch of a split and the condition under which it takes a record; None takes all that is left."""

    when: Function | None
    then: Tree
    name: str = "split"


def arguments(function: Function, natural: tuple[str, ...], label: str) -> tuple[str, ...]:
    """Which of "key", "value" and "record" a function is called with, in which order; a last "record" by its name."""
    if not callable(function):
        raise PipelineError(f"{label} takes a function, not {function!r}")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return natural
    record: int | None = None  # how many others stand before it
    wanted = 0
    for parameter in parameters:
        if parameter.name == "record" and parameter.kind is not parameter.POSITIONAL_ONLY:
            record = wanted
        elif parameter.kind is parameter.VAR_POSITIONAL:
            wanted = len(natural)
        elif parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY:
            raise PipelineError(f"{label} has a function that needs {parameter.name}=; it is called with (key, value)")
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            wanted += 1
    if wanted == 0 and record is None:  # all have defaults, or there are none
        wanted = min(len(natural), sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters))
    forms = {1: ["value"], 2: ["key", "value"]} | ({} if record is None else {0: []})
    if wanted not in forms:
        raise PipelineError(
            f"{label} has a function of {wanted} parameters; it takes (value), (key, value) or either with record"
        )
    names = forms[wanted]
    if wanted == 1 and "key" in natural and any(parameter.name == "key" for parameter in parameters):
        names = ["key"]
    if record is not None:
        names.insert(record, "record")
    return tuple(names)
