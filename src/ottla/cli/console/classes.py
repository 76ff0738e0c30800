"""Classes by name, as Kafka's tools take them: one of Kafka's own, or one of the user's in Python.

Kafka's classes are known by their last name, whatever package stands before it: the package has changed over the
years (`kafka.tools.DefaultMessageFormatter`, `org.apache.kafka.tools.consumer.DefaultMessageFormatter`, A3 D8). What
Java finds on its CLASSPATH, Python finds on PYTHONPATH (A3 CO18): `package.module.Name` or `package.module:Name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeVar

from ottla.cli.common.invocation import Misconfigured

T = TypeVar("T")


def found(name: str, known: Mapping[str, T], option: str) -> T | Any:
    """What stands under a class's last name in `known`, or else the Python object of that path."""
    last = name.strip().rpartition(".")[2].rpartition("$")[2]
    if last in known:
        return known[last]
    module, _, attribute = name.replace(":", ".").rpartition(".")
    if not module:
        raise Misconfigured(f"{option} {name}: there are {', '.join(known)}, and Python's package.module.Name")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, ValueError) as error:
        raise Misconfigured(
            f"{option} {name}: neither one of {', '.join(known)} nor a Python class on PYTHONPATH ({error})"
        ) from None
    except AttributeError:
        raise Misconfigured(f"{option} {name}: the Python module {module} has no {attribute}") from None


def under_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The properties that begin with `prefix`, without it."""
    return {key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix) and key != prefix}
