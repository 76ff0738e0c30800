"""Kafka's own command line tools, all in one JVM (tests/apache_kafka/java/Tools.java): their output and status."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from bench.kafka import Kafka
from support.apache_kafka import QUICK_JVM, ROOT

PROGRAM = ROOT / "tests" / "apache_kafka" / "java" / "Tools.java"
CLASSES = {
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


def run(commands: list[str], directory: Path) -> list[tuple[int, list[str]]]:
    """Status and stdout of each command line, `kafka-topics --list …`; file names in them are below `directory`."""
    file = directory / "commands"
    lines = []
    for command in commands:
        name, *words = shlex.split(command)
        lines.append("\t".join([CLASSES[name], *words]) + "\n")
    file.write_text("".join(lines))
    options = (*QUICK_JVM, "-Dlog4j2.level=OFF", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    done = subprocess.run(
        Kafka(ROOT).java(str(PROGRAM), str(file), options=options), capture_output=True, text=True, cwd=directory
    )
    results = []
    said: list[str] = []
    for line in done.stdout.split("\n"):
        if line.startswith("\x01"):
            results.append((int(line[1:]), said))
            said = []
        else:
            said.append(line)
    assert len(results) == len(commands), done.stderr[-3000:]
    return results
