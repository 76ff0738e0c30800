"""Kafka's small text files: checkpoints per data directory, leader epochs per partition.

    0                 version
    2                 number of lines that follow
    orders 0 1041     e.g. topic, partition, offset
    orders 1 998

A file is replaced as a whole (written beside, then renamed), so a crash leaves the old or the new one. A file that
cannot be read as such counts as absent: every checkpoint can be found again from the logs, only more slowly.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"

TopicPartition = tuple[str, int]


def read_checkpoint(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except ValueError:  # not text at all
        lines = []
    rows = [line.split() for line in lines[2:]]
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdigit() or len(rows) != int(lines[1]):
        log.warning("ignoring %s: it is not a checkpoint of version 0, or not all of one", path)
        return []
    return rows


def write_checkpoint(path: Path, rows: Iterable[tuple[str, ...]], *, sync: bool = False) -> None:
    lines = [" ".join(row) for row in rows]
    replace_file(path, "\n".join(["0", str(len(lines)), *lines, ""]).encode(), sync=sync)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    try:
        return {(topic, int(partition)): int(offset) for topic, partition, offset in read_checkpoint(path)}
    except ValueError:
        log.warning("ignoring %s: its lines are not of the form TOPIC PARTITION OFFSET", path)
        return {}


def write_offsets(path: Path, offsets: dict[TopicPartition, int]) -> None:
    rows = ((topic, str(partition), str(offset)) for (topic, partition), offset in sorted(offsets.items()))
    write_checkpoint(path, rows, sync=True)


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Put `data` at `path`, wholly or not at all."""
    beside = f"{path}.tmp"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        try:
            written = os.write(fd, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, f"the disk took {written} of {len(data)} bytes", str(path))
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
