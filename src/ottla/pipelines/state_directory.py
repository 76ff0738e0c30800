"""What an application has to remember between two runs, in a directory of its own.

    <state_dir>/<application id>/
        lock                  held (flock) while the application runs; says which process holds it
        start.json            {"topic": {"0": offset}}: where queries without a checkpoint begin; written by a reset
        checkpoints/<query>   Spark's: offsets, and the state of one query
        stores/               the files of the stores

Nothing here needs Spark, so a reset works where none is installed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.pipelines.errors import PipelineError

DEFAULT = Path("data/streams")  # where applications remember, unless they say otherwise

Offsets = dict[str, dict[int, int]]  # by topic and partition


class StateDirectory:
    def __init__(self, state_dir: str | Path, application: str) -> None:
        self.application = application
        self.path = Path(state_dir) / application

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def stores(self) -> Path:
        return self.path / "stores"

    def lock(self) -> Lock:
        """The directory for one process alone; PipelineError where another one has it."""
        return Lock(self)

    # -- where to begin ------------------------------------------------------------------------------------------

    def starts(self) -> Offsets:
        """Where queries without a checkpoint begin, as a reset has left it; topics that are not in it: as ever."""
        file = self.path / "start.json"
        try:
            read = json.loads(file.read_text())
            return {topic: {int(n): int(at) for n, at in places.items()} for topic, places in read.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError) as wrong:
            raise PipelineError(
                f"{file} does not say where to start ({wrong}): reset the application again, or delete the file"
            ) from None

    def forget(self, starts: Mapping[str, Mapping[int, int]]) -> None:
        """Delete checkpoints and stores; the next run begins at these offsets. The lock must be held."""
        self.path.mkdir(parents=True, exist_ok=True)
        for entry in self.contents():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        if starts:
            text = {topic: {str(n): at for n, at in sorted(places.items())} for topic, places in starts.items()}
            new = self.path / "start.json.new"
            new.write_text(json.dumps(text, indent=1) + "\n")
            new.rename(self.path / "start.json")

    def contents(self) -> list[Path]:
        """What lies in it, but for the lock."""
        if not self.path.is_dir():
            return []
        return sorted(entry for entry in self.path.iterdir() if entry.name != "lock")


class Lock:
    """Held from its making until release(), or the end of the process."""

    def __init__(self, directory: StateDirectory) -> None:
        file = directory.path / "lock"
        try:
            directory.path.mkdir(parents=True, exist_ok=True)
            self._file: int | None = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PipelineError(f"cannot write to the state directory {directory.path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 20).decode(errors="replace").strip()
            self.release()
            raise PipelineError(
                f"application {directory.application} runs already, with its state in {directory.path}"
                + (f" (process {holder})" if holder else "")
                + ": stop it first"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
