"""A session's own directory for what Spark puts on disk while it runs: shuffles, native libraries, sockets.

Spark deletes its files when it ends by itself, not when it is killed. So each process has one directory, with a lock
that goes with the process; who starts next removes the directories whose lock is free. A directory is seen by others
only when it is locked already: it is made under another name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

PREFIX = "ottla-spark-"


class Scratch:
    def __init__(self) -> None:
        _sweep()
        hidden = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        self._lock = _lock(hidden, "w")
        self.path = hidden.rename(hidden.with_name(hidden.name[1:]))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock:
            self._lock.close()


def _sweep() -> None:
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            lock = _lock(left, "r") if left.stat().st_uid == os.getuid() else None
        except OSError:
            continue
        if lock:
            shutil.rmtree(left, ignore_errors=True)
            lock.close()


def _lock(directory: Path, mode: str) -> IO[str] | None:
    """The locked file, or None if another process has it."""
    file = (directory / ".alive").open(mode)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
