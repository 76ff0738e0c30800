"""ottla's cache directory: $OTTLA_CACHE, else ottla/ under $XDG_CACHE_HOME or ~/.cache.

What is made once for all sessions lies there, in directories that are named by the digest of what they are made from.
A directory is whole or not there at all, also when several processes start at once: one makes it under another name
while the others wait for its lock, and renames it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.waiting import Report, say, shown


def root() -> Path:
    named = os.environ.get("OTTLA_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"


def place(kind: str, made_from: Iterable[Path | str]) -> Path:
    """The directory for what is made from these files and words."""
    digest = hashlib.sha256()
    for one in made_from:
        digest.update(one.read_bytes() if isinstance(one, Path) else one.encode())
        digest.update(b"\0")
    return root() / kind / digest.hexdigest()[:16]


def made(
    directory: Path,
    what: str,
    make: Callable[[Path, Report], None],
    misfits: Callable[[Path], list[str]] = lambda _: [],
) -> Path:
    """The directory, filled by `make` if it is not there or if `misfits` finds fault with it.

    `what` tells people what they wait for.
    """
    if directory.is_dir() and not misfits(directory):
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _alone(directory, what):
            if directory.is_dir() and (wrong := misfits(directory)):
                say(f"{wrong[0]}; it is made anew")
                shutil.rmtree(directory)
            if not directory.is_dir():
                _fill(directory, what, make)
    except OSError as error:
        reason = error.strerror or error
        raise PipelineError(
            f"{what}: cannot write to {directory.parent} ({reason}); $OTTLA_CACHE may name another place"
        ) from error
    return directory


def _fill(directory: Path, what: str, make: Callable[[Path, Report], None]) -> None:
    scratch = Path(tempfile.mkdtemp(dir=directory.parent))
    try:
        with shown(what) as report:
            make(scratch, report)
        scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _alone(directory: Path, what: str) -> Iterator[None]:
    with directory.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{what}: another process is at it, waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
