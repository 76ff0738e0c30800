"""All the logs of a broker, over its data directories (`log.dirs`).

A new partition goes to the directory with the fewest (A1 S-12). Opening reads the directories' checkpoints and opens
the logs in parallel (`num.recovery.threads.per.data.dir`); closing writes them. Deleting takes a log out of sight at
once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ottla.config.topic import TopicConfig
from ottla.storage.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT, TopicPartition
from ottla.storage.directory import STRAY, DataDirectory
from ottla.storage.errors import DirectoryInUse, ForeignDirectory, StorageError
from ottla.storage.file import Handles
from ottla.storage.log import Log

logger = logging.getLogger(__name__)


class Logs:
    def __init__(self, paths: list[Path], *, recovery_threads: int = 1) -> None:
        self.directories = [DataDirectory(path) for path in paths]
        self._recovery_threads = recovery_threads
        self.handles = Handles()
        self._logs: dict[TopicPartition, tuple[DataDirectory, Log]] = {}
        self._writing = threading.Lock()  # a checkpoint is written by one at a time, and never by older offsets

    # -- the directories -----------------------------------------------------------------------------------------

    def lock(self, cluster_id: str | None, broker_id: int) -> str | None:
        """Take all directories, checking that they are ours. Returns the cluster id that they are marked with."""
        found = cluster_id
        try:
            for directory in self.directories:
                directory.open()
                found = directory.claim(found, broker_id) or found
        except (OSError, DirectoryInUse, ForeignDirectory):
            self.unlock()
            raise
        return found

    def mark(self, cluster_id: str, broker_id: int) -> None:
        for directory in self.directories:
            directory.mark(cluster_id, broker_id)

    def unlock(self, *, clean: bool | None = None) -> None:
        for directory in self.directories:
            directory.release(clean=clean)

    # -- logs ----------------------------------------------------------------------------------------------------

    def open_all(self, wanted: dict[TopicPartition, tuple[bytes, TopicConfig]]) -> dict[TopicPartition, Log]:
        """Open the logs of `wanted` (topic id and config), and create those that are missing.

        A partition that nobody wants, or of another topic id, is put out of the way but never deleted: whoever lost the
        metadata still has the records. If none is wanted and there are some, it is the metadata that is missing.
        """
        strangers = [path for directory in self.directories for path in directory.partitions().values()]
        if strangers and not wanted:
            raise ForeignDirectory(
                f"{strangers[0].parent} holds {len(strangers)} partitions, but no topic is known: its coordination.db "
                "is missing or another one's. Put it back, or set another log.dirs"
            )
        with ThreadPoolExecutor(self._recovery_threads * len(self.directories), "recovery") as pool:
            opening = []
            for directory in self.directories:
                recovery, starts, cleaned = directory.recovery_points(), directory.log_starts(), directory.cleaned()
                for key, path in directory.partitions().items():
                    topic_id, config = wanted.get(key, (None, None))
                    marked = directory.read_topic_id(path)
                    if topic_id is None or config is None or (marked is not None and marked != topic_id):
                        stray = directory.set_aside(path, STRAY)
                        logger.warning("%s belongs to no topic of this cluster; it is now %s", path.name, stray.name)
                        continue
                    log = Log(path, config, self.handles)
                    self._logs[key] = (directory, log)
                    opening.append(
                        pool.submit(
                            log.open,
                            clean=directory.was_clean,
                            recovery_point=recovery.get(key, 0),
                            start_offset=starts.get(key, 0),
                            was_compacted=key in cleaned,
                        )
                    )
            for done in opening:
                done.result()
        for key, (topic_id, config) in wanted.items():
            if key not in self._logs:
                self.create(key, topic_id, config)
        return {key: log for key, (_, log) in self._logs.items()}

    def create(self, key: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
        counts = dict.fromkeys(self.directories, 0)
        for directory, _ in self._logs.values():
            counts[directory] += 1
        directory = min(counts, key=lambda one: counts[one])
        path = directory.partition_path(*key)
        try:
            if path.exists():  # a creation that was cut short, or somebody else's
                directory.set_aside(path, STRAY)
            log = Log(path, config, self.handles)
            log.create()
            directory.write_topic_id(path, topic_id)
        except OSError as error:
            raise StorageError(f"cannot create {path.name}: {error}") from error
        self._logs[key] = (directory, log)
        return log

    def delete(self, key: TopicPartition) -> Path | None:
        """Take a log out of sight; returns where its files are until somebody removes them."""
        found = self._logs.pop(key, None)
        if found is None:  # a deletion that a crash cut short: the log was never opened
            left = [one for one in self.directories if one.partition_path(*key).exists()]
            return left[0].set_aside(left[0].partition_path(*key)) if left else None
        directory, log = found
        log.abandon()
        return directory.set_aside(log.directory)

    # -- checkpoints and closing ---------------------------------------------------------------------------------

    def write_recovery_points(self) -> None:
        """Write down up to where each log is surely on disk."""
        with self._writing:
            for directory, logs in self._by_directory():
                directory.write_checkpoint(RECOVERY_POINT, {key: log.recovery_point for key, log in logs})

    def write_log_starts(self) -> None:
        """Write down where each log begins, if that is inside a segment."""
        with self._writing:
            for directory, logs in self._by_directory():
                inside = {key: log.start_offset for key, log in logs if log.start_offset > log.segments[0].base_offset}
                directory.write_checkpoint(LOG_START, inside)

    def write_high_watermarks(self) -> None:
        with self._writing:
            for directory, logs in self._by_directory():
                directory.write_checkpoint(HIGH_WATERMARK, {key: log.end_offset for key, log in logs})

    def read_cleaned(self) -> dict[TopicPartition, int]:
        """Up to where each log has been compacted."""
        found: dict[TopicPartition, int] = {}
        for directory, logs in self._by_directory():
            cleaned = directory.cleaned()
            found.update({key: cleaned[key] for key, _ in logs if key in cleaned})
        return found

    def write_cleaned(self, offsets: dict[TopicPartition, int]) -> None:
        """Write down up to where each log has been compacted. `offsets` may change until it is its turn."""
        with self._writing:
            now = dict(offsets)
            for directory, logs in self._by_directory():
                directory.write_checkpoint(CLEANER, {key: now[key] for key, _ in logs if key in now})

    def forget(self, keys: Collection[TopicPartition]) -> None:
        """Take deleted logs out of the checkpoints: they would be wrong for new ones of the same name."""
        with self._writing:
            for directory in self.directories:
                directory.forget(keys)

    def _by_directory(self) -> list[tuple[DataDirectory, list[tuple[TopicPartition, Log]]]]:
        logs = list(self._logs.items())
        return [
            (directory, [(key, log) for key, (home, log) in logs if home is directory])
            for directory in self.directories
        ]

    def close(self) -> None:
        """Stop properly: everything on disk, checkpoints written, directories marked as left in order."""
        with ThreadPoolExecutor(self._recovery_threads * len(self.directories), "closing") as pool:
            for done in [pool.submit(log.close) for _, log in self._logs.values()]:
                done.result()
        self.write_recovery_points()
        self.write_log_starts()
        self.write_high_watermarks()
        self._logs.clear()
        self.unlock(clean=True)
