"""All the logs of a broker, over its data directories (`log.dirs`).

A new partition goes to the directory with the fewest (A1 S-12). Opening reads the directories' checkpoints and opens
the logs in parallel (`num.recovery.threads.per.data.dir`); closing writes them. Deleting takes a log out of sight at
once.

A log that cannot be opened is `offline` with the reason; so are all logs of a directory that fails. New partitions then
go to the other directories. A partition that is not found while a directory is missing is taken to be there, not made
anew: its records may come back.

A log may move to another directory while it serves (relocation.py): until then `futures` has the copy, and the
checkpoints of its directory have the partition too.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from time import monotonic

from ottla.config.topic import TopicConfig
from ottla.storage.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT, TopicPartition
from ottla.storage.directory import STRAY, DataDirectory
from ottla.storage.errors import DamagedDirectory, DirectoryInUse, ForeignDirectory, StorageError
from ottla.storage.failures import Reach, reach_of
from ottla.storage.file import Handles
from ottla.storage.log import Log
from ottla.storage.relocation import FutureLog, settle_moves

logger = logging.getLogger(__name__)

PROGRESS_SECONDS = 1.0


class Logs:
    def __init__(self, paths: list[Path], *, recovery_threads: int = 1) -> None:
        self.directories = [DataDirectory(path) for path in paths]
        self.recovery_threads = recovery_threads  # per directory; for closing too
        self.handles = Handles()
        self.offline: dict[TopicPartition, str] = {}  # those that cannot be used, and why
        self.on_failure: Callable[[DataDirectory, Exception], None] | None = None  # told in any thread
        self._logs: dict[TopicPartition, tuple[DataDirectory, Log]] = {}
        self.futures: dict[TopicPartition, FutureLog] = {}  # copies of logs in the directories that they move to
        self.moved_away: list[Path] = []  # what is left of logs that have moved; to be removed
        self.preferred: dict[TopicPartition, DataDirectory] = {}  # where logs that are not there yet are to go
        self._counts = Counter(dict.fromkeys(self.directories, 0))  # how many logs each has
        self._writing = threading.Lock()  # a checkpoint is written by one at a time, and never by older offsets

    # -- the directories -----------------------------------------------------------------------------------------

    def lock(self, cluster_id: str | None, broker_id: int) -> str | None:
        """Take all directories, checking that they are ours. Returns the cluster id that they are marked with.

        One that cannot be used is left out, but the first must do: it holds the metadata too.
        """
        found = cluster_id
        try:
            for directory in self.directories:
                try:
                    directory.open()
                    found = directory.claim(found, broker_id) or found
                except (OSError, DamagedDirectory) as error:
                    directory.release()
                    if directory is self.directories[0]:
                        raise
                    self._give_up(directory, error)
        except (OSError, DamagedDirectory, DirectoryInUse, ForeignDirectory):
            self.unlock()
            raise
        return found

    @staticmethod
    def _give_up(directory: DataDirectory, error: Exception) -> None:
        logger.error("%s cannot be used; its partitions are offline: %s", directory.path, error)
        directory.failure = str(error)

    def fail(self, directory: DataDirectory, error: Exception) -> list[TopicPartition]:
        """A directory is lost. Returns whose logs were there."""
        if directory.failure is None:
            self._give_up(directory, error)
        return [key for key, (home, _) in self._logs.items() if home is directory]

    def home_of(self, key: TopicPartition) -> DataDirectory | None:
        found = self._logs.get(key)
        return found[0] if found else None

    def directory_at(self, path: str) -> DataDirectory | None:
        """The data directory of that path, which must be absolute."""
        wanted = os.path.normpath(path)
        return next((one for one in self.directories if os.path.normpath(one.path.absolute()) == wanted), None)

    def in_directory(self, directory: DataDirectory) -> list[tuple[TopicPartition, Log]]:
        return [(key, log) for key, (home, log) in list(self._logs.items()) if home is directory]

    @property
    def usable(self) -> list[DataDirectory]:
        return [directory for directory in self.directories if directory.failure is None]

    def mark(self, cluster_id: str, broker_id: int) -> None:
        for directory in self.usable:
            directory.mark(cluster_id, broker_id)

    def unlock(self, *, clean: bool | None = None) -> None:
        damaged = {directory for key, (directory, _) in self._logs.items() if key in self.offline}
        for directory in self.directories:
            usable = directory.failure is None
            directory.release(clean=clean and directory not in damaged if usable else False)

    # -- logs ----------------------------------------------------------------------------------------------------

    def open_all(self, wanted: dict[TopicPartition, tuple[bytes, TopicConfig]]) -> dict[TopicPartition, Log]:
        """Open the logs of `wanted` (topic id and config), and create those that are missing.

        A partition that nobody wants, or of another topic id, is put out of the way but never deleted: whoever lost the
        metadata still has the records. If none is wanted and there are some, it is the metadata that is missing.
        """
        strangers = [path for directory in self.usable for path in directory.partitions().values()]
        if strangers and not wanted:
            raise ForeignDirectory(
                f"{strangers[0].parent} holds {len(strangers)} partitions, but no topic is known: its coordination.db "
                "is missing or another one's. Put it back, or set another log.dirs"
            )
        began = monotonic()
        self.moved_away = settle_moves(self.usable)
        with ThreadPoolExecutor(self.recovery_threads * len(self.directories), "recovery") as pool:
            opening = {}
            for directory in self.usable:
                recovery, starts = directory.recovery_points(), directory.log_starts()
                cleaned = directory.cleaned()
                for key, path in directory.partitions().items():
                    topic_id, config = wanted.get(key, (None, None))
                    marked = directory.read_topic_id(path)
                    if topic_id is None or config is None or (marked is not None and marked != topic_id):
                        stray = directory.set_aside(path, STRAY)
                        logger.warning("%s belongs to no topic of this cluster; it is now %s", path.name, stray.name)
                        continue
                    log = Log(path, config, self.handles)
                    self._keep(key, directory, log)
                    work = partial(
                        log.open,
                        clean=directory.was_clean,
                        recovery_point=recovery.get(key, 0),
                        start_offset=starts.get(key, 0),
                        was_compacted=key in cleaned,
                    )
                    opening[pool.submit(work)] = key
            self._follow(opening)
        if opening:
            how = "opened" if all(directory.was_clean for directory in self.usable) else "recovered"
            logger.info("%s %d logs in %.2f s", how, len(opening), monotonic() - began)
        missing = [key for key in wanted if key not in self._logs]
        for key in missing:
            if len(self.usable) == len(self.directories):
                self.create(key, *wanted[key])
            else:
                self._leave_offline(key, wanted[key][1])
        return {key: log for key, (_, log) in self._logs.items()}

    def _follow(self, opening: dict[Future[None], TopicPartition]) -> None:
        """Wait for the logs to open, and say how far it is. One that cannot be opened is offline."""
        left: set[Future[None]] = set(opening)
        while left:
            _, left = wait(left, timeout=PROGRESS_SECONDS)
            if left:
                logger.info("recovering %d of %d logs", len(opening) - len(left), len(opening))
        for done, key in opening.items():
            error = done.exception()
            if error is None:
                continue
            directory = self._logs[key][0]
            if not isinstance(error, OSError | StorageError):
                raise error
            if reach_of(error) is Reach.DIRECTORY and directory is not self.directories[0]:
                for other in self.fail(directory, error):
                    self.offline.setdefault(other, f"{directory.path}: {error}")
            self.offline[key] = str(error)
            logger.error("%s-%d is offline: %s", *key, error)

    def _leave_offline(self, key: TopicPartition, config: TopicConfig) -> None:
        """Its log is not here, and one of the directories is not either: it is taken to be there."""
        lost = [directory for directory in self.directories if directory.failure is not None]
        self._keep(key, lost[0], Log(lost[0].partition_path(*key), config, self.handles))
        self.offline[key] = f"in {' or '.join(str(one.path) for one in lost)}, which cannot be used: {lost[0].failure}"

    def create(self, key: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
        if not self.usable:
            raise StorageError(f"cannot create {key[0]}-{key[1]}: no data directory can be used")
        directory = self.preferred.pop(key, None)
        if directory is None or directory.failure is not None:
            directory = min(self.usable, key=lambda one: self._counts[one])
        path = directory.partition_path(*key)
        try:
            if path.exists():  # a creation that was cut short, or somebody else's
                directory.set_aside(path, STRAY)
            log = Log(path, config, self.handles)
            log.create()
            directory.write_topic_id(path, topic_id)
        except OSError as error:
            raise StorageError(f"cannot create {path.name}: {error}") from error
        self._keep(key, directory, log)
        return log

    def truncate(self, key: TopicPartition, offset: int) -> list[Path]:
        """Let a log end at `offset` or before; returns files that went, out of sight (Log.truncate_to).

        It is written down first that the end is not surely on disk: a crash in between must not look like damage.
        """
        log = self._logs[key][1]
        below = [base for base in log.segment_base_offsets() if base <= offset]
        log.recovery_point = min(log.recovery_point, below[-1] if below else 0)
        self.write_recovery_points()
        return log.truncate_to(offset)

    def _keep(self, key: TopicPartition, directory: DataDirectory, log: Log) -> None:
        self._logs[key] = (directory, log)
        self._counts[directory] += 1

    def move(self, future: FutureLog) -> Path:
        """Let a log go on where its copy is (FutureLog.take_over). Returns where it was."""
        was = future.take_over()
        directory, log = self._logs[future.key]
        self._logs[future.key] = (future.directory, log)
        del self.futures[future.key]
        self._counts[directory] -= 1
        self._counts[future.directory] += 1
        return was

    def delete(self, key: TopicPartition) -> Path | None:
        """Take a log out of sight; returns where its files are until somebody removes them."""
        found = self._logs.pop(key, None)
        self.offline.pop(key, None)
        if found is None:  # a deletion that a crash cut short: the log was never opened
            left = [one for one in self.usable if one.partition_path(*key).exists()]
            return left[0].set_aside(left[0].partition_path(*key)) if left else None
        directory, log = found
        self._counts[directory] -= 1
        log.abandon()
        return directory.set_aside(log.directory) if directory.failure is None else None

    # -- checkpoints and closing ---------------------------------------------------------------------------------

    def write_recovery_points(self) -> None:
        """Write down up to where each log is surely on disk."""
        self._write(RECOVERY_POINT, lambda _, log: log.recovery_point, lambda future: future.recovery_point)

    def write_log_starts(self) -> None:
        """Write down where each log begins, if that is inside a segment."""
        self._write(LOG_START, lambda _, log: log.start_offset if log.starts_inside_segment else None)

    def write_high_watermarks(self) -> None:
        self._write(HIGH_WATERMARK, lambda _, log: log.end_offset)

    def _write(
        self,
        name: str,
        offset_of: Callable[[TopicPartition, Log], int | None],
        offset_of_future: Callable[[FutureLog], int | None] | None = None,
    ) -> None:
        """Write a checkpoint of every directory; OSError at the end if one of them did not take it.

        Of a copy it has what holds for the log itself, unless `offset_of_future` says something else.
        """
        failure: OSError | None = None
        with self._writing:
            futures = list(self.futures.values())  # before the logs: one that takes over now is in one of the two
            for directory, logs in self._by_directory():
                found = {
                    future.key: offset_of_future(future) if offset_of_future else offset_of(future.key, future.log)
                    for future in futures
                    if future.directory is directory
                }
                found.update({key: offset_of(key, log) for key, log in logs})
                offsets = {key: offset for key, offset in found.items() if offset is not None}
                try:
                    directory.write_checkpoint(name, offsets)
                except OSError as error:
                    failure = error
                    if self.on_failure is not None and reach_of(error) is Reach.DIRECTORY:
                        self.on_failure(directory, error)
        if failure is not None:
            raise failure

    def read_cleaned(self) -> dict[TopicPartition, int]:
        """Up to where each log has been compacted."""
        found: dict[TopicPartition, int] = {}
        for directory, logs in self._by_directory():
            cleaned = directory.cleaned()
            found.update({key: cleaned[key] for key, _ in logs if key in cleaned})
        return found

    def write_cleaned(self, offsets: dict[TopicPartition, int]) -> None:
        """Write down up to where each log has been compacted. `offsets` may change until it is its turn."""
        self._write(CLEANER, lambda key, _: offsets.get(key))

    def forget(self, keys: Collection[TopicPartition]) -> None:
        """Take deleted logs out of the checkpoints: they would be wrong for new ones of the same name."""
        with self._writing:
            for directory in self.usable:
                directory.forget(keys)

    def _by_directory(self) -> list[tuple[DataDirectory, list[tuple[TopicPartition, Log]]]]:
        logs = list(self._logs.items())
        return [
            (directory, [(key, log) for key, (home, log) in logs if home is directory]) for directory in self.usable
        ]

    def close(self) -> None:
        """Stop properly: everything on disk, checkpoints written, directories marked as left in order.

        A directory where that fails is left as after a crash.
        """
        with ThreadPoolExecutor(self.recovery_threads * len(self.directories), "closing") as pool:
            closing = {
                pool.submit(log.close): key
                for key, (directory, log) in self._logs.items()
                if key not in self.offline and directory.failure is None
            }
            for done, key in closing.items():
                error = done.exception()
                if isinstance(error, OSError | StorageError):
                    logger.error("%s-%d cannot be closed properly: %s", *key, error)
                    self.offline[key] = str(error)
                elif error is not None:
                    raise error
        for write in (self.write_recovery_points, self.write_log_starts, self.write_high_watermarks):
            try:
                write()
            except OSError as error:
                logger.error("checkpoints cannot be written; the next start looks through all logs: %s", error)
                self.unlock(clean=False)
        self.unlock(clean=True)
        self._logs.clear()
