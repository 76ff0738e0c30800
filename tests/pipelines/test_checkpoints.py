"""What a checkpoint says is on the disk: the system calls of a session's JVM, watched by strace."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.usefixtures("spark_can_start")

RENAME = re.compile(r'rename\("([^"]+)", "([^"]+)"\) = 0')


def test_a_file_is_on_the_disk_before_it_is_seen_and_so_is_its_name(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    counted = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().groupBy("value").count()
    writer = counted.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    query = writer.start()
    try:
        with watched(tmp_path) as calls:
            seen = _batch(query)
            while _batch(query) < seen + 3:
                query.awaitTermination(1)
    finally:
        query.stop()
    lines = calls.read_text().splitlines()
    renamed = {
        Path(to).relative_to(checkpoint).parts[0]
        for number, line in enumerate(lines)
        for source, to in RENAME.findall(line)
        if to.startswith(str(checkpoint)) and _is_safe(lines, number, source, to)
    }
    assert renamed == {"offsets", "commits", "state"}


def _is_safe(lines: list[str], renamed: int, source: str, to: str) -> bool:
    assert any(f"<{source}>" in line for line in lines[:renamed]), f"{source} had not reached the disk"
    assert any(f"<{Path(to).parent}>" in line for line in lines[renamed:]), f"the name {to} did not reach the disk"
    return True


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return int(progress["batchId"]) if progress else -1


@contextmanager
def watched(directory: Path) -> Iterator[Path]:
    """The file with the calls that matter, as the JVM makes them."""
    gateway = SparkContext._gateway
    assert gateway is not None
    calls = directory / "calls"
    words = ["strace", "-f", "-y", "-s", "500", "-e", "trace=fsync,rename", "-o", str(calls)]
    try:
        watching = subprocess.Popen([*words, "-p", str(gateway.proc.pid)], stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        if os.environ.get("CI"):
            raise
        pytest.skip("strace is not installed")
    with watching:
        assert watching.stderr is not None
        said = watching.stderr.readline()
        if "attached" not in said:
            pytest.skip(f"system calls may not be watched here: {said}")
        try:
            yield calls
        finally:
            watching.terminate()
            watching.stderr.read()
