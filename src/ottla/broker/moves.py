"""Moves of partitions between data directories while they serve (KIP-113; on disk: storage/relocation.py).

A move is a task. It has the log copied in a thread, piece by piece, and looks at it again after each; when little is
left it rolls a large active segment, holds back fsyncs, has all but the last bytes put on disk, and lets the log go on
in its new place between two requests. Then the old files go.

What a client was told outlives the broker: before the answer the directory of the copy is made, or, where the move is
called off, taken out of sight.

    another destination is asked for         the copy is thrown away, and another one begun
    the place where the log is, asked for    the copy is thrown away
    the topic is deleted, the log fails      the copy is thrown away
    the new disk is full, or fails           the copy is thrown away, and the log stays where it is
    the broker stops, or is killed           the next start begins again with a new copy, then throws this one away
    it starts while a directory is missing   the copy stays, for the start after that

`num.replica.alter.log.dirs.threads` copy at the same time, at `replica.alter.log.dirs.io.max.bytes.per.second` in all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from ottla.controller.names import why_illegal
from ottla.protocol.errors import ErrorCode
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.directory import DataDirectory
from ottla.storage.errors import StorageError
from ottla.storage.failures import Reach, reach_of
from ottla.storage.fsync import fsync
from ottla.storage.relocation import LONGEST_NAME, FutureLog, SourceFailed, forget_source, future_name

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replication.partition import Partition

log = logging.getLogger(__name__)

PIECE = 8 * 1024 * 1024  # copied before the log is looked at again
NEARLY = 8 * 1024 * 1024  # with so little left the end begins
ALL = 1 << 62
LAST_BYTES = 1024 * 1024  # that are copied between two requests
PATIENCE = 50  # rounds; of a log that grows about as fast as it is copied, all that is left is copied at once then
MOST_WISHES = 10_000  # for partitions that are not there

T = TypeVar("T")


class Move:
    def __init__(self, partition: Partition, future: FutureLog) -> None:
        self.partition = partition
        self.future = future
        self.task: asyncio.Task[None]
        self.done = False  # the log is in its new place
        self.cancelled = asyncio.Event()

    def cancel(self) -> None:
        self.cancelled.set()
        self.future.cancelled = True


class Moves:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._moves: dict[TopicPartition, Move] = {}
        self._threads: ThreadPoolExecutor | None = None  # from the first move on
        self._free_at = 0.0  # when more may be copied, by the limit
        self._stopping = False

    # -- what may be asked for -----------------------------------------------------------------------------------

    def request(self, key: TopicPartition, path: str) -> ErrorCode:
        """Have a partition moved to the data directory `path`. Returns what to tell the client."""
        logs = self._broker.logs
        if len(future_name(key)) > LONGEST_NAME:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        directory = logs.directory_at(path)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if directory.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._broker.partition(*key)
        if partition is None:
            return self._remember(key, directory)
        if partition.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        running = self._moves.get(key)
        if running is not None and not running.done:
            if running.future.directory is directory and not running.cancelled.is_set():
                return ErrorCode.NONE
            self._call_off(running)
        if logs.home_of(key) is directory:
            return ErrorCode.NONE
        if len(logs.usable) < len(logs.directories):
            return ErrorCode.KAFKA_STORAGE_ERROR  # the one that is missing may have a copy too
        return self._start(key, partition, directory)

    def _remember(self, key: TopicPartition, directory: DataDirectory) -> ErrorCode:
        """A partition that is not there yet is to be made in that directory."""
        topic, index = key
        preferred = self._broker.logs.preferred
        if why_illegal(topic) is None and index >= 0 and (key in preferred or len(preferred) < MOST_WISHES):
            preferred[key] = directory
        known = self._broker.image.topics.get(topic)
        if known is not None and 0 <= index < len(known.partitions):
            return ErrorCode.REPLICA_NOT_AVAILABLE
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # -- beginning and ending ------------------------------------------------------------------------------------

    def take_up(self) -> None:
        """Begin again what the last stop cut short, and end what it left to be removed.

        A copy goes when the one that takes its place is there: another kill must not make us forget the move.
        """
        logs = self._broker.logs
        self._broker.housekeeping.remove_later(logs.moved_away, 0)
        for directory in logs.usable:
            for key, path in directory.futures():
                partition = self._broker.partition(*key)
                if partition is not None and directory.read_topic_id(path) in (None, partition.topic_id):
                    if partition.offline is not None or len(logs.usable) < len(logs.directories):
                        log.error("%s-%d: its move to %s has to wait for the next start", *key, directory.path)
                        continue
                    if logs.home_of(key) is not directory and key not in self._moves:
                        log.info("%s-%d: its move to %s begins again", *key, directory.path)
                        self.request(key, str(directory.path.absolute()))
                self._throw_away(directory, path)

    def _start(self, key: TopicPartition, partition: Partition, directory: DataDirectory) -> ErrorCode:
        future = FutureLog(key, partition.log, directory)
        try:
            future.reserve()
        except OSError as error:
            log.error("%s-%d stays where it is: %s: %s", *key, directory.path, error)
            if reach_of(error) is Reach.DIRECTORY:
                self._broker.disks.directory_failed(directory, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        before, move = self._moves.get(key), Move(partition, future)
        self._moves[key], self._broker.logs.futures[key] = move, future
        move.task = asyncio.get_running_loop().create_task(self._run(key, move, before))
        return ErrorCode.NONE

    def _call_off(self, move: Move) -> None:
        """End a move because a client wants something else; a start must not take it up again."""
        move.cancel()
        futures, future = self._broker.logs.futures, move.future
        if futures.get(future.key) is future:
            del futures[future.key]
        self._throw_away(future.directory, future.path)

    def cancel(self, key: TopicPartition) -> None:
        if key in self._moves:
            self._moves[key].cancel()

    def directory_failed(self, directory: DataDirectory) -> None:
        for move in self._moves.values():
            if move.future.directory is directory:
                move.cancel()

    async def forget(self, keys: Iterable[TopicPartition]) -> None:
        """These partitions are about to be deleted: no more files of theirs are made, and no copies are left."""
        moves = [self._moves[key] for key in keys if key in self._moves]
        for move in moves:
            move.cancel()
        if moves:
            await asyncio.wait([move.task for move in moves])

    async def stop(self) -> None:
        """Let go of all copies; the next start begins again."""
        self._stopping = True
        await self.forget(list(self._moves))
        if self._threads is not None:
            self._threads.shutdown()

    # -- one move ------------------------------------------------------------------------------------------------

    async def _run(self, key: TopicPartition, move: Move, before: Move | None) -> None:
        if before is not None:
            await asyncio.wait([before.task])
        cleaner, logs, future = self._broker.cleaner, self._broker.logs, move.future
        await cleaner.pause(key)
        try:
            if not move.cancelled.is_set():
                await self._move(key, move)
        except SourceFailed as error:
            if not move.cancelled.is_set():
                log.error("%s-%d stays where it is: %s", *key, error)
                future.log.failed(error)
        except (OSError, StorageError) as error:
            if not move.cancelled.is_set():
                log.error("%s-%d stays where it is: %s: %s", *key, future.directory.path, error)
                if reach_of(error) is Reach.DIRECTORY:
                    self._broker.disks.directory_failed(future.directory, error)
        except Exception:
            log.exception("%s-%d stays where it is; this is a bug", *key)
        finally:
            if logs.futures.get(key) is future:
                del logs.futures[key]
            if not move.done and not self._stopping:
                self._throw_away(future.directory, future.path)
            cleaner.resume(key)
            if self._moves.get(key) is move:
                del self._moves[key]

    async def _move(self, key: TopicPartition, move: Move) -> None:
        future, flusher = move.future, move.partition.flusher
        assert flusher is not None  # of those that serve all have one
        log.info("%s-%d: moving from %s to %s", *key, future.log.directory.parent, future.directory.path)
        await self._in_thread(future.begin, move.partition.topic_id)
        while future.lacks(future.wanted()) > min(NEARLY, self._limit) and not move.cancelled.is_set():
            await self._copy_piece(move)
        if move.cancelled.is_set():
            return
        _roll_large(future)
        try:
            await flusher.hold()
            was = await self._finish(move)
        finally:
            flusher.go_on()
        if was is not None:
            await self._clean_up(key, move, was)

    async def _finish(self, move: Move) -> Path | None:
        """Catch up, and let the log go on in its new place. Returns its old one; None when the move was cancelled."""
        future, logs = move.future, self._broker.logs
        for round in count():
            wanted = future.wanted()
            await self._in_thread(future.copy, wanted, ALL)
            await self._in_thread(future.put_on_disk, wanted)
            if round == 0:
                for write in (logs.write_recovery_points, logs.write_log_starts, logs.write_high_watermarks):
                    await self._in_thread(write)
                await self._in_thread(self._broker.cleaner.write_checkpoints)
            if move.cancelled.is_set():
                break
            if round >= PATIENCE or future.may_take_over(LAST_BYTES):
                was = logs.move(future)
                move.done = True
                return was
        return None

    async def _clean_up(self, key: TopicPartition, move: Move, was: Path) -> None:
        """The log is in its new place: when that is sure to last, what is left in the old one goes."""
        home = move.future.log.directory
        log.info("%s-%d is in %s now", *key, home.parent)
        try:
            await self._in_thread(fsync, home.parent)
            aside = await self._in_thread(DataDirectory.set_aside, was)
            await self._in_thread(fsync, was.parent)
            await self._in_thread(forget_source, home)
        except OSError as error:
            log.error("%s-%d: what is left in %s stays until the next start: %s", *key, was, error)
        else:
            self._broker.housekeeping.remove_later([aside], move.partition.config.file_delete_delay_ms)

    @property
    def _limit(self) -> int:
        return self._broker.config.replica_alter_log_dirs_io_max_bytes_per_second

    async def _copy_piece(self, move: Move) -> None:
        """Copy as much as the limit allows at once, and wait until more is allowed."""
        copied = await self._in_thread(move.future.copy, move.future.wanted(), min(PIECE, self._limit))
        self._free_at = max(self._free_at, monotonic()) + copied / self._limit
        if (pause := self._free_at - monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await move.cancelled.wait()

    def _throw_away(self, directory: DataDirectory, path: Path) -> None:
        if directory.failure is None and path.exists():
            with suppress(OSError):
                self._broker.housekeeping.remove_later([directory.set_aside(path)], 0)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        if self._threads is None:
            config = self._broker.config
            threads = config.num_replica_alter_log_dirs_threads or len(config.log_dirs)
            self._threads = ThreadPoolExecutor(threads, "moving")
        return await self._broker.loop.run_in_executor(self._threads, work, *arguments)


def _roll_large(future: FutureLog) -> None:
    """See to it that the index of the active segment, which is copied at the last moment, is small."""
    if future.log.active.size > NEARLY:
        try:
            future.log.roll()
        except OSError as error:
            raise SourceFailed(f"{future.log.directory}: {error.strerror}") from error
