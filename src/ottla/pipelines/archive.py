"""Spark's classes as an archive that a JVM maps into memory instead of reading jars (the JVM's class data sharing).

A session that finds one starts in half the time, and its first jobs take half the time. It holds for one Java and one
Spark in one place, and the JVM itself refuses one that does not fit, silently; so it can make nothing fail. It costs a
run of Spark to make and 150 MB, so only `python -m ottla.pipelines.prepare` makes it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla.pipelines import cache
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.requirements import SPARK, Java, java, spark_home
from ottla.pipelines.waiting import Report

NAME = "spark.jsa"


def found(with_java: Java, home: Path) -> Path | None:
    """The archive for this Java and this Spark, if it has been made."""
    archive = _directory(with_java, home) / NAME
    return archive if archive.exists() else None


def make() -> None:
    """Make the one for this machine's Java and Spark, if it is not there."""
    cache.made(_directory(java(), spark_home()), "Archiving Spark's classes, about 20 s", _record)


def _directory(with_java: Java, home: Path) -> Path:
    return cache.place("archive", [str(with_java.command.resolve()), with_java.version, str(home), SPARK])


def _record(directory: Path, report: Report) -> None:
    """Have a process use what most pipelines use; its JVM writes the archive at its end."""
    archive = directory / NAME
    done = subprocess.run([sys.executable, "-m", __name__, str(archive)], capture_output=True, text=True)
    if done.returncode or not archive.exists():
        raise PipelineError(f"no archive of Spark's classes could be made:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


def _rehearse(archive: Path) -> None:
    from ottla.pipelines.session import Settings, close, session

    options = f"-XX:ArchiveClassesAtExit={archive}"
    spark = session(Settings(master="local[2]", quick=True, extra={"spark.driver.extraJavaOptions": options}))
    spark.range(100).selectExpr("id % 3 AS key").groupBy("key").count().collect()
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = numbers.selectExpr("value % 3 AS key", "timestamp").groupBy("key").count()
    query = counts.writeStream.format("noop").outputMode("update").start()
    while (progress := query.lastProgress) is None or progress["batchId"] < 2:
        query.awaitTermination(1)
    query.stop()
    close(patience=120)


if __name__ == "__main__":
    _rehearse(Path(sys.argv[1]))
