"""A real Apache ZooKeeper for tests: one server in a JVM, with its data in a directory that goes with it.

Kafka of the texts' time is found through ZooKeeper; `register` writes a broker there as Kafka 2.x registered itself.
The jars come from Maven (zookeeper.pom.xml beside this file) into build/zookeeper; `python -m support.zookeeper` only
fetches them. Without Java or the jars, tests that ask for it are skipped; with CI set they fail instead.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.jars import Jars
from bench.process import BenchError, free_port

ROOT = Path(__file__).resolve().parents[2]
JARS = Jars(
    "Apache ZooKeeper",
    ROOT / "tests" / "support" / "zookeeper.pom.xml",
    ROOT / "build" / "zookeeper",
    "PYTHONPATH=tests:. python -m support.zookeeper",
)
QUICK_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")
PATIENCE = 60.0


class ZooKeeper:
    """One server; `address` is HOST:PORT."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-zookeeper-"))
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        settings = {
            "dataDir": self._directory / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok",
            "maxClientCnxns": 0,
        }
        config = self._directory / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        options = (*QUICK_JVM, "-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.forceSync=no")
        command = JARS.java("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config), options=options)
        with (self._directory / "output.log").open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            self._await()
        except BaseException:
            self.close()
            raise

    def _await(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as asked:
                    asked.sendall(b"ruok")
                    if asked.recv(4) == b"imok":
                        return
            except OSError:
                pass
            time.sleep(0.02)
        said = (self._directory / "output.log").read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("ZooKeeper did not start:\n" + "\n".join(said))

    def register(self, broker_id: int, host: str, port: int, chroot: str = "") -> str:
        """Write a broker's registration; returns the connect string under which it is found."""
        entry = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://{host}:{port}"],
            "jmx_port": -1,
            "features": {},
            "host": host,
            "timestamp": str(int(time.time() * 1000)),
            "port": port,
            "version": 5,
        }
        client = KazooClient(self.address)
        client.start(PATIENCE)
        try:
            client.create(f"{chroot}/brokers/ids/{broker_id}", json.dumps(entry).encode(), makepath=True)
        finally:
            client.stop()
            client.close()
        return self.address + chroot

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def start() -> ZooKeeper:
    """Starts one, or skips the test."""
    reason = JARS.missing()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(f"in CI the tests with Apache ZooKeeper must run: {reason}")
        pytest.skip(reason)
    return ZooKeeper()


if __name__ == "__main__":
    try:
        JARS.install()
    except BenchError as error:
        sys.exit(str(error))
