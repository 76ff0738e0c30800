"""Members of groups as processes of their own, with any client, so that they can be killed and frozen.

Each writes lines of JSON as it goes:

    {"owns": [0, 2]}                     its partitions, whenever they change
    {"read": [0, 17, "value"]}           partition, offset and value of a record
    {"refused": "ILLEGAL_GENERATION"}    a commit that the broker did not take
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import chain
from time import monotonic, sleep
from typing import Any

import pytest

from support.clients.driven import JS, LEGACY, PROGRAMS

PATIENCE = 60.0
KINDS = ("confluent", "consumer", "cooperative", "kafka_python", "aiokafka", "kafkajs", "legacy")


class Member:
    """One member, from its making on. `owned` is what it last said that it owns."""

    def __init__(self, kind: str, bootstrap: str, group: str, topic: str) -> None:
        environment = dict(os.environ)
        words = [sys.executable, str(PROGRAMS / "members/member.py"), kind]
        needs = None
        if kind == "kafkajs":
            words, needs = ["node", str(PROGRAMS / "js/member.js")], JS
            environment["NODE_PATH"] = str(JS)
        elif kind == "legacy":
            needs = LEGACY
            environment["PYTHONPATH"] = str(LEGACY)
        if needs is not None and not needs.exists():
            pytest.fail(f"{needs} is missing: make build/.clients installs it")
        self.owned: list[int] = []
        self.read: list[tuple[int, int, str]] = []
        self.refused: list[str] = []
        self._process = subprocess.Popen(
            [*words, bootstrap, group, topic],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "owns" in said:
                self.owned = said["owns"]
            elif "read" in said:
                partition, offset, value = said["read"]
                self.read.append((partition, offset, value))
            else:
                self.refused.append(said["refused"])

    @property
    def values(self) -> set[str]:
        return {value for _, _, value in list(self.read)}

    def __repr__(self) -> str:
        state = f"owns {self.owned}, has read {len(self.values)} values"
        return f"<member: {state}, commits refused: {self.refused}, exit status {self._process.poll()}>"

    def kill(self) -> None:
        self._process.kill()
        self._ended()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Let it leave its group and end."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("a member did not end") from None
        self._ended()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._ended()

    def _ended(self) -> None:
        self._process.wait()
        self._listener.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.owned = []


def until(true: Callable[[], bool], what: str | Callable[[], str]) -> None:
    """Wait for it; the members are other processes, so there is nothing to be woken by."""
    deadline = monotonic() + PATIENCE
    while not true():
        assert monotonic() < deadline, what if isinstance(what, str) else what()
        sleep(0.01)


def shared(members: list[Member], partitions: int) -> bool:
    """Whether they own all partitions between them, each about as many."""
    owned = [member.owned for member in members]
    sizes = [len(one) for one in owned]
    return sorted(chain.from_iterable(owned)) == list(range(partitions)) and max(sizes) - min(sizes) <= 1
