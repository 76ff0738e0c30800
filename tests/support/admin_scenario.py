"""Kafka's own AdminClient makes every administrative request of an ottla broker with two data directories.

The program is tests/apache_kafka/java/AdminScenario.java, run from its source: that needs a JDK, not a JRE alone.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kafka import Kafka
from ottla.testing import BrokerProcess
from support.apache_kafka import QUICK_JVM, ROOT
from support.prometheus import scrape

PROGRAM = ROOT / "tests" / "apache_kafka" / "java" / "AdminScenario.java"
PATIENCE = 100


@dataclass
class Scenario:
    calls: dict[str, dict[str, Any]]  # what was printed for each call: "result", or "error" and "message"
    metrics: str  # the page of metrics afterwards
    log: str  # of the broker


def play(directory: Path) -> Scenario:
    data = f"{directory / 'one'},{directory / 'two'}"
    with BrokerProcess(data, {"metrics.listener": "127.0.0.1:0"}) as broker:
        options = (*QUICK_JVM, "-Dlog4j2.level=OFF", "-Dfile.encoding=UTF-8")
        command = Kafka(ROOT).java(str(PROGRAM), broker.bootstrap, options=options)
        done = subprocess.run(command, capture_output=True, cwd=directory, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr.decode()
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return Scenario({line["call"]: line for line in lines}, scrape(broker.metrics_port).text, broker.stderr)
