"""What becomes of partitions when their disk fails (which failure means what: storage/failures.py).

A partition that is offline answers KAFKA_STORAGE_ERROR, and Metadata shows it without a leader, until the broker is
started again. A directory that fails takes its partitions offline; the broker goes on with the others, and stops when
none is left. The first of `log.dirs` holds the metadata too: when it fails, topics can no longer be made or changed,
and a broker does not start without it. A full disk takes nothing offline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.storage.directory import DataDirectory
from ottla.storage.failures import Reach, reach_of
from ottla.storage.log import Log

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

QUIET_SECONDS = 10.0  # between two lines that say the same of a directory


class Disks:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._last_word: dict[str, float] = {}
        self.on_last_failure: Callable[[], None] = lambda: None

    def log_failed(self, failed: Log, error: Exception) -> None:
        """A log could not be written or read. Called on the loop."""
        name = failed.directory.name
        topic, _, index = name.rpartition("-")
        partition = self._broker.partition(topic, int(index))
        reach = reach_of(error)
        if partition is None or partition.log is not failed or partition.offline is not None:
            return  # deleted, or said already
        directory = self._broker.logs.home_of((topic, int(index)))
        if reach is Reach.DIRECTORY and directory is not None:
            self._fail(directory, error)
        elif reach is Reach.PARTITION:
            self._take_offline([(topic, int(index))], str(error))
        else:
            self._complain(name, error)

    def directory_failed(self, directory: DataDirectory, error: Exception) -> None:
        """A directory could not be written. Called in any thread."""
        self._broker.loop.call_soon_threadsafe(self._fail, directory, error)

    def _fail(self, directory: DataDirectory, error: Exception) -> None:
        if directory.failure is not None:
            return
        self._take_offline(self._broker.logs.fail(directory, error), f"{directory.path}: {error}")
        self._broker.moves.directory_failed(directory)
        if self.all_failed:
            log.error("no data directory is left; the broker stops")
            self.on_last_failure()

    def _take_offline(self, keys: list[tuple[str, int]], reason: str) -> None:
        for key in keys:
            partition = self._broker.partition(*key)
            if partition is not None and partition.offline is None:
                log.error("%s-%d is offline: %s", *key, reason)
                self._broker.logs.offline[key] = reason
                partition.take_offline(reason)
                self._broker.moves.cancel(key)

    def _complain(self, name: str, error: Exception) -> None:
        now = self._broker.loop.time()
        if now - self._last_word.get(name, -QUIET_SECONDS) >= QUIET_SECONDS:
            self._last_word[name] = now
            log.error("%s: %s", name, error)

    @property
    def all_failed(self) -> bool:
        return not self._broker.logs.usable

    def offline_partitions(self, topic: str) -> set[int]:
        """The partitions of a topic that cannot be used here."""
        offline = self._broker.logs.offline
        return {index for name, index in offline if name == topic} if offline else set()
