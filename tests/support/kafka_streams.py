"""Kafka Streams itself, in its test driver: what it makes of records (tests/apache_kafka/java/StreamsOracle.java).

The jars are those of the bench (bench/kafka_streams/pom.xml), in build/kafka-streams.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.jars import Jars

ROOT = Path(__file__).resolve().parents[2]
JARS = Jars(
    "Kafka Streams",
    ROOT / "bench" / "kafka_streams" / "pom.xml",
    ROOT / "build" / "kafka-streams",
    "python -m bench.streams.engines",
)
PROGRAM = ROOT / "tests" / "apache_kafka" / "java" / "StreamsOracle.java"
QUICK_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

Record = tuple[str, str | None, str | None, int]  # topic (left or right), key, value, timestamp
Result = tuple[str | None, str | None, int]  # key, value, timestamp


def ask(runs: list[tuple[str, list[Record]]]) -> list[list[Result]]:
    """What comes out of each run: an operator with its arguments, and its records."""
    lines = []
    for operator, records in runs:
        lines.append(f"run {operator}\n")
        lines += [f"{topic}\t{_text(key)}\t{_text(value)}\t{time}\n" for topic, key, value, time in records]
    command = JARS.java(str(PROGRAM), options=QUICK_JVM)
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    results: list[list[Result]] = [[] for _ in runs]
    for line in done.stdout.splitlines():
        run, key, value, time = line.split("\t")
        results[int(run)].append((_cell(key), _cell(value), int(time)))
    return results


def _text(cell: str | None) -> str:
    return r"\N" if cell is None else cell


def _cell(text: str) -> str | None:
    return None if text == r"\N" else text
