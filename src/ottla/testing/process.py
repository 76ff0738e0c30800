"""A broker as a process of its own, for tests: started, stopped, killed and restarted, on free ports.

    with BrokerProcess(overrides={"num.partitions": "3"}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

It is started when its ready line has been read from its stdout, so nobody polls. A restart keeps the data directory and
the ports, as clients expect of a broker that comes back; so free ports are chosen from below those that the system
gives to outgoing connections, of which one could otherwise take the port meanwhile. Its stderr goes to a file, read by
`stderr`.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from time import monotonic
from types import TracebackType
from typing import IO, Self

READY = re.compile(rb"^ottla broker \d+ ready on (.+)$", re.MULTILINE)
ADDRESS = re.compile(r"(?:\w+://)?(\[[^\]]+\]|[^\s,\[\]]+):(\d+)")
LOWEST_PORT = 10_000
OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORTS = {"listeners", "metrics.listener"}
TRIES = 10  # to start on free ports that others take at the same moment


class BrokerFailed(Exception):
    """A broker that did not start, or that ended otherwise than it was told to; carries what it wrote to stderr."""


class BrokerProcess:
    """One broker; see the module's head.

    data_dir: where its data go; a temporary directory, removed by `close()`, where none is given.
    overrides: properties as in `ottla broker --override`. Port 0 in `listeners` and `metrics.listener` is a free port.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        overrides: Mapping[str, str] | None = None,
        *,
        start_timeout: float = 30,
        stop_timeout: float = 30,
    ) -> None:
        self._own = Path(tempfile.mkdtemp(prefix="ottla-"))
        self.data_dir = Path(data_dir) if data_dir is not None else self._own / "data"
        self.overrides = {"listeners": "PLAINTEXT://127.0.0.1:0", **(overrides or {})}
        self.start_timeout = start_timeout
        self.stop_timeout = stop_timeout
        self.addresses: list[tuple[str, int]] = []  # of its listeners, in their order
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = self._own / "stderr"

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of the first listener, for `bootstrap.servers`."""
        host, port = self.addresses[0]
        return f"{host}:{port}"

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    @property
    def metrics_port(self) -> int:
        """Where its figures are, if `metrics.listener` is among the overrides."""
        return int(self.overrides["metrics.listener"].rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def stderr(self) -> str:
        """All that it has logged, over restarts too."""
        return self._stderr.read_text(errors="replace") if self._stderr.exists() else ""

    # -- its life ------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts it and returns when it serves."""
        if self._process is not None:
            raise BrokerFailed("it is already started")
        wanted = dict(self.overrides)
        for tries_left in reversed(range(TRIES)):
            chosen = {key: _with_free_ports(wanted[key]) for key in PORTS & wanted.keys()}
            self.overrides.update(chosen)
            try:
                self._launch()
                break
            except BrokerFailed as failure:
                self.overrides.update(wanted)
                if chosen.items() <= wanted.items() or "Address already in use" not in str(failure) or not tries_left:
                    raise
        return self

    def stop(self) -> int:
        """Stops it cleanly (SIGTERM) and returns its exit status; BrokerFailed when it does not stop in time."""
        process = self._running
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(self.stop_timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"broker did not stop within {self.stop_timeout} s\n{self.stderr}") from None
        self._forget()
        return status

    def kill(self) -> None:
        """Ends it as a crash would (SIGKILL)."""
        process = self._running
        process.kill()
        process.wait()
        self._forget()

    def restart(self) -> Self:
        """Stops it cleanly, if it runs, and starts it on the same data and ports."""
        if self._process is not None:
            self.stop()
        return self.start()

    def close(self) -> None:
        """Stops it, if it runs, and removes what is its own; BrokerFailed when it has not run and ended well."""
        try:
            if self._process is not None:
                died = self._process.poll()
                status = self.stop() if died is None else died
                self._forget()
                if status != 0:
                    raise BrokerFailed(f"broker ended with status {status}\n{self.stderr}")
        finally:
            shutil.rmtree(self._own, ignore_errors=True)

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the inside ----------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        words = [sys.executable, "-m", "ottla.cli", "broker"]
        for key, value in {"log.dirs": str(self.data_dir), **self.overrides}.items():
            words += ["--override", f"{key}={value}"]
        source = str(Path(__file__).resolve().parents[2])  # the ottla that runs the test, installed or not
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        with self._stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": path},
            )
        try:
            self._await_ready(self._process)
        except BaseException:
            self.kill()
            raise

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerFailed("it is not started")
        return self._process

    def _forget(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        said, ended = _read_until(process.stdout, READY, monotonic() + self.start_timeout)
        found = READY.search(said)
        if found is None:
            what = f"was not ready within {self.start_timeout} s"
            if ended:
                what = f"ended with status {process.wait(self.start_timeout)} before it was ready"
            raise BrokerFailed(f"broker {what}\n{said.decode(errors='replace')}{self.stderr}")
        self.addresses = [(host.strip("[]"), int(port)) for host, port in ADDRESS.findall(found[1].decode())]
        self._keep_ports()

    def _keep_ports(self) -> None:
        """Writes the ports that were found into the listeners, for restarts."""
        listeners = self.overrides["listeners"].split(",")
        if len(listeners) == len(self.addresses):
            self.overrides["listeners"] = ",".join(
                f"{listener.rpartition(':')[0]}:{port}" for listener, (_, port) in zip(listeners, self.addresses)
            )


def _with_free_ports(listeners: str) -> str:
    return ",".join(
        re.sub(r"(.*):0$", lambda found: f"{found[1]}:{_free_port()}", listener) for listener in listeners.split(",")
    )


def _free_port() -> int:
    """A port that is free now and that no outgoing connection will be given; 0 where the system leaves none."""
    try:
        end = int(OUTGOING_PORTS.read_text().split()[0])
    except OSError:
        end = 32_768
    for port in SystemRandom().sample(range(LOWEST_PORT, end), 100) if end >= 2 * LOWEST_PORT else ():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    return 0


def _read_until(pipe: IO[bytes], wanted: re.Pattern[bytes], deadline: float) -> tuple[bytes, bool]:
    """What a pipe says until a whole line of it matches, it ends, or time is up; and whether it has ended."""
    said = b""
    while not (said.endswith(b"\n") and wanted.search(said)):
        readable, _, _ = select.select([pipe], [], [], max(0.0, deadline - monotonic()))
        if not readable:
            break
        more = os.read(pipe.fileno(), 65536)
        if not more:
            return said, True
        said += more
    return said, False
