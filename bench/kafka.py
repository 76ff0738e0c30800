"""Apache Kafka 4.3.1 as it comes: KRaft with broker and controller in one JVM, its defaults, the JVM options of its own
start script (1 GB heap, G1), its log level. The jars come from Maven (pom.xml beside this file).

Set apart from the defaults only what one node needs (addresses, replication factors of internal topics) and a short
delay before files of deleted topics go away, which keeps the disk's use small between workloads; ottla gets the same.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import uuid
from pathlib import Path

from bench.process import DELETE_DELAY_MS, BenchError, free_port

# As in the release's kafka-server-start and kafka-run-class.
JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

LOGGING = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


class Kafka:
    name = "kafka"
    label = "Apache Kafka"

    def __init__(self, root: Path) -> None:
        self._pom = root / "bench" / "pom.xml"
        self._jars = root / "build" / "kafka"

    def version(self) -> str:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.split('"')[1]
        (kafka,) = (path.stem.partition("-")[2] for path in self._jars.glob("kafka_2.13-*.jar"))
        return f"{kafka} on Java {java}"

    def install(self) -> None:
        wanted = re.search(r"<artifactId>kafka_2.13</artifactId>\s*<version>([^<]+)", self._pom.read_text())
        if wanted is None:
            raise BenchError(f"{self._pom.name} names no version of kafka_2.13")
        for tool, package in (("java", "default-jre-headless"), ("mvn", "maven")):
            if not shutil.which(tool):
                raise BenchError(f"Apache Kafka needs {tool}: apt-get install {package} (or run with --only ottla)")
        if (self._jars / f"kafka_2.13-{wanted[1]}.jar").exists():
            return
        shutil.rmtree(self._jars, ignore_errors=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={self._jars}", "-DincludeScope=runtime"]
        done = subprocess.run(["mvn", "-q", "-B", "-f", str(self._pom), *goal], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"Maven could not fetch Apache Kafka:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def prepare(self, directory: Path, port: int) -> list[str]:
        controller = free_port()
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(directory / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.segment.delete.delay.ms": DELETE_DELAY_MS,
        }
        config = directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        logging = directory / "log4j2.properties"
        logging.write_text(LOGGING)
        java = ["java", *JVM_OPTIONS, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{self._jars}/*"]
        # A cluster id is a UUID in URL-safe base64; a leading dash would be read as an option.
        cluster = "b" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        format_storage = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
        done = subprocess.run([*java, *format_storage], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"Apache Kafka's storage tool failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return [*java, "kafka.Kafka", str(config)]
