from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines import jars
from ottla.pipelines.errors import PipelineError
from support.maven_mirror import MavenMirror

CLIENTS = "kafka-clients-3.9.2.jar"


@pytest.fixture
def cold(tmp_path: Path, mirror: MavenMirror, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a mirror to fill it from, and no Maven."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("OTTLA_CACHE", str(cache))
    monkeypatch.setenv("PATH", str(tmp_path))
    return cache


def maven(directory: Path, script: str) -> None:
    """A Maven that is only a script; $to is where the jars shall go."""
    command = directory / "mvn"
    command.write_text(
        f"#!/bin/sh\nfor word; do case $word in -DoutputDirectory=*) to=${{word#*=}};; esac; done\n{script}\n"
    )
    command.chmod(0o755)


def test_the_connector_is_downloaded_once(cold: Path, mirror: MavenMirror, capfd: pytest.CaptureFixture[str]) -> None:
    first = jars.connector()
    assert {jar.name: jar.read_bytes() for jar in first} == mirror.files
    assert all(cold in jar.parents for jar in first)
    assert jars.connector() == first
    assert len(mirror.asked) == 4
    assert capfd.readouterr().err == "ottla: Fetching Spark's Kafka connector, 10 MB\n"


@pytest.mark.parametrize("harm", [lambda jar: jar.write_bytes(jar.read_bytes()[:-1]), Path.unlink])
def test_a_jar_that_is_not_what_it_was_is_fetched_anew(
    cold: Path, mirror: MavenMirror, capfd: pytest.CaptureFixture[str], harm
) -> None:
    jar = next(jar for jar in jars.connector() if jar.name == CLIENTS)
    harm(jar)
    capfd.readouterr()
    jars.connector()
    assert jar.read_bytes() == mirror.files[CLIENTS]
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith(f"ottla: {CLIENTS} is ")
    assert said[0].endswith("; it is made anew")


def test_a_jar_with_another_digest_is_never_used(cold: Path, mirror: MavenMirror) -> None:
    mirror.files[CLIENTS] = b"something else"
    digest = hashlib.sha256(b"something else").hexdigest()[:12]
    with pytest.raises(PipelineError) as raised:
        jars.connector()
    assert f"{CLIENTS} is not what it should be (SHA-256 {digest}…, expected 014b4ef36884…)" in str(raised.value)
    assert "there is no Maven" in str(raised.value)
    assert "apt-get install maven" in str(raised.value)
    assert not list(cold.rglob("*.jar"))


def test_where_a_download_fails_maven_is_asked(
    cold: Path, mirror: MavenMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_MAVEN_CENTRAL", "http://127.0.0.1:1")
    there = cold.parent / "repository"
    there.mkdir()
    for name, content in mirror.files.items():
        (there / name).write_bytes(content)
    maven(
        cold.parent, f"printf 'Downloading from x: http://x/y.jar\\nProgress (1): 0.1/9.2 MB\\r'; /bin/cp {there}/* $to"
    )
    assert len(jars.connector()) == 4
    assert mirror.asked == []


def test_where_nothing_helps_each_reason_is_said(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_MAVEN_CENTRAL", "http://127.0.0.1:1")
    maven(cold.parent, "echo '[ERROR] Could not transfer artifact x: Unknown host'; echo '[ERROR] more'; exit 1")
    with pytest.raises(PipelineError) as raised:
        jars.connector()
    said = str(raised.value)
    assert said.startswith("Spark's Kafka connector cannot be fetched: http://127.0.0.1:1/org/apache/spark/")
    assert "Connection refused" in said
    assert said.endswith("; Maven failed (Could not transfer artifact x: Unknown host)")


def test_a_cache_that_cannot_be_written_is_named(cold: Path) -> None:
    cold.write_text("a file")
    with pytest.raises(
        PipelineError, match=rf"cannot write to {cold}/connector \(Not a directory\); \$OTTLA_CACHE may"
    ):
        jars.connector()


def test_a_source_that_does_not_compile_is_shown(cold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("OTTLA_CACHE", str(cold))
    (tmp_path / "Wrong.scala").write_text("package ottla\nobject Wrong { val x: Int = true }\n")
    (cold / "out").mkdir(parents=True)
    with pytest.raises(PipelineError, match=r"do not compile:\n(.|\n)*type mismatch"):
        jars._compile([tmp_path / "Wrong.scala"], cold / "out")


@pytest.mark.slow
def test_processes_that_start_at_once_on_a_cold_cache_share_the_work(tmp_path: Path, mirror: MavenMirror) -> None:
    code = "from ottla.pipelines import jars; print(*jars.all_jars(), sep='\\n')"
    environment = {**os.environ, "OTTLA_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(words, env=environment, text=True, **pipes) for _ in range(3)]
    said = [process.communicate() for process in processes]
    assert {out for out, _ in said} == {said[0][0]}
    listed = [Path(line) for line in said[0][0].splitlines()]
    assert len(listed) == 5
    assert all(jar.stat().st_size for jar in listed)
    assert len(mirror.asked) == 4
    assert sum(err.count("Compiling ottla's Scala classes, about 10 s\n") for _, err in said) == 1
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["classes", "connector"]
    assert len(list((tmp_path / "cache" / "classes").iterdir())) == 2  # the jar's directory and a lock
