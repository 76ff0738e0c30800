"""What a session needs from the machine: the packages of the extra `spark`, that version of Spark, and a Java.

Each check says what is missing and how to get it. Java is found as Spark's own scripts find it: in $JAVA_HOME, else on
the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ottla.pipelines.errors import MissingPackages, PipelineError

PACKAGES = ("pyspark", "fastavro", "pandas", "pyarrow", "google.protobuf")
SPARK = "4.2.0"  # the connector's version, and pyproject.toml's
OLDEST_JAVA = 17
GET_JAVA = (
    f"Spark runs on Java {OLDEST_JAVA} or newer: apt-get install default-jre-headless (Debian, Ubuntu), "
    "brew install openjdk@21 (macOS); $JAVA_HOME may say where it is"
)


@dataclass(frozen=True, slots=True)
class Java:
    command: Path
    version: str


def check_packages() -> None:
    missing = [name.replace("google.", "") for name in PACKAGES if not _is_there(name)]
    if missing:
        raise MissingPackages(
            f"pipelines run on Spark, and {', '.join(missing)} is not installed: "
            "pip install 'ottla[spark]' (in a checkout of ottla: make spark)"
        )


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def spark_home() -> Path:
    """Where Spark is: $SPARK_HOME, or the package pyspark."""
    import pyspark

    named = os.environ.get("SPARK_HOME")
    home = Path(named) if named else Path(pyspark.__file__).parent
    if pyspark.__version__ != SPARK:
        raise PipelineError(
            f"ottla needs pyspark {SPARK} and finds {pyspark.__version__}: pip install pyspark=={SPARK}"
        )
    if not list((home / "jars").glob(f"spark-core_*-{SPARK}.jar")):
        raise PipelineError(
            f"$SPARK_HOME is {home}, and there is no Spark {SPARK} in it: unset it, and Spark comes from pyspark"
            if named
            else f"the package pyspark in {home} lacks Spark's jars: pip install --force-reinstall pyspark=={SPARK}"
        )
    return home


def java() -> Java:
    """The Java that Spark will run on."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = shutil.which(str(Path(home) / "bin" / "java"))
        if not found:
            raise PipelineError(f"$JAVA_HOME is {home}, and there is no bin/java in it. {GET_JAVA}")
    else:
        found = shutil.which("java")
        if not found:
            raise PipelineError(f"there is no java. {GET_JAVA}")
    command = Path(found)
    version = _version(command)
    if version is None:
        raise PipelineError(f"{command} does not say its version, so it is no Java that works. {GET_JAVA}")
    if int(re.split(r"\D", version.removeprefix("1."))[0]) < OLDEST_JAVA:  # 8 called itself 1.8
        raise PipelineError(f"{command} is Java {version}. {GET_JAVA}")
    return Java(command, version)


def _version(command: Path) -> str | None:
    """As the file beside it says, which is quicker than a JVM; most Javas have it."""
    release = command.resolve().parents[1] / "release"
    try:
        said = re.search(r'^JAVA_VERSION="(\d[^"]*)"', release.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        said = None
    if said is None:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        said = re.search(r'version "(\d[^"]*)"', done.stderr) if done.returncode == 0 else None
    return said[1] if said else None
