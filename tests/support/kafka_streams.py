"""Kafka Streams itself, in its test driver: what it makes of records (tests/apache_kafka/java/StreamsOracle.java).

A run is a program, in the words of streams_programs.py, and batches of records. All runs are of one start of Java.

The jars are those of the bench (bench/kafka_streams/pom.xml), in build/kafka-streams.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

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

OURS = re.compile(r":(sql|python|bare)")  # what a word says of ottla's functions

Record = tuple[str, str | None, str | None, int]  # topic (left, right or rows), key, value, timestamp
Batch = list[Record]
Result = tuple[str | None, str | None, int]  # key, value, timestamp


def ask(runs: Sequence[tuple[str, Sequence[Batch]]]) -> list[list[list[Result]]]:
    """What comes out of each run, for each of its batches. The test is skipped where there is no Kafka Streams."""
    if reason := JARS.missing():
        if os.environ.get("CI"):
            pytest.fail(f"in CI the tests with Kafka Streams must run: {reason}")
        pytest.skip(reason)
    lines = []
    for program, batches in runs:
        lines.append(f"run {OURS.sub('', program)}\n")
        for number, batch in enumerate(batches):
            lines += [f"{number}\t{topic}\t{_text(key)}\t{_text(value)}\t{time}\n" for topic, key, value, time in batch]
    command = JARS.java(str(PROGRAM), options=QUICK_JVM)
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    results: list[list[list[Result]]] = [[[] for _ in batches] for _, batches in runs]
    for line in done.stdout.splitlines():
        run, number, key, value, time = line.split("\t")
        results[int(run)][int(number)].append((_cell(key), _cell(value), int(time)))
    return results


def _text(cell: str | None) -> str:
    return r"\N" if cell is None else cell


def _cell(text: str) -> str | None:
    return None if text == r"\N" else text
