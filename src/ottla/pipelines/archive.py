"""Spark's classes as an archive that a JVM maps into memory instead of reading jars (the JVM's class data sharing).

A session that finds one starts in half the time, and its first jobs take half the time. It holds for one Java and one
Spark in one place, and the JVM itself refuses one that does not fit, silently; so it can make nothing fail. It costs a
run of Spark to make and 150 MB, so only `python -m ottla.pipelines.prepare` makes it. The JVM goes by the sizes and
times of the jars, so an archive of a Spark that has been installed anew since is made anew.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from ottla.pipelines import cache
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.requirements import SPARK, Java, java, spark_home
from ottla.pipelines.waiting import Report

NAME = "spark.jsa"
JARS = "jars.txt"


def found(with_java: Java, home: Path) -> Path | None:
    """The archive for this Java and this Spark, if it has been made."""
    directory = _directory(with_java, home)
    return directory / NAME if directory.is_dir() and not _misfits(home, directory) else None


def make() -> None:
    """Make the one for this machine's Java and Spark, if it is not there."""
    home = spark_home()
    what = "Archiving Spark's classes, about 20 s"
    cache.made(_directory(java(), home), what, partial(_record, home), partial(_misfits, home))


def _directory(with_java: Java, home: Path) -> Path:
    return cache.place("archive", [str(with_java.command.resolve()), with_java.version, str(home), SPARK])


def _misfits(home: Path, directory: Path) -> list[str]:
    jars = directory / JARS
    if (directory / NAME).exists() and jars.exists() and jars.read_text() == _listed(home):
        return []
    return [f"the archive of Spark's classes is not of the jars in {home}"]


def _listed(home: Path) -> str:
    """The jars as the JVM compares them: by size and time of their last change."""
    jars = [(jar.name, jar.stat()) for jar in sorted((home / "jars").glob("*.jar"))]
    return "".join(f"{name} {stat.st_size} {stat.st_mtime_ns}\n" for name, stat in jars)


def _record(home: Path, directory: Path, report: Report) -> None:
    """Have a process use what most pipelines use; its JVM writes the archive at its end."""
    archive = directory / NAME
    (directory / JARS).write_text(_listed(home))
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
