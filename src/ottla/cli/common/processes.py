"""The brokers that run on this machine, as /proc shows them: `ottla broker`, `ottla up`, `kafka-server-start`.

A process is known by its command line. Which node it is follows from that, too: from its property file and overrides,
read in the directory where it runs, or from what lies in its data directory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from ottla.cli.broker import owner_of, properties_of
from ottla.cli.up import EMBEDDED
from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError

SERVING = ("broker", "server-start", "up")
DAEMON = ("-daemon", "--daemon")  # that process only starts the one that serves


class RunningBroker(NamedTuple):
    pid: int
    node_id: int | None  # None where that cannot be told


def running_brokers(proc: Path = Path("/proc"), user: int | None = None) -> list[RunningBroker]:
    """The brokers of this user, or of the one given, in the order of their processes' numbers."""
    wanted = os.getuid() if user is None else user
    found = []
    for entry in sorted((one for one in proc.iterdir() if one.name.isdigit()), key=lambda one: int(one.name)):
        try:
            if entry.stat().st_uid != wanted:
                continue
            words = serving_words(_command_line(entry))
            if words is not None:
                found.append(RunningBroker(int(entry.name), _node_id(words, (entry / "cwd").resolve())))
        except OSError:  # it has ended meanwhile
            continue
    return found


def still_serves(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether this number still is a broker's."""
    try:
        return serving_words(_command_line(proc / str(pid))) is not None
    except OSError:
        return False


def _command_line(entry: Path) -> list[str]:
    return (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]


def serving_words(command_line: Sequence[str]) -> list[str] | None:
    """`broker`, `up` or `server-start` and what follows it; None for a process that is no broker."""
    if not command_line:
        return None
    is_python = Path(command_line[0]).name.startswith("python")
    for at, word in enumerate(command_line[:6]):
        rest = list(command_line[at + 1 :])
        name = Path(word).name.removesuffix(".sh")
        if word == "-m" and is_python:
            words = rest[1:] if rest[:1] == ["ottla.cli"] else []
        elif not (at == 0 or is_python) or name not in ("ottla", "kafka-server-start"):
            continue
        else:
            words = rest if name == "ottla" else ["server-start", *rest]
        serves = bool(words) and words[0] in SERVING and not set(DAEMON) & set(words)
        return words if serves else None
    return None


def _node_id(words: Sequence[str], directory: Path) -> int | None:
    file, overrides = None, []
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name == "--override":
            overrides.append(value if equals else next(rest, ""))
        elif word.startswith("-"):
            if not equals:
                next(rest, None)  # every other option has a value
        elif file is None:
            file = str(directory / word)
    try:
        properties = (EMBEDDED if words[0] == "up" else {}) | properties_of(file, overrides)
        config = BrokerConfig.from_properties(properties)
    except (click.ClickException, ConfigError):
        return None
    if properties.keys() & {"node.id", "broker.id"}:
        return config.node_id
    owner = owner_of([directory / one for one in config.log_dirs])
    return int(owner) if owner is not None and owner.isdigit() else config.node_id
