"""A real Apache Kafka for tests: one KRaft node, started, stopped and killed on one data directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.kafka import Kafka
from bench.process import free_port
from bench.wire import Admin

ROOT = Path(__file__).resolve().parents[2]
QUICK_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")
PATIENCE = 60.0


class KafkaFailed(Exception):
    """It did not start, or did not stop; with the end of what it wrote."""


class ApacheKafka:
    """One node with its data in `data`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._kafka = Kafka(ROOT)
        settings = {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "log.cleaner.backoff.ms": "100",
            "metadata.log.max.record.bytes.between.snapshots": "2000",
        }
        self._command = self._kafka.prepare(directory, self.port, settings, QUICK_JVM)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.directory / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), Admin(self.port, timeout=5) as admin:
                if admin.live_brokers():
                    return
            time.sleep(0.02)
        self.kill()
        raise KafkaFailed(f"Apache Kafka did not start:\n{self._last_output()}")

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise KafkaFailed(f"Apache Kafka did not stop:\n{self._last_output()}") from None
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _last_output(self) -> str:
        return "\n".join((self.directory / "output.log").read_text(errors="replace").splitlines()[-15:])


def dump_log_segments(files: Sequence[Path], *options: str, directory: Path) -> tuple[str, str]:
    """What Kafka's own DumpLogSegments prints of these files: stdout and stderr."""
    words = ["org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files))]
    command = Kafka(ROOT).java(*words, options=(*QUICK_JVM, "-Dlog4j2.level=OFF", "-Dfile.encoding=UTF-8"))
    done = subprocess.run(
        command, capture_output=True, cwd=directory, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"}
    )
    return done.stdout.decode(), done.stderr.decode()


def reason_to_skip() -> str | None:
    """Why there is no Apache Kafka here; None when there is."""
    if not shutil.which("javac"):
        return "programs of the tests need a Java compiler: apt-get install default-jdk-headless"
    return Kafka(ROOT).missing()
