"""What lies in a partition's directory, and what it means after a crash. Decisions only; log.py acts on them.

    <20 digits>.log                  a segment
    <20 digits>.index .timeindex .txnindex   its indexes; without a `.log` they are left over
    <20 digits>.snapshot             producers as of that offset
    *.cleaned *.swap *.deleted       see leftovers.py
    *.tmp                            a small file that was not put in its place
    anything else                    not ours: left alone

A segment whose follower begins at or below the flushed offset is surely on disk: it is trusted, by name and size. The
others are checked. The last one never has a follower, so it is checked always (after a proper stop: by its indexes).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from ottla.storage import leftovers
from ottla.storage.scan import NEVER
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX

TEMPORARY_SUFFIX = ".tmp"
DIGITS = 20


@dataclass(slots=True)
class Contents:
    sizes: dict[int, int] = field(default_factory=dict)  # of segments, by base offset
    snapshots: list[int] = field(default_factory=list)  # their offsets, newest first
    leftovers: list[str] = field(default_factory=list)  # paths of files that are of no more use
    has_txn_indexes: bool = False

    def split(self, flushed: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Segments that are surely on disk, and those to check: base offset, and that of the next one."""
        bases = sorted(self.sizes)
        pairs = [*pairwise(bases), *((base, NEVER) for base in bases[-1:])]
        at = next((at for at, (_, following) in enumerate(pairs) if following > flushed or following == NEVER), 0)
        return pairs[:at], pairs[at:]

    def sweep(self) -> None:
        for path in self.leftovers:
            os.unlink(path)


def snapshots_in(directory: Path) -> list[int]:
    """The offsets of snapshots, newest first; nothing else is touched."""
    found = [name.removesuffix(SNAPSHOT_SUFFIX) for name in os.listdir(directory) if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted((int(stem) for stem in found if len(stem) == DIGITS and stem.isdigit()), reverse=True)


def survey(directory: Path) -> Contents:
    """What is there, after putting in order what a crash may have left behind."""
    found = Contents()
    indexes = []
    with os.scandir(directory) as entries:
        for entry in entries:
            stem, suffix = os.path.splitext(entry.name)
            if suffix in leftovers.SUFFIXES:
                break
            if suffix == TEMPORARY_SUFFIX:
                found.leftovers.append(entry.path)
            elif not (len(stem) == DIGITS and stem.isascii() and stem.isdigit()):
                continue
            elif suffix == LOG_SUFFIX:
                found.sizes[int(stem)] = entry.stat().st_size
            elif suffix == SNAPSHOT_SUFFIX:
                found.snapshots.append(int(stem))
            elif suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
                indexes.append((int(stem), entry.path))
                found.has_txn_indexes |= suffix == TXN_INDEX_SUFFIX
        else:
            found.snapshots.sort(reverse=True)
            found.leftovers += [path for base, path in indexes if base not in found.sizes]
            return found
    leftovers.settle(directory)
    return survey(directory)
