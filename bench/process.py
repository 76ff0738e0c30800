"""A broker as a process: started, watched and stopped by the run.

Processor time is the kernel's clock of the process (CLOCK_PROCESS_CPUTIME of another pid: what /proc/PID/stat shows,
in nanoseconds and not in ticks); resident memory is VmRSS. Child processes that live are counted in.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bench.wire import Admin

PR_SET_PDEATHSIG = 1
CPUCLOCK_SCHED = 2
DELETE_DELAY_MS = "500"  # files of deleted topics: short, so that a workload does not pay for the one before it


class System(Protocol):
    """One of the systems compared."""

    name: str
    label: str

    def install(self) -> None:
        """Makes the system runnable; raises BenchError with what is missing."""

    def version(self) -> str: ...

    def prepare(self, directory: Path, port: int, overrides: Mapping[str, str] | None = None) -> list[str]:
        """Writes what a fresh broker needs into `directory` and gives the command that runs it there."""


class BenchError(Exception):
    """The run cannot go on, and why."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _family(pid: int) -> Iterator[int]:
    pending = [pid]
    while pending:
        pid = pending.pop()
        yield pid
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pending += map(int, children.read_text().split())


def cpu_seconds(pid: int) -> float:
    """Processor seconds that a process and its children have used so far, user and system."""
    total = 0.0
    for member in _family(pid):
        with contextlib.suppress(OSError):  # it has just ended
            total += time.clock_gettime((~member << 3) | CPUCLOCK_SCHED)
    return total


def resident_bytes(pid: int) -> int:
    total = 0
    for member in _family(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{member}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1]) * 1024
    return total


def launch(command: Sequence[str], output: Path, **environment: str) -> subprocess.Popen[bytes]:
    """A process with a session of its own that dies with this one; what it prints is added to `output`."""
    with output.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )


def end(process: subprocess.Popen[bytes], patience: float = 10.0) -> None:
    """Asks the process to end; one that does not is killed with all that it started."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def last_lines(path: Path, lines: int = 15) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


class Broker:
    """A running broker of one system, with its data in a directory of its own."""

    def __init__(self, system: System, directory: Path, overrides: Mapping[str, str] | None = None) -> None:
        self.system = system
        self.directory = directory
        self.port = free_port()
        self.traffic = 0  # bytes of record values in and out so far
        self.topics: dict[str, int] = {}  # made by this run and not deleted yet: partitions of each
        directory.mkdir(parents=True)
        self._command = system.prepare(directory, self.port, overrides)
        began = self._launch()
        self.start_seconds = time.monotonic() - began

    def _launch(self) -> float:
        """Starts the process and waits for its first Metadata reply. Returns when it was started."""
        began = time.monotonic()
        self._process = launch(self._command, self.directory / "output.log")
        try:
            self._wait_for_metadata()
        except BaseException:
            self.stop()
            raise
        return began

    def restart(self, *, kill: bool = False, patience: float = 60.0) -> float:
        """Ends the process, properly or with SIGKILL, and starts it again on its data. Returns when it was started."""
        if kill:
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.terminate()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{self.system.label} did not stop within {patience:.0f} s") from None
        return self._launch()

    def _wait_for_metadata(self, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise BenchError(
                    f"{self.system.label} ended with status {self._process.returncode}:\n{self.last_output()}"
                )
            with contextlib.suppress(OSError), Admin(self.port, timeout=5) as admin:
                if admin.live_brokers():
                    return
            time.sleep(0.002)
        raise BenchError(f"{self.system.label} gave no Metadata reply within {timeout:.0f} s:\n{self.last_output()}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def last_output(self) -> str:
        return last_lines(self.directory / "output.log")

    def is_running(self) -> bool:
        return self._process.poll() is None

    def admin(self) -> Admin:
        return Admin(self.port)

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        with self.admin() as admin:
            admin.create_topic(name, partitions, configs)
            self.topics[name] = partitions
            admin.wait_until_served(name, partitions)

    def delete_topics(self, *, patience: float = 3.0) -> None:
        """Deletes the run's topics and waits a while for their files to go: the next workload should not pay for it.

        Kafka removes no files in its first 30 seconds, which fall into the discarded round."""
        if not self.topics:
            return
        with self.admin() as admin:
            admin.delete_topics(list(self.topics))
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and any(any(self.directory.glob(f"data/{topic}-*")) for topic in self.topics):
            time.sleep(0.02)
        self.topics.clear()

    def cpu_seconds(self) -> float:
        """Processor seconds used so far, user and system."""
        return cpu_seconds(self._process.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self._process.pid)

    def stop(self, *, keep: bool = False) -> None:
        """Stops the broker and removes its data, unless they are to be kept until the whole run is over."""
        end(self._process)
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)
