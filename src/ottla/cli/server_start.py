"""`ottla server-start [-daemon] FILE.properties [--override KEY=VALUE]…`: `ottla broker` as Kafka's script starts it.

With -daemon the broker runs on by itself, in a session of its own; what it prints and logs goes to `kafkaServer.out` in
`logs`, or in the directory that LOG_DIR names. The command returns when the broker serves, or tells why it does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click

from ottla.cli import broker
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool

READY = " ready on "
OUTPUT = "kafkaServer.out"
LOOK_SECONDS = 0.02


@click.command("server-start", cls=Tool, short_help="Run a broker, in the background if wanted.")
@click.argument("file", metavar="FILE.properties")
@click.option("--daemon", is_flag=True, help="In the background; returns when the broker serves.")
@broker.serving_options
def command(file: str, daemon: bool, overrides: tuple[str, ...], log_format: str, log_level: str) -> int:
    """Run a broker with the properties of a file, as kafka-server-start does.

    Stop it with `server-stop`, or with Ctrl-C where it runs in the foreground.
    """
    if not daemon:
        return broker.run(file, overrides, log_format, log_level)
    broker.configured(broker.properties_of(file, overrides))  # what is wrong with them is told here, not in a log
    words = [file, *(word for one in overrides for word in ("--override", one))]
    words += ["--log-format", log_format, "--log-level", log_level]
    return _start_daemon([sys.executable, "-P", "-m", "ottla.cli", "broker", *words])


def _start_daemon(words: list[str]) -> int:
    place = Path(os.environ.get("LOG_DIR") or "logs").absolute() / OUTPUT
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        output = place.open("ab")
    except OSError as error:
        raise Failure(f"cannot write {place}: {error.strerror}; LOG_DIR names another directory") from None
    with output, place.open("rb") as reader:
        reader.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        said = b""
        while True:
            ended = process.poll() is not None  # asked before the last look, so that nothing is missed
            said += reader.read()
            ready = [line for line in said.decode(errors="replace").splitlines() if READY in line]
            if ready:
                click.echo(f"{ready[0]} (pid {process.pid}); its log is {place}")
                return 0
            if ended:
                lines = said.decode(errors="replace").split("\n")
                told = [line.removeprefix("ottla: ") for line in lines if line.strip()]
                why = told[-1] if told else f"exit status {process.returncode}"
                raise Failure(f"the broker did not start: {why} (its log is {place})")
            time.sleep(LOOK_SECONDS)
