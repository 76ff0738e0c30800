"""The jars that a session needs beside Spark's own: Spark's Kafka connector, and our Scala classes.

Both are in ottla's cache (cache.py) and come there on first use. The connector is four jars that jvm/connector.xml
names and jvm/connector.sha256 has the digests of. They are downloaded from Maven Central, or the mirror of it that
$OTTLA_MAVEN_CENTRAL names. Where that fails, Maven is asked: it may be set up for a mirror, or have them already. It
comes second since it downloads 290 files of its own first. A jar with another digest is never used. (Spark's own way
to get them, `spark.jars.packages`, checks no digests, and hangs for minutes where a mirror lacks one of them.)

Our classes are compiled by the Scala compiler among Spark's jars; a changed source makes a new jar.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen
from xml.etree import ElementTree

from ottla.pipelines import cache
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.requirements import SPARK, java, spark_home
from ottla.pipelines.waiting import Report

SOURCES = Path(__file__).parent / "jvm"
CONNECTOR = SOURCES / "connector.xml"
DIGESTS = SOURCES / "connector.sha256"
CENTRAL = ""
PATIENCE = 10.0  # seconds without a byte from Maven Central
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
    reasons = []
    for way in (_from_central, _by_maven):
        try:
            way(directory, report)
            wrong = _misfits(directory)
        except PipelineError as error:
            wrong = [str(error)]
        if not wrong:
            return
        reasons += wrong
    raise PipelineError(f"Spark's Kafka connector cannot be fetched: {'; '.join(reasons)}")


def _by_maven(directory: Path, report: Report) -> None:
    command = shutil.which("mvn")
    if not command:
        raise PipelineError("there is no Maven that may know a mirror (apt-get install maven, brew install maven)")
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
        raise PipelineError(f"Maven failed ({errors[0][:400] if errors else f'status {process.returncode}'})")


def _from_central(directory: Path, report: Report) -> None:
    space = {"": "http://maven.apache.org/POM/4.0.0"}
    central = os.environ.get("OTTLA_MAVEN_CENTRAL", CENTRAL).rstrip("/")
    for dependency in ElementTree.parse(CONNECTOR).iterfind("dependencies/dependency", space):
        group, name, version = (dependency.findtext(tag, "", space) for tag in ("groupId", "artifactId", "version"))
        file = f"{name}-{version}.jar"
        _download(f"{central}/{group.replace('.', '/')}/{name}/{version}/{file}", directory / file, report)


def _download(url: str, to: Path, report: Report) -> None:
    try:
        with urlopen(url, timeout=PATIENCE) as response, to.open("wb") as file:
            total, done = int(response.headers.get("Content-Length", 0)), 0
            while chunk := response.read(1 << 16):
                file.write(chunk)
                done += len(chunk)
                report(to.name, done, total)
    except (OSError, HTTPException, ValueError) as error:  # ValueError: of an address that is none
        raise PipelineError(f"{url} cannot be downloaded ({getattr(error, 'reason', None) or error})") from error


def _compile(sources: list[Path], directory: Path) -> None:
    path = os.pathsep.join([f"{spark_home()}/jars/*", *map(str, connector())])
    command = [str(java().command), *SHORT_JVM, "-cp", path, "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
    to = ["-d", str(directory / "ottla.jar")]
    done = subprocess.run([*command, *to, *map(str, sources)], capture_output=True, text=True)
    if done.returncode:
        raise PipelineError(f"ottla's Scala classes do not compile:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    for other in directory.parent.iterdir():
        if time.time() - other.stat().st_mtime > KEPT:
            shutil.rmtree(other, ignore_errors=True)
