"""The jars that a session needs beside pyspark's own: Spark's Kafka connector from Maven, and our Scala classes.

Both lie in ottla's cache directory ($OTTLA_CACHE, else ottla/ under $XDG_CACHE_HOME or ~/.cache) and are made on first
use. A jar of our classes is named by the digest of its sources, so that a changed source builds a new one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from ottla.pipelines.errors import PipelineError

SOURCES = Path(__file__).parent / "jvm"
CONNECTOR = SOURCES / "connector.xml"


def cache() -> Path:
    named = os.environ.get("OTTLA_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"


def pyspark_jars() -> Path:
    return Path(pyspark.__file__).parent / "jars"


def connector() -> list[Path]:
    """Spark's Kafka connector, fetched by Maven when it is not there yet."""
    directory = cache() / "connector" / _digest([CONNECTOR])
    if not directory.is_dir():
        _make(directory, _fetch)
    return sorted(directory.glob("*.jar"))


def own() -> Path:
    """Our Scala classes in one jar, compiled by the compiler among pyspark's jars when they are not there yet."""
    sources = sorted(SOURCES.glob("*.scala"))
    directory = cache() / "classes" / _digest(sources)
    if not directory.is_dir():
        _make(directory, lambda where: _compile(sources, where))
    return directory / "ottla.jar"


def _fetch(directory: Path) -> None:
    if not shutil.which("mvn"):
        raise PipelineError("Spark's Kafka connector is fetched by Maven, and there is no mvn: apt-get install maven")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
    done = subprocess.run(["mvn", "-q", "-B", "-f", str(CONNECTOR), *goal], capture_output=True, text=True)
    if done.returncode:
        raise PipelineError(
            f"Maven could not fetch Spark's Kafka connector:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def _compile(sources: list[Path], directory: Path) -> None:
    path = os.pathsep.join([f"{pyspark_jars()}/*", *map(str, connector())])
    command = ["java", "-cp", path, "scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", str(directory / "ottla.jar")]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True)
    if done.returncode:
        raise PipelineError(f"The Scala classes of ottla do not compile:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _make(directory: Path, make: object) -> None:
    """Fill a directory whole or not at all, also when several processes do so at once."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=directory.parent))
    try:
        make(scratch)  # type: ignore[operator]
        try:
            scratch.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
