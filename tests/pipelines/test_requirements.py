from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.requirements import java, spark_home


def a_java(home: Path, script: str, release: str | None = None) -> Path:
    """A Java that is only a script."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return command


def test_a_missing_java_is_said_in_one_line_with_how_to_get_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ottla.pipelines.prepare"]
    done = subprocess.run(words, env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "ottla: there is no java. Spark runs on Java 17 or newer: apt-get install default-jre-headless"
    )


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = a_java(tmp_path / "jdk", "exit 1", 'IMPLEMENTOR="x"\nJAVA_VERSION="21.0.4"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java().command == command
    assert java().version == "21.0.4"


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=rf"\$JAVA_HOME is {tmp_path}, and there is no bin/java in it. Spark runs"):
        java()


@pytest.mark.parametrize(
    ("script", "release", "version"),
    [
        ("exit 1", 'JAVA_VERSION="11.0.2"', "11.0.2"),
        ("echo 'openjdk version \"1.8.0_392\"' >&2", None, "1.8.0_392"),
    ],
)
def test_an_old_java_is_refused_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, release: str | None, version: str
) -> None:
    command = a_java(tmp_path / "jdk", script, release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(PipelineError, match=f"{command} is Java {version}. Spark runs on Java 17 or newer"):
        java()


def test_a_java_that_does_not_work_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path / "jdk", "echo 'No Java runtime present, requesting install.' >&2; exit 1")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "jdk" / "bin"))
    with pytest.raises(PipelineError, match="does not say its version"):
        java()


@pytest.mark.parametrize("package", ["pyspark", "google.protobuf"])
def test_without_its_packages_the_import_says_what_to_install(package: str) -> None:
    code = f"""
import sys
sys.modules["{package}"] = None
try:
    import ottla.pipelines.session
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"MissingPackages pipelines run on Spark, and {package.replace('google.', '')} is not installed: "
        "pip install 'ottla[spark]' (in a checkout of ottla: make spark)\n"
    )


def test_another_spark_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(
        PipelineError, match=rf"\$SPARK_HOME is {tmp_path}, and there is no Spark 4.2.0 in it: unset it"
    ):
        spark_home()
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setattr("pyspark.__version__", "4.1.0")
    with pytest.raises(PipelineError, match=r"needs pyspark 4\.2\.0 and finds 4.1.0: pip install pyspark==4.2.0"):
        spark_home()
