"""The jars that a session needs beside Spark's own: Spark's Kafka connector, and our Scala classes.

Both are in ottla's cache (cache.py) and come there on first use. The connector is four jars that jvm/connector.xml
names and jvm/connector.sha256 has the digests of; Maven fetches them, and a jar with another digest is never used.
(Spark's own way to get them, `spark.jars.packages`, checks no digests and hangs for minutes where one is missing.)

Our classes are compiled by the Scala compiler among Spark's jars; a changed source makes a new jar.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ottla.pipelines import cache
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.requirements import SPARK, java, spark_home
from ottla.pipelines.waiting import Report

SOURCES = Path(__file__).parent / "jvm"
CONNECTOR = SOURCES / "connector.xml"
DIGESTS = SOURCES / "connector.sha256"
KEPT = 30 * 24 * 3600  # seconds for which classes of other sources are kept

# A compiler that runs for seconds is done sooner with the JVM's first compiler only.
SHORT_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss4m")


def all_jars() -> list[Path]:
    return [*connector(), own()]


def connector() -> list[Path]:
    """Spark's Kafka connector, fetched when it is not there yet or is not what it was."""
    directory = cache.place("connector", [CONNECTOR, DIGESTS])
    cache.made(directory, "Fetching Spark's Kafka connector, 10 MB", _fetch, _misfits)
    return [directory / name for name in _digests()]


def own() -> Path:
    """Our Scala classes in one jar, compiled when they are not there yet."""
    sources = sorted(SOURCES.glob("*.scala"))
    directory = cache.place("classes", [*sources, CONNECTOR, SPARK])
    cache.made(directory, "Compiling ottla's Scala classes, about 10 s", lambda where, _: _compile(sources, where))
    return directory / "ottla.jar"


def _digests() -> dict[str, str]:
    lines = (line.split() for line in DIGESTS.read_text().splitlines())
    return {name: digest for digest, name in lines}


def _misfits(directory: Path) -> list[str]:
    """What is wrong with the jars there."""
    wrong = []
    for name, expected in _digests().items():
        try:
            with (directory / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            wrong.append(f"{name} is missing from {directory}")
            continue
        if found != expected:
            wrong.append(f"{name} is not what it should be (SHA-256 {found[:12]}…, expected {expected[:12]}…)")
    return wrong


def _fetch(directory: Path, report: Report) -> None:
    command = shutil.which("mvn")
    if not command:
        raise PipelineError(
            "Spark's Kafka connector is fetched by Maven, and there is no mvn: apt-get install maven (Debian, Ubuntu), "
            "brew install maven (macOS)"
        )
    # Not in batch mode: only so does it say how far a download is.
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}", "-Dstyle.color=never"]
    process = subprocess.Popen(
        [command, "-f", str(CONNECTOR), *goal],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",  # and every kind of line end, so that its progress comes as lines
    )
    assert process.stdout is not None
    name, errors = "", []
    with process:
        for line in process.stdout:
            if line.startswith("Downloading from "):
                name = line.rpartition("/")[2].strip()
                report(name)
            elif found := re.search(r"^Progress .*?([\d.]+)/([\d.]+) MB", line):
                report(name, *(int(float(megabytes) * 1_000_000) for megabytes in found.groups()))
            elif line.startswith("[ERROR]") and line[7:].strip():
                errors.append(line[7:].strip())
    if process.returncode:
        reason = errors[0][:400] if errors else f"status {process.returncode}"
        raise PipelineError(f"Maven cannot fetch Spark's Kafka connector: {reason}")
    if wrong := _misfits(directory):
        raise PipelineError(f"Maven gives a connector that is not used: {wrong[0]}; remove it from Maven's repository")


def _compile(sources: list[Path], directory: Path) -> None:
    path = os.pathsep.join([f"{spark_home()}/jars/*", *map(str, connector())])
    command = [str(java().command), *SHORT_JVM, "-cp", path, "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
    to = ["-d", str(directory / "ottla.jar")]
    done = subprocess.run([*command, *to, *map(str, sources)], capture_output=True, text=True)
    if done.returncode:
        raise PipelineError(f"ottla's Scala classes do not compile:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    for other in directory.parent.iterdir():
        with suppress(FileNotFoundError):  # another process may clean up, too
            if time.time() - other.stat().st_mtime > KEPT:
                shutil.rmtree(other, ignore_errors=True)
