"""What a crash leaves behind in a partition's directory, and what becomes of it (Kafka's rules, KAFKA-6264).

    <base>.log.cleaned   a compacted segment that was being written          removed
    <base>.log.swap      one that was complete and about to take its place   put in its place
    <base>.log.deleted   a segment that was taken out of the log             removed

The same for `.index`, `.timeindex`, `.txnindex`. A swap goes: the new files from `.cleaned` to `.swap`, the old ones to
`.deleted`, the new ones to their names. So a `.swap` whose base offset is not below that of every `.cleaned` may not be
all there: it is removed too, since the old segments are still in place. Where a `.log.swap` is good, segments from its
base to its end are old ones and removed. An index that got lost on the way is made again from its log.

Every step leaves a directory that the same rules settle to the same end: a crash in here does no harm either.
"""

from __future__ import annotations

import logging
import os
import re
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

logger = logging.getLogger(__name__)

CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX = ".cleaned", ".swap", ".deleted"
SUFFIXES = (CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX)

_FILE = re.compile(r"(\d+)\.(log|index|timeindex|txnindex|snapshot)(\.cleaned|\.swap|\.deleted)?", re.ASCII)
_BATCH = struct.Struct(">qi11xi")  # base offset, length, last offset delta
_OVERHEAD = 12

Step = tuple[str, str | None]  # a file's name, and the one that it gets; None: it is removed


def settle(directory: Path) -> None:
    """Bring a directory in order, before its log is opened."""

    def end_of(name: str) -> int:
        return _next_offset(directory / name)

    for name, new_name in steps(os.listdir(directory), end_of):
        if new_name is None:
            logger.info("%s: removing %s, left behind when the broker stopped", directory.name, name)
            (directory / name).unlink(missing_ok=True)
        else:
            logger.info("%s: %s takes its place", directory.name, name)
            (directory / name).rename(directory / new_name)


def steps(names: Iterable[str], end_of: Callable[[str], int]) -> list[Step]:
    """What to do, in this order. `end_of` gives the offset after the last one in a `.log.swap`."""
    files = [(int(match[1]), match[2], match[3] or "", match[0]) for match in map(_FILE.fullmatch, names) if match]
    files.sort(key=lambda file: (file[0], file[1] != "log"))
    first_cleaned = min((base for base, _, suffix, _ in files if suffix == CLEANED_SUFFIX), default=None)
    remove: list[Step] = []
    swaps = []
    for base, kind, suffix, name in files:
        if suffix == SWAP_SUFFIX and (first_cleaned is None or base < first_cleaned):
            swaps.append((base, kind, name))
        elif suffix:
            remove.append((name, None))
    covered = [(base, max(end_of(name), base + 1)) for base, kind, name in swaps if kind == "log"]
    for base, kind, suffix, name in files:
        old = not suffix and kind != "snapshot"
        if old and any(first <= base < end for first, end in covered):
            remove.append((name, None))
    return remove + [(name, name.removesuffix(SWAP_SUFFIX)) for _, _, name in swaps]


def _next_offset(path: Path) -> int:
    """The offset after the last batch of a file; -1 when there is none."""
    end = -1
    with path.open("rb", buffering=0) as file:
        position, size = 0, os.fstat(file.fileno()).st_size
        while position + _BATCH.size <= size:
            base, length, delta = _BATCH.unpack(os.pread(file.fileno(), _BATCH.size, position))
            if length < 0:
                break
            end = base + delta + 1
            position += length + _OVERHEAD
    return end
