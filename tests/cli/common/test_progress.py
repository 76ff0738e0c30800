"""Bars are drawn on a terminal, and nowhere else."""

import os
import pty
import subprocess
import sys
import threading

import pytest

WORK = """
import click
from ottla.cli.common import progress
from ottla.cli.common.invocation import Invocation
progress.SECONDS_BETWEEN = 0

@click.command()
def work():
    with progress.progress("Working", 30) as done:
        for number in range(30):
            done(number)
        print("a line", flush=True)

work.main([], obj=Invocation(by_kafka_name={by_kafka_name}))
"""


def _seen(*, by_kafka_name: bool, stdout_is_terminal: bool) -> tuple[str, str]:
    """What a terminal shows of the work, and what comes through a pipe."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def look() -> None:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # nobody writes any more
                return
            if not part:
                return
            shown.extend(part)

    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    code = WORK.format(by_kafka_name=by_kafka_name)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=theirs if stdout_is_terminal else subprocess.PIPE,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    reader = threading.Thread(target=look)
    reader.start()
    piped = process.communicate()[0] or b""
    reader.join()
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode(), piped.decode()


def test_a_terminal_sees_a_bar_and_the_lines() -> None:
    shown, _ = _seen(by_kafka_name=False, stdout_is_terminal=True)
    assert "Working" in shown
    assert "15/30" in shown
    assert "a line" in shown


def test_lines_for_a_pipe_stay_in_the_pipe() -> None:
    shown, piped = _seen(by_kafka_name=False, stdout_is_terminal=False)
    assert piped == "a line\n"
    assert "15/30" in shown
    assert "a line" not in shown


@pytest.mark.parametrize("stdout_is_terminal", [True, False])
def test_under_kafkas_name_there_is_no_bar(stdout_is_terminal: bool) -> None:
    shown, piped = _seen(by_kafka_name=True, stdout_is_terminal=stdout_is_terminal)
    assert shown + piped in ("a line\n", "a line\r\n")
