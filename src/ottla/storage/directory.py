"""A data directory (`log.dirs`): who owns it, which partitions lie in it, how it was left.

.lock                              held while a broker runs
meta.properties                    version, cluster.id, broker.id
.kafka_cleanshutdown               there when the last broker stopped properly
recovery-point-offset-checkpoint   and the other checkpoints (checkpoints.py)
<topic>-<partition>/               one log each (log.py)
<topic>-<partition>.<hex>-delete/  a log on its way out
<topic>-<partition>.<hex>-future/  the copy of one that comes from another directory (relocation.py)
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection
from pathlib import Path

from ottla.storage.checkpoints import (
    CLEANER,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    TopicPartition,
    read_offsets,
    replace_file,
    write_offsets,
)
from ottla.storage.errors import DamagedDirectory, DirectoryInUse, ForeignDirectory

log = logging.getLogger(__name__)

META = "meta.properties"
KRAFT = "1"  # version of a KRaft node's meta.properties; ours is 0
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"
DELETED = "-delete"
STRAY = "-stray"
FUTURE = "-future"
MOVED_FROM = "moved-from"  # in a partition's directory: where it was before, if that is not removed yet

_PARTITION = re.compile(r"(.+)-(\d+)")
_FUTURE = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}" + FUTURE)


def read_meta(directory: Path) -> dict[str, str]:
    """What a directory says of its owner; empty when it has none. Raises DamagedDirectory when it cannot tell."""
    try:
        lines = (directory / META).read_text().splitlines()
    except FileNotFoundError:
        return {}
    except ValueError:  # not text
        lines = []
    found = dict(line.strip().split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    if not found.keys() & {"broker.id", "node.id", "cluster.id"}:
        raise DamagedDirectory(
            f"{directory / META} does not say whose directory it is; put it back, or remove it if that is sure"
        )
    return found


class DataDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self.was_clean = False
        self.failure: str | None = None  # why it cannot be used (any more)
        self._written: dict[str, dict[TopicPartition, int]] = {}

    def open(self) -> None:
        """Take the directory for ourselves, and see how it was left."""
        if read_meta(self.path).get("version") == KRAFT:
            raise ForeignDirectory(f"{self.path} belongs to an Apache Kafka; `ottla adopt {self.path}` takes it over")
        self.path.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise DirectoryInUse(f"{self.path} is in use by another broker; stop it, or set another log.dirs") from None
        self._lock = fd
        marker = self.path / CLEAN_SHUTDOWN
        self.was_clean = marker.exists()
        marker.unlink(missing_ok=True)  # from here on only a proper stop makes it true again
        for leftover in self.path.glob("*" + DELETED):
            shutil.rmtree(leftover, ignore_errors=True)

    def claim(self, cluster_id: str | None, broker_id: int) -> str | None:
        """Check whose directory this is. Returns the cluster id that it was marked with, None when it is new."""
        found = read_meta(self.path)
        owner, cluster = found.get("broker.id", found.get("node.id")), found.get("cluster.id")
        if owner is not None and owner != str(broker_id):
            raise ForeignDirectory(f"{self.path} belongs to broker {owner}, this is broker {broker_id}")
        if cluster is not None and cluster_id is not None and cluster != cluster_id:
            raise ForeignDirectory(f"{self.path} belongs to cluster {cluster}, this is cluster {cluster_id}")
        return cluster

    def mark(self, cluster_id: str, broker_id: int) -> None:
        """Write down whose directory this is."""
        if not (self.path / META).exists():
            text = f"#\nversion=0\nbroker.id={broker_id}\ncluster.id={cluster_id}\n"
            replace_file(self.path / META, text.encode(), sync=True)

    def release(self, *, clean: bool | None = None) -> None:
        """Let others have it; `clean` is how we leave it, None: as we found it."""
        if self._lock is not None:
            if self.was_clean if clean is None else clean:
                try:
                    replace_file(self.path / CLEAN_SHUTDOWN, b'{"version":0}', sync=True)
                except OSError as error:
                    log.error("%s: no mark of a clean shutdown: %s", self.path, error)
            os.close(self._lock)
            self._lock = None

    # -- partitions ----------------------------------------------------------------------------------------------

    def partitions(self) -> dict[TopicPartition, Path]:
        found = {}
        for entry in os.scandir(self.path):
            match = _PARTITION.fullmatch(entry.name)
            if match and entry.is_dir():
                found[match[1], int(match[2])] = Path(entry.path)
        return found

    def futures(self) -> list[tuple[TopicPartition, Path]]:
        """Copies of logs that did not come to take over."""
        found = [(_FUTURE.fullmatch(path.name), path) for path in sorted(self.path.glob("*" + FUTURE))]
        return [((match[1], int(match[2])), path) for match, path in found if match and path.is_dir()]

    def partition_path(self, topic: str, partition: int) -> Path:
        return self.path / f"{topic}-{partition}"

    @staticmethod
    def write_topic_id(partition: Path, topic_id: bytes) -> None:
        text = urlsafe_b64encode(topic_id).decode().rstrip("=")
        replace_file(partition / PARTITION_METADATA, f"version: 0\ntopic_id: {text}".encode(), sync=False)

    @staticmethod
    def read_topic_id(partition: Path) -> bytes | None:
        try:
            text = (partition / PARTITION_METADATA).read_text()
        except FileNotFoundError:
            return None
        match = re.search(r"topic_id: *([\w-]{22})", text)
        return urlsafe_b64decode(match[1] + "==") if match else None

    @staticmethod
    def set_aside(partition: Path, why: str = DELETED) -> Path:
        """Take a partition's directory out of sight at once; removing its files, if it is to go, may take longer."""
        aside = partition.with_name(f"{partition.name[:180]}.{uuid.uuid4().hex}{why}")
        partition.rename(aside)
        return aside

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def recovery_points(self) -> dict[TopicPartition, int]:
        return read_offsets(self.path / RECOVERY_POINT)

    def cleaned(self) -> dict[TopicPartition, int]:
        return read_offsets(self.path / CLEANER)

    def log_starts(self) -> dict[TopicPartition, int]:
        return read_offsets(self.path / LOG_START)

    def write_checkpoint(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Write one of the checkpoints, if it has changed."""
        if self._written.get(name) != offsets:
            write_offsets(self.path / name, offsets)
            self._written[name] = offsets

    def forget(self, keys: Collection[TopicPartition]) -> None:
        """Take partitions out of all checkpoints."""
        for name in (RECOVERY_POINT, LOG_START, HIGH_WATERMARK, CLEANER):
            known = read_offsets(self.path / name)
            if not known.keys().isdisjoint(keys):
                self.write_checkpoint(name, {key: offset for key, offset in known.items() if key not in keys})
