"""Apache Kafka 4.3.1 as it comes: KRaft with broker and controller in one JVM, its defaults, the JVM options of its own
start script (1 GB heap, G1), its log level. The jars come from Maven (pom.xml beside this file) into build/kafka; the
tests that need a real Kafka (tests/apache_kafka) use the same. `python -m bench.kafka` only fetches them.

Set apart from the defaults only what one node needs (addresses, replication factors of internal topics) and a short
delay before files of deleted topics go away, which keeps the disk's use small between workloads; ottla gets the same.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.jars import Jars
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
        self._jars = Jars(self.label, root / "bench" / "pom.xml", root / "build" / "kafka", "python -m bench.kafka")
        self.missing, self.install, self.java = self._jars.missing, self._jars.install, self._jars.java

    def version(self) -> str:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.split('"')[1]
        (kafka,) = (path.stem.partition("-")[2] for path in self._jars.directory.glob("kafka_2.13-*.jar"))
        return f"{kafka} on Java {java}"

    def prepare(
        self,
        directory: Path,
        port: int,
        overrides: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = JVM_OPTIONS,
    ) -> list[str]:
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
            **(overrides or {}),
        }
        config = directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        logging = directory / "log4j2.properties"
        logging.write_text(LOGGING)
        options = [*jvm_options, f"-Dlog4j2.configurationFile={logging}"]
        # A cluster id is a UUID in URL-safe base64; a leading dash would be read as an option.
        cluster = "b" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        format_storage = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
        done = subprocess.run(self.java(*format_storage, options=options), capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"Apache Kafka's storage tool failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return self.java("kafka.Kafka", str(config), options=options)


if __name__ == "__main__":
    try:
        Kafka(Path(__file__).resolve().parent.parent).install()
    except BenchError as error:
        sys.exit(str(error))
