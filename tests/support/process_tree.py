"""Processes below a process, found in /proc: to kill or freeze what a program has started and does not name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    name: str


def processes() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                fields = rest.split()
                if fields[0] != "Z":
                    yield Process(int(entry.name), int(fields[1]), int(fields[3]), name)


def in_session(leader: int) -> list[int]:
    """All that were started by a process that leads a session, whatever they have become since."""
    return [process.pid for process in processes() if process.session == leader]


def children(parent: int, name: str) -> list[int]:
    return [process.pid for process in processes() if process.parent == parent and process.name == name]


def send(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
