"""Programs of examples/ as processes: run as a reader would, watched line by line, stopped, frozen and killed.

    with Program("commit_sync", "--bootstrap", broker.bootstrap) as program:
        program.until("offset 9")
        assert program.interrupt() == 0

A test about failure has the program fail at a certain place: `twist` is code that runs before its main(), with the
module as `example`, such as another `process`. The rest of the program stays as it is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 60.0

# process(): does its work, then comes to an end or to a halt at the record with the value VALUE
KILLED_AT = """
import os, signal
def process(*given, work=example.process):
    result = work(*given)
    if given[-1].value() == b"VALUE":
        os.kill(os.getpid(), signal.SIGKILL)
    return result
example.process = process
"""
FROZEN_AT = KILLED_AT.replace("SIGKILL", "SIGSTOP")
INTERRUPTED_AT = KILLED_AT.replace("SIGKILL", "SIGINT")


def killed_at(value: str) -> str:
    """A twist: after the work on this record the program dies."""
    return KILLED_AT.replace("VALUE", value)


def frozen_at(value: str) -> str:
    """A twist: after the work on this record the program freezes, until it is thawed."""
    return FROZEN_AT.replace("VALUE", value)


def interrupted_at(value: str) -> str:
    """A twist: Ctrl-C comes right after the work on this record."""
    return INTERRUPTED_AT.replace("VALUE", value)


class Program:
    def __init__(self, example: str, *words: str, twist: str = "") -> None:
        start = [str(EXAMPLES / f"{example}.py")]
        if twist:
            code = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import {example} as example\n{twist}\n"
            start = ["-c", code + "example.main()"]
        self.process = subprocess.Popen(
            [sys.executable, "-u", *start, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._words = (example, *words)
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._changed = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=one)
            for one in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe: object, into: list[str]) -> None:
        for line in pipe:  # type: ignore[attr-defined]
            with self._changed:
                into.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def until(self, wanted: str | Callable[[list[str]], bool], count: int = 1) -> list[str]:
        """Its lines, as soon as `count` of them have the text (or the condition holds)."""

        def there() -> bool:
            if callable(wanted):
                return wanted(self.lines)
            return len(self.having(wanted)) >= count

        with self._changed:
            self._changed.wait_for(lambda: there() or not self._readers[0].is_alive(), PATIENCE)
        assert there(), f"waited for {wanted!r}\n{self.lines}\n{self.errors}"
        return self.lines

    def having(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]

    def end(self, status: int = 0) -> list[str]:
        """Waits for its end, which must have this status; its lines."""
        found = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        assert found == status, self.errors
        return self.lines

    def interrupt(self, number: int = signal.SIGINT) -> list[str]:
        """Ctrl-C, or another signal; it must end well."""
        self.process.send_signal(number)
        return self.end()

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def until_frozen(self) -> None:
        """Returns when a twist has frozen it."""
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for reader in self._readers:
            reader.join(PATIENCE)
        sys.stderr.write("\n".join(["", *self._words, *self.lines, *self.errors, ""]))  # shown where a test fails
