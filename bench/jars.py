"""Java programs as Maven gives them: the jars that a pom names, copied to a directory once and run from there."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.process import BenchError


class Jars:
    """What `pom` names, in `directory`. `label` is what people call it, `fetch` the command that fetches it."""

    def __init__(self, label: str, pom: Path, directory: Path, fetch: str) -> None:
        self._label = label
        self._pom = pom
        self.directory = directory
        self._fetch = fetch

    def missing(self) -> str | None:
        """What has to be there before it can run, if it is not."""
        there = self._are_there()
        for tool, package in (("java", "default-jre-headless"), ("mvn", "maven")):
            if not shutil.which(tool) and not (tool == "mvn" and there):
                return f"{self._label} needs {tool}: apt-get install {package}"
        return None if there else f"{self._label}'s jars are not in build/{self.directory.name}: {self._fetch}"

    def _are_there(self) -> bool:
        """Whether the jars that the pom names are there, in its versions."""
        named = re.findall(r"<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)", self._pom.read_text())
        return all((self.directory / f"{name}-{version}.jar").exists() for name, version in named[1:])  # 0: the pom

    def install(self) -> None:
        missing = self.missing()
        if missing is None:
            return
        if not (shutil.which("java") and shutil.which("mvn")):
            raise BenchError(missing)
        shutil.rmtree(self.directory, ignore_errors=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={self.directory}", "-DincludeScope=runtime"]
        done = subprocess.run(["mvn", "-q", "-B", "-f", str(self._pom), *goal], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"Maven could not fetch {self._label}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def java(self, *words: str, options: Sequence[str] = ()) -> list[str]:
        """The command that runs a class: JVM options, then the class and its arguments."""
        return ["java", *options, "-cp", f"{self.directory}/*", *words]
