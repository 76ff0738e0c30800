"""A standalone Spark cluster on this machine: a master and workers of one core, which a test may kill.

    with Standalone(workers=2, directory=tmp_path) as cluster:
        session(Settings(master=cluster.master, extra=cluster.settings))

All of it is in the pyspark package; each worker starts one executor, a process of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.pipelines.requirements import java, spark_home
from support.process_tree import children, send

PATIENCE = 120  # seconds
HOST = "127.0.0.1"


class Daemon:
    """A master or a worker, up when its log says so."""

    def __init__(self, name: str, directory: Path, *words: str) -> None:
        self.log = directory / f"{name}.log"
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(java().command.parents[1]),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(spark_home() / "bin" / "spark-class"), *words, "--host", HOST, "--port", "0", "--webui-port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def until(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.log.read_text(errors="replace"))) is None:
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, f"waited for {pattern}\n{self.log.read_text(errors='replace')[-3000:]}"
            time.sleep(0.05)
        return found

    @property
    def executors(self) -> list[int]:
        return children(self.process.pid, "java")

    def send(self, number: int, *, to_executors: bool = False) -> None:
        send(self.executors if to_executors else [self.process.pid], number)

    def kill(self) -> None:
        """kill -9 of it and its executors, as when a machine goes."""
        send([self.process.pid, *self.executors])
        self.process.wait()

    def stop(self) -> None:
        executors = self.executors
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            send([*executors, self.process.pid], signal.SIGKILL)


class Standalone:
    # for the sessions that use it: an executor on each worker, which is given up soon when it does not answer
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.heartbeatInterval": "1s",
        "spark.network.timeout": "15s",
        "spark.network.timeoutInterval": "2s",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._count = workers

    def __enter__(self) -> Self:
        self._master = Daemon("master", self._directory, "org.apache.spark.deploy.master.Master")
        self.workers: list[Daemon] = []
        try:
            self.master = self._master.until(r"Starting Spark master at (spark://\S+)")[1]
            self.workers = [self._worker(number) for number in range(self._count)]
            for worker in self.workers:
                worker.until("Successfully registered with master")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _worker(self, number: int) -> Daemon:
        place = ["--cores", "1", "--memory", "700m", "--work-dir", str(self._directory / f"work-{number}")]
        return Daemon(f"worker-{number}", self._directory, "org.apache.spark.deploy.worker.Worker", self.master, *place)

    def _end(self) -> None:
        for daemon in [*self.workers, self._master]:
            if daemon.process.poll() is None:
                daemon.stop()
