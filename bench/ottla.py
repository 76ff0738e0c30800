"""ottla as `make setup` installs it: one broker, its defaults. The delay before files of deleted topics go away is the
same as the one that kafka.py sets."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from bench.process import DELETE_DELAY_MS, BenchError


class Ottla:
    name = "ottla"
    label = "ottla"

    def __init__(self, root: Path) -> None:
        self._command = root / ".venv" / "bin" / "ottla"

    def version(self) -> str:
        return f"{version('ottla')} on CPython {platform.python_version()}"

    def install(self) -> None:
        if not self._command.exists():
            raise BenchError("ottla is not set up here: run make setup")

    def prepare(self, directory: Path, port: int, overrides: Mapping[str, str] | None = None) -> list[str]:
        properties = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(directory / "data"),
            "log.segment.delete.delay.ms": DELETE_DELAY_MS,
            **(overrides or {}),
        }
        options = [option for key, value in properties.items() for option in ("--override", f"{key}={value}")]
        return [str(self._command), "broker", *options]
