from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ottla.pipelines import archive
from ottla.pipelines.requirements import java, spark_home
from ottla.pipelines.session import Settings, _java_options

pytestmark = pytest.mark.usefixtures("spark_can_start")


def test_a_session_maps_the_archive_if_there_is_one(spark: SparkSession) -> None:
    there = archive.found(java(), spark_home())
    if there is None and not os.environ.get("CI"):
        pytest.skip("it has not been made: python -m ottla.pipelines.prepare --archive")
    gateway = SparkContext._gateway
    assert gateway is not None
    assert str(there) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()


def test_one_that_does_not_fit_disturbs_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "spark.jsa"
    wrong.write_bytes(b"not an archive" * 1000)
    options = [option.strip('"') for option in _java_options(Settings(quick=True), tmp_path, wrong)]
    words = [java().command, "-Xmx64m", *options, "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith("openjdk")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark of one jar, with an archive of it."""
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "spark"
    jar = home / "jars" / "spark-core.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"jar")
    place = archive._directory(java(), home)
    place.mkdir(parents=True)
    (place / archive.NAME).touch()
    (place / archive.JARS).write_text(archive._listed(home))
    return home


def test_it_is_made_for_one_java_and_one_spark(home: Path, tmp_path: Path) -> None:
    assert archive.found(java(), home) == archive._directory(java(), home) / archive.NAME
    assert archive.found(java(), tmp_path) is None


def test_it_is_not_of_a_spark_that_was_installed_anew(home: Path) -> None:
    jar = home / "jars" / "spark-core.jar"
    jar.unlink()
    jar.write_bytes(b"jar")
    os.utime(jar, (0, 0))
    assert archive.found(java(), home) is None
