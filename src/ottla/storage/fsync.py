"""Putting on disk what has a path and is not open: files that are complete, and directories whose entries changed."""

from __future__ import annotations

import os
from pathlib import Path


def fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
