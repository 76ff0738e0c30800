"""The load generator (loadgen/*.c): compiled on first use into build/, run once per measurement.

With librdkafka's headers it has all modes, without them the raw ones only."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from bench.process import BenchError

SOURCES = Path(__file__).with_name("loadgen")
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")


def has_rdkafka() -> bool:
    probe = "#include <librdkafka/rdkafka.h>\n"
    return not subprocess.run(["gcc", "-E", "-xc", "-"], input=probe, capture_output=True, text=True).returncode


class LoadGenerator:
    """Compiles when the sources are newer than the program, or when it lacks librdkafka and may now have it."""

    def __init__(self, build: Path, *, raw_only: bool = False) -> None:
        if not shutil.which("gcc"):
            raise BenchError("the load generator needs a C compiler: apt-get install gcc libc6-dev")
        if not raw_only and not has_rdkafka():
            raise BenchError("the load generator needs librdkafka: apt-get install librdkafka-dev")
        self._program = build / ("loadgen-raw" if raw_only else "loadgen")
        newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
        if not self._program.exists() or self._program.stat().st_mtime < newest:
            build.mkdir(parents=True, exist_ok=True)
            extra = [] if raw_only else ["-DWITH_RDKAFKA", "-lrdkafka"]
            sources = sorted(str(path) for path in SOURCES.glob("*.c"))
            command = ["gcc", *FLAGS, *sources, *extra, "-o", str(self._program)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise BenchError(f"the load generator does not compile:\n{done.stderr}")

    def run(self, mode: str, port: int, **options: object) -> dict[str, Any]:
        """What the generator printed. Options are its own, with underscores: `linger_ms=5`."""
        flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        done = subprocess.run([str(self._program), "--port", str(port), *flags, mode], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"{mode}: {done.stderr.strip() or f'load generator died with status {done.returncode}'}")
        result: dict[str, Any] = json.loads(done.stdout)
        return result
