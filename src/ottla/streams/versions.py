"""A new version of an application beside the old one (A3 DP17): the same inputs from the start, results of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from ottla.streams import topology as T
from ottla.streams.functions import Native, is_native

if TYPE_CHECKING:
    from ottla.streams.app import App


def divert(app: App, suffix: str) -> None:
    """Let an application read from the first record on, and write to topics with a suffix behind their names.

    Topics that it writes and reads itself (through) get the suffix, too: both versions would mix in them.
    """
    for node in app.topology.nodes:
        if isinstance(node, T.Source):
            node.start = "earliest"
        elif isinstance(node, T.Sink):
            node.topic = node.topic + suffix if isinstance(node.topic, str) else _suffixed(node.topic, suffix)
        elif isinstance(node, T.Through) and node.topic is not None:
            node.topic += suffix


def _suffixed(topic: Any, suffix: str) -> Any:
    """A function that names topics, with the suffix behind each name."""
    if isinstance(topic, Native):
        return Native(_wrapped(topic.build, lambda column: F.concat(column, F.lit(suffix))))
    if isinstance(topic, Column):
        return Native(lambda: F.concat(topic, F.lit(suffix)))
    assert not is_native(topic)
    return _wrapped(topic, lambda name: name + suffix)


def _wrapped(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    @wraps(function)
    def changed(*arguments: Any) -> Any:
        return change(function(*arguments))

    return changed
