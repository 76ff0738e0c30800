"""A broker for a while: a process of its own on a free port, with its data in a directory that goes with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.cli.common.invocation import Failure

READY = " ready on "
STOP_SECONDS = 10.0


class EmbeddedBroker:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
        self._log = self.directory / "log"
        words = [sys.executable, "-P", "-m", "ottla.cli", "broker"]
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.num.partitions": "1",
        }
        for key, value in settings.items():
            words += ["--override", f"{key}={value}"]
        with self._log.open("wb") as log:
            # in a session of its own, so that Ctrl-C does not reach it before those who use it
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if READY not in line:
            said = self._log.read_text(errors="replace").strip().splitlines()
            self.close()
            raise Failure(f"the broker did not start: {said[-1] if said else 'it says nothing'}")
        self.bootstrap = line.strip().rpartition(READY)[2]

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
