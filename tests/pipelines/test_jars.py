from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.pipelines import jars
from ottla.pipelines.errors import PipelineError

pytestmark = pytest.mark.usefixtures("spark_can_start")

CLIENTS = "kafka-clients-3.9.2.jar"


class Maven:
    """A Maven that is only a script: it has the connector's jars in `repository`, and notes each call."""

    def __init__(self, directory: Path) -> None:
        self.repository = directory / "repository"
        shutil.copytree(jars.connector()[0].parent, self.repository)
        self.command = directory / "bin" / "mvn"
        self.command.parent.mkdir()
        self._calls = directory / "calls"
        copy = f"/bin/cp {self.repository}/*.jar $to"
        self.does(f"printf 'Downloading from x: y/z.jar\\nProgress (1): 0.1/9.2 MB\\r'; {copy}")

    def does(self, script: str) -> None:
        where = "for word; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done"
        self.command.write_text(f"#!/bin/sh\necho >>{self._calls}\n{where}\n{script}\n")
        self.command.chmod(0o755)

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines())


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maven:
    maven = Maven(tmp_path)
    monkeypatch.setenv("PATH", str(maven.command.parent), prepend=os.pathsep)
    return maven


@pytest.fixture
def cold(tmp_path: Path, maven: Maven, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a Maven to fill it."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("OTTLA_CACHE", str(cache))
    return cache


def test_the_connector_is_fetched_once(cold: Path, maven: Maven, capfd: pytest.CaptureFixture[str]) -> None:
    first = jars.connector()
    assert [jar.name for jar in first] == sorted(jar.name for jar in maven.repository.iterdir())
    assert all(cold in jar.parents for jar in first)
    assert jars.connector() == first
    assert maven.calls == 1
    assert capfd.readouterr().err == "ottla: Fetching Spark's Kafka connector, 10 MB\n"


@pytest.mark.parametrize("harm", [lambda jar: jar.write_bytes(jar.read_bytes()[:-1]), Path.unlink])
def test_a_jar_that_is_not_what_it_was_is_fetched_anew(
    cold: Path, maven: Maven, capfd: pytest.CaptureFixture[str], harm: Callable[[Path], object]
) -> None:
    jar = next(jar for jar in jars.connector() if jar.name == CLIENTS)
    harm(jar)
    capfd.readouterr()
    jars.connector()
    assert jar.read_bytes() == (maven.repository / CLIENTS).read_bytes()
    assert maven.calls == 2
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith(f"ottla: {CLIENTS} is ")
    assert said[0].endswith("; it is made anew")


def test_a_jar_with_another_digest_is_never_used(cold: Path, maven: Maven) -> None:
    (maven.repository / CLIENTS).write_bytes(b"something else")
    digest = hashlib.sha256(b"something else").hexdigest()[:12]
    with pytest.raises(PipelineError) as raised:
        jars.connector()
    assert f"{CLIENTS} is not what it should be (SHA-256 {digest}…, expected 014b4ef36884…)" in str(raised.value)
    assert not list(cold.rglob("*.jar"))


def test_a_missing_maven_is_said_with_how_to_get_it(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cold))
    with pytest.raises(PipelineError, match=r"is fetched by Maven, and there is no mvn: apt-get install maven"):
        jars.connector()


def test_what_maven_complains_of_is_said_in_one_line(cold: Path, maven: Maven) -> None:
    maven.does("echo '[INFO] x'; echo '[ERROR] Could not transfer artifact y: Unknown host'; echo '[ERROR] z'; exit 1")
    with pytest.raises(PipelineError) as raised:
        jars.connector()
    assert str(raised.value) == (
        "Maven cannot fetch Spark's Kafka connector: Could not transfer artifact y: Unknown host"
    )


def test_a_cache_that_cannot_be_written_is_named(cold: Path) -> None:
    cold.write_text("a file")
    with pytest.raises(
        PipelineError, match=rf"cannot write to {cold}/connector \(Not a directory\); \$OTTLA_CACHE may"
    ):
        jars.connector()


def test_a_source_that_does_not_compile_is_shown(cold: Path, tmp_path: Path) -> None:
    (tmp_path / "Wrong.scala").write_text("package ottla\nobject Wrong { val x: Int = true }\n")
    (cold / "out").mkdir(parents=True)
    with pytest.raises(PipelineError, match=r"do not compile:\n(.|\n)*type mismatch"):
        jars._compile([tmp_path / "Wrong.scala"], cold / "out")


@pytest.mark.slow
def test_processes_that_start_at_once_on_a_cold_cache_share_the_work(tmp_path: Path, maven: Maven) -> None:
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
    assert maven.calls == 1
    assert sum(err.count("Compiling ottla's Scala classes, about 10 s\n") for _, err in said) == 1
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["classes", "connector"]
    assert len(list((tmp_path / "cache" / "classes").iterdir())) == 2  # the jar's directory and a lock
