"""The two engines: how each is installed and started.

Both run on the same ottla broker and share the machine's cores with it. Settings that are not an engine's defaults,
each for a reason:

Kafka Streams
  num.stream.threads            2: one for each core of the machine that the figures come from (1 is the default)
  commit.interval.ms            1,000 at least once: with the default of 30 s the end of a result would come that late.
                                Under exactly once its own default stays, 100 ms.
  consumer.isolation.level      read_committed, also at least once: see judge.py
  in latency runs               linger.ms 0 (100 is the default) and no record cache (10 MB; it holds changes back until
                                the next commit)
  -Xmx                          none: a quarter of the memory is Java's default

ottla
  in latency runs               interval_ms 0 (100 is the default: how often a batch begins)
  in real-time mode             a task slot for each partition, which it demands
  Spark's classes come from an archive that `python -m ottla.pipelines.prepare --archive` has made.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, Protocol

from bench.jars import Jars
from bench.process import BenchError
from bench.streams.inputs import Topology

Delivery = Literal["at_least_once", "exactly_once"]
Goal = Literal["throughput", "latency", "real-time"]  # real-time: ottla's mode of that name

LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)


@dataclass(frozen=True, slots=True)
class Job:
    """One application on one broker, with a directory of its own."""

    topology: Topology
    delivery: Delivery
    goal: Goal
    bootstrap: str
    directory: Path
    name: str = "bench"
    input: str = "input"
    table: str = "table"
    output: str = "output"


class Engine(Protocol):
    name: str
    label: str

    def install(self) -> None:
        """Makes the engine runnable; raises BenchError with what is missing."""

    def version(self) -> str: ...

    def prepare(self, job: Job) -> list[str]:
        """Writes what the application needs into its directory and gives the command that runs it."""


class KafkaStreams:
    name = "kafka"  # as the other side is called in results
    label = "Kafka Streams"

    def __init__(self, root: Path) -> None:
        self._source = root / "bench" / "kafka_streams" / "StreamsBench.java"
        pom, directory = self._source.with_name("pom.xml"), root / "build" / "kafka-streams"
        self._jars = Jars(self.label, pom, directory, "python -m bench.streams.engines")
        self._classes = directory / "classes"

    def missing(self) -> str | None:
        if not self._compiled() and not shutil.which("javac"):
            return f"{self.label}' program needs javac: apt-get install default-jdk-headless"
        return self._jars.missing()

    def _compiled(self) -> bool:
        program = self._classes / "StreamsBench.class"
        return program.exists() and program.stat().st_mtime >= self._source.stat().st_mtime

    def install(self) -> None:
        self._jars.install()
        missing = self.missing()
        if missing:
            raise BenchError(missing)
        if not self._compiled():
            command = ["javac", "-cp", f"{self._jars.directory}/*", "-d", str(self._classes), str(self._source)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise BenchError(f"{self.label}' program does not compile:\n{done.stderr}")

    def version(self) -> str:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.split('"')[1]
        (jar,) = self._jars.directory.glob("kafka-streams-[0-9]*.jar")
        streams = jar.stem.removeprefix("kafka-streams-")
        return f"{streams} on Java {java}"

    def prepare(self, job: Job) -> list[str]:
        config = job.directory / "streams.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.settings(job).items()))
        path = f"{self._classes}:{self._jars.directory}/*"
        names = [job.topology, job.input, job.table, job.output, str(config)]
        return ["java", *LOGGING, "-cp", path, "StreamsBench", *names]

    @staticmethod
    def settings(job: Job) -> Mapping[str, str]:
        settings = {
            "bootstrap.servers": job.bootstrap,
            "application.id": job.name,
            "state.dir": str(job.directory / "state"),
            "num.stream.threads": "2",
            "consumer.isolation.level": "read_committed",
        }
        if job.delivery == "exactly_once":
            settings["processing.guarantee"] = "exactly_once_v2"
        else:
            settings["commit.interval.ms"] = "1000"
        if job.goal != "throughput":
            settings |= {"producer.linger.ms": "0", "statestore.cache.max.bytes": "0"}
        return settings


class OttlaStreams:
    name = "ottla"
    label = "ottla streams"

    def version(self) -> str:
        spark, python = version("pyspark"), platform.python_version()
        return f"{version('ottla')} on Spark {spark} and CPython {python}"

    def install(self) -> None:
        try:
            version("pyspark")
        except PackageNotFoundError:
            raise BenchError("ottla's streams need pyspark: pip install 'ottla[spark]'") from None
        if not shutil.which("java"):
            raise BenchError("ottla's streams need java: apt-get install default-jre-headless")
        # fetches the connector and compiles what is compiled once, so that no run pays for it
        command = [sys.executable, "-m", "bench.streams.ottla_app", "--install"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"ottla's streams are not ready:\n{done.stderr[-2000:]}")

    def prepare(self, job: Job) -> list[str]:
        options = {
            "bootstrap": job.bootstrap,
            "name": job.name,
            "directory": str(job.directory / "state"),
            "input": job.input,
            "table": job.table,
            "output": job.output,
            "delivery": job.delivery,
            "goal": job.goal,
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        return [sys.executable, "-m", "bench.streams.ottla_app", *words, job.topology]


if __name__ == "__main__":  # only fetches Kafka Streams, for the tests
    try:
        KafkaStreams(Path(__file__).resolve().parents[2]).install()
    except BenchError as error:
        sys.exit(str(error))
