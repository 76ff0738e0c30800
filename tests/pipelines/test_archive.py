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
    if there is None:
        pytest.skip("it has not been made: python -m ottla.pipelines.prepare --archive")
    gateway = SparkContext._gateway
    assert gateway is not None
    process = Path(f"/proc/{gateway.proc.pid}")
    if there.parent.stat().st_ctime > _started(process) - 5:
        pytest.skip("another test made it when this session had started")
    assert str(there) in (process / "maps").read_text()


def _started(process: Path) -> float:
    """When it started, in seconds since 1970."""
    ticks = int((process / "stat").read_text().rpartition(")")[2].split()[19])
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def test_one_that_does_not_fit_disturbs_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "spark.jsa"
    wrong.write_bytes(b"not an archive" * 1000)
    options = [option.strip('"') for option in _java_options(Settings(quick=True), tmp_path, wrong)]
    words = [java().command, "-Xmx64m", *options, "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith("openjdk")


def test_it_is_made_for_one_java_and_one_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path))
    place = archive._directory(java(), spark_home())
    place.mkdir(parents=True)
    (place / archive.NAME).touch()
    assert archive.found(java(), spark_home()) == place / archive.NAME
    assert archive.found(java(), tmp_path) is None
