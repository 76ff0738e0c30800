"""Users' functions on their way to Spark's Python workers.

They travel as bytes inside what Spark itself pickles, and are unpickled when the worker first runs them. So a function
that cannot travel is found when the application starts, by its step; and a worker can be told beforehand where the
modules beside the user's script lie: it searches the driver's sys.path after its own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle

from ottla.pipelines.errors import PipelineError


@dataclass(frozen=True, slots=True)
class Parcel:
    data: bytes
    path: tuple[str, ...]

    def open(self) -> Any:
        sys.path.extend(entry for entry in self.path if entry not in sys.path)
        return cloudpickle.loads(self.data)


def parcel(content: object, functions: Iterable[tuple[str, object]]) -> Parcel:
    """`content` as bytes. `functions` are those in it, each with the name of its step, to say which cannot travel."""
    try:
        data = _pickled(content)
    except Exception as error:  # an object's own __reduce__ may raise anything
        for step, function in functions:
            _check(step, function)
        raise PipelineError(f"the functions of the application cannot be sent to Spark's workers: {error}") from error
    return Parcel(data, tuple(entry for entry in sys.path if entry))


def _pickled(content: object) -> bytes:
    pickled: bytes = cloudpickle.dumps(content)  # type: ignore[no-untyped-call]
    return pickled


def _check(step: str, function: object) -> None:
    try:
        _pickled(function)
    except Exception as error:
        culprit = _culprit(function)
        named = f" because of {culprit!r}" if culprit else ""
        raise PipelineError(
            f"{step} has a function that cannot go to Spark's workers{named} ({error}); make it inside the function"
        ) from error


def _culprit(function: object) -> str | None:
    """The name of the variable that a function closes over, or refers to, and that cannot be pickled."""
    if not callable(function):
        return None
    try:
        used = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):
        return None
    for name, value in {**used.nonlocals, **used.globals}.items():
        try:
            _pickled(value)
        except Exception:  # whatever it raised for the whole function
            return name
    return None
