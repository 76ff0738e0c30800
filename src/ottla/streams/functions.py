"""What a step is given to do: plain Python, or something that Spark runs without Python.

A step takes its function in one of four forms:

    lambda value: value.upper()           plain Python, called per record on Arrow batches in Spark's Python workers
    "upper(value)"                        a Spark SQL expression over the record's columns
    F.upper("value")                      a Spark column
    native(lambda value: F.upper(value))  a function that makes a Spark column, called when the application starts

The last three run natively, many times faster. The columns of a record are `key`, `value`, `timestamp`, `headers`,
`topic`, `partition` and `offset`; in a joiner they are `key`, `left` and `right`. A function for native() names those
that it wants as its parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

from ottla.pipelines.errors import PipelineError


@dataclass(frozen=True, slots=True)
class Native:
    """A function that makes a column of the columns that its parameters name."""

    build: Callable[..., Column]


def native(build: Callable[..., Any]) -> Native:
    """Mark a function as one that makes a Spark column, not one that is called with values."""
    return Native(build)


Expression: TypeAlias = str | Column | Native
Function: TypeAlias = Callable[..., Any] | Expression


def is_native(function: object) -> bool:
    if isinstance(function, tuple):
        return all(is_native(part) for part in function)
    return isinstance(function, str | Native | Column)


def check(function: object, step: str) -> None:
    """Refuse what is no function in any form."""
    parts = function if isinstance(function, tuple) else (function,)
    for part in parts:
        if not (is_native(part) or callable(part)):
            raise PipelineError(f"{step} takes a function, an expression or a column, not {part!r}")


def column(function: Expression, names: Sequence[str], step: str) -> Column:
    """The column that a native function stands for, over a frame with the columns `names`."""
    if isinstance(function, str):
        return F.expr(function)
    if isinstance(function, Column):
        return function
    wanted = list(inspect.signature(function.build).parameters)
    for name in wanted:
        if name not in names:
            raise PipelineError(f"{step} has a native function with a parameter {name!r}; there are {', '.join(names)}")
    made = function.build(*(F.col(name) for name in wanted))
    if not isinstance(made, Column):
        raise PipelineError(f"{step} has a native function that returned {made!r} instead of a column")
    return made


def label(function: object) -> str:
    """What to call a function in a picture of the topology."""
    if isinstance(function, str):
        return function
    if isinstance(function, Native):
        return f"native {label(function.build)}"
    if isinstance(function, Column):
        return str(function)
    if isinstance(function, tuple):
        return ", ".join(label(part) for part in function)
    name = getattr(function, "__name__", type(function).__name__)
    return "a lambda" if name == "<lambda>" else name
