from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from ottla.pipelines.waiting import shown

FETCH = """
from ottla.pipelines.waiting import shown
with shown("Fetching") as report:
    report("some.jar", 2_500_000, 5_000_000)
    report("some.jar", 5_000_000, 5_000_000)
"""


def test_where_nobody_watches_it_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with shown("Fetching") as report:
        report("some.jar", 1, 2)
    assert capfd.readouterr() == ("", "ottla: Fetching\n")


def test_a_terminal_sees_how_far_it_is() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    words = [sys.executable, "-c", FETCH]
    with subprocess.Popen(words, stderr=theirs, stdout=subprocess.PIPE, env=environment) as process:
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 4096):
                seen += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(ours)
    assert b"Fetching" in seen
    assert "━━━━".encode() in seen
    assert b"ottla: " not in seen
