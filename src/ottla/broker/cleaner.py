"""The log cleaner: finds compacted topics' logs that are due, has them compacted, puts the result in place.

Every `log.cleaner.backoff.ms`, and whenever a job ends, all logs are judged (storage/compaction/decisions.py) and the
filthiest is given to a worker, as long as fewer than `log.cleaner.threads` are at work. How far each log is clean is
kept in `cleaner-offset-checkpoint` of its data directory.

A log that cannot be compacted (a damaged batch, too little memory) is put down as uncleanable, with the reason, until
the cleaner has other settings or the broker is restarted; the cleaner goes on with the others (A3 LG5). When the disk
refuses, it is tried again after a pause. A job of a topic that is deleted, or of a broker that stops, is aborted; its
files go.

Most brokers have no compacted topic when they start, so what only those need is imported when there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from time import monotonic
from typing import TYPE_CHECKING

from ottla.replication.partition import Partition
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.errors import CorruptLog, StorageError
from ottla.storage.fsync import fsync

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.compaction_workers import JobFailed, Worker, Workers
    from ottla.storage.compaction.decisions import Dirt
    from ottla.storage.compaction.job import Group, Totals

log = logging.getLogger(__name__)

AFTER_ROLL_SECONDS = 1.0  # until a segment that was rolled is on disk, and can be compacted
MEBIBYTE = 1024 * 1024


class LogCleaner:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._workers: Workers | None = None  # from the first job on
        self._checkpoints: dict[TopicPartition, int] = {}
        self._jobs: dict[TopicPartition, asyncio.Task[None]] = {}
        self._at_work: dict[TopicPartition, Worker] = {}
        self._resting: dict[TopicPartition, float] = {}  # those that failed, and until when they are left alone
        self._paused: set[TopicPartition] = set()  # those whose files are being moved
        self._wake = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        # for the metrics
        self.uncleanable: dict[TopicPartition, str] = {}
        self.dirtiest_ratio = 0.0
        self.cleaned = 0  # jobs done
        self.last_totals: Totals | None = None

    def start(self) -> None:
        self._checkpoints = self._broker.logs.read_cleaned()
        if self._broker.config.log_cleaner_enable:
            self._watch = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Abort what is under way."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        jobs = list(self._jobs.values())
        if self._workers is not None:
            await self._workers.stop()
        if jobs:
            await asyncio.wait(jobs)

    def look_again(self, *, own_settings: bool) -> None:
        """Settings have changed: what is due may be other logs, or more of them at once, or those that could not be."""
        if own_settings:
            self.uncleanable.clear()
        self._wake.set()

    async def forget(self, keys: list[TopicPartition]) -> None:
        """These partitions are about to be deleted: leave their files alone from now on."""
        jobs = [self._jobs[key] for key in keys if key in self._jobs]
        for key in keys:
            self.uncleanable.pop(key, None)
            self._checkpoints.pop(key, None)
            if key in self._at_work:
                self._at_work[key].kill()
        if jobs:
            await asyncio.wait(jobs)

    async def pause(self, key: TopicPartition) -> None:
        """Leave the files of this partition alone, until `resume`; work on them that is under way is thrown away."""
        self._paused.add(key)
        if key in self._at_work:
            self._at_work[key].kill()
        if key in self._jobs:
            await asyncio.wait([self._jobs[key]])

    def resume(self, key: TopicPartition) -> None:
        self._paused.discard(key)
        self._wake.set()

    def write_checkpoints(self) -> None:
        """Write down how far logs are clean. Runs in a thread."""
        self._broker.logs.write_cleaned(self._checkpoints)

    @property
    def uncleanable_bytes(self) -> int:
        """Bytes of logs that should be compacted and cannot."""
        found = (self._broker.partition(*key) for key in self.uncleanable)
        return sum(partition.log.size for partition in found if partition is not None)

    # -- what to do ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            pause = self._broker.config.log_cleaner_backoff_ms / 1000
            try:
                if self._roll_aged():
                    pause = min(pause, AFTER_ROLL_SECONDS)
                await self._start_jobs()
            except Exception:
                log.exception("the log cleaner failed; it goes on")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    def _compacted(self) -> list[tuple[TopicPartition, Partition]]:
        return [
            ((partition.topic, partition.index), partition)
            for partition in self._broker.replicas
            if partition.offline is None and partition.log.config.compacted
        ]

    def _roll_aged(self) -> bool:
        compacted = self._compacted()
        if not compacted:
            return False
        from ottla.storage.compaction.decisions import should_roll

        now_ms, rolled = self._broker.now_ms(), False
        for _, partition in compacted:
            active = partition.log.active
            if should_roll(active.first_timestamp, active.size, partition.log.config, now_ms):
                try:
                    partition.log.roll()
                except (OSError, StorageError) as error:
                    self._broker.disks.log_failed(partition.log, error)
                else:
                    rolled = True
        return rolled

    async def _start_jobs(self) -> None:
        if not self._compacted():
            return
        from ottla.storage.compaction.decisions import filthiest

        while len(self._jobs) < self._broker.config.log_cleaner_threads:
            found = filthiest(self._due())
            if found is None:
                return
            partition, dirt = found
            key = partition.topic, partition.index
            self._jobs[key] = asyncio.get_running_loop().create_task(self._clean(key, partition, dirt))
            await asyncio.sleep(0)

    def _due(self) -> list[tuple[Partition, Dirt]]:
        from ottla.storage.compaction.swap import dirt_of

        now_ms = self._broker.now_ms()
        due, self.dirtiest_ratio = [], 0.0
        self._resting = {key: until for key, until in self._resting.items() if until > monotonic()}
        for key, partition in self._compacted():
            if key in self._jobs or key in self.uncleanable or key in self._resting or key in self._paused:
                continue
            try:
                dirt = dirt_of(
                    partition.log,
                    checkpoint=self._checkpoints.get(key),
                    stable_offset=partition.last_stable_offset,
                    now_ms=now_ms,
                )
            except (OSError, CorruptLog) as error:
                self._broker.disks.log_failed(partition.log, error)
                continue
            if dirt.lost_checkpoint:
                log.warning("%s-%d: all of it counts as dirty: %s", *key, dirt.lost_checkpoint)
                self._checkpoints.pop(key)
            self.dirtiest_ratio = max(self.dirtiest_ratio, dirt.ratio)
            if dirt.is_due(partition.log.config):
                due.append((partition, dirt))
        return due

    # -- doing it ------------------------------------------------------------------------------------------------

    async def _clean(self, key: TopicPartition, partition: Partition, dirt: Dirt) -> None:
        from ottla.broker.compaction_workers import JobFailed, Workers
        from ottla.storage.compaction.swap import remove_cleaned

        worker = None
        workers = self._workers = self._workers or Workers()
        try:
            worker = self._at_work[key] = await workers.take()
            if self._broker.partition(*key) is not partition:
                raise JobFailed("aborted", "the topic was deleted")
            if key in self._paused:
                raise JobFailed("aborted", "the log is being moved")
            if key not in self._checkpoints:
                # Recovery takes gaps for damage unless it knows that a log was compacted.
                self._checkpoints[key] = dirt.first_dirty
                await self._broker.run_blocking(self._broker.logs.write_cleaned, self._checkpoints)
            totals = await self._work(worker, key, partition, dirt)
            self._done(key, partition, dirt, totals)
            await self._broker.run_blocking(self._settle, partition)
        except JobFailed as failure:
            self._failed(key, partition, failure)
            if partition.offline is None:
                await self._broker.run_blocking(remove_cleaned, partition.log.directory)
        except OSError as error:  # of the checkpoint
            self._broker.disks.log_failed(partition.log, error)
            self._rest(key)
        except Exception as error:
            log.exception("%s-%d cannot be compacted until the broker is restarted", *key)
            self.uncleanable[key] = str(error)
            if worker is not None:
                worker.kill()
        finally:
            self._at_work.pop(key, None)
            if worker is not None:
                workers.give_back(worker)
            del self._jobs[key]
            self._wake.set()

    async def _work(self, worker: Worker, key: TopicPartition, partition: Partition, dirt: Dirt) -> Totals:
        from ottla.broker.compaction_workers import JobFailed
        from ottla.storage.compaction.swap import SegmentsGone, job_for, swap_in

        config = self._broker.config
        threads = config.log_cleaner_threads
        job = job_for(
            partition.log,
            dirt,
            now_ms=self._broker.now_ms(),
            memory=config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            buffer=config.log_cleaner_io_buffer_size // threads // 2,
            bytes_per_second=config.log_cleaner_io_max_bytes_per_second / threads,
        )
        gone: list[str] = []

        def swap(group: Group) -> None:
            try:
                if self._broker.partition(*key) is not partition or not partition.log.config.compacted:
                    raise SegmentsGone(f"{partition.log.directory.name} is not compacted any more")
                aside = swap_in(partition.log, group)
            except (SegmentsGone, OSError, CorruptLog) as error:
                gone.append(str(error))
                worker.kill()
                if not isinstance(error, SegmentsGone):
                    self._broker.disks.log_failed(partition.log, error)
                return
            self._broker.housekeeping.remove_later(aside, partition.log.config.file_delete_delay_ms)

        log.debug("%s-%d: compacting offsets %d to %d", *key, dirt.first_dirty, dirt.end)
        totals = await worker.clean(job, swap)
        if gone:
            raise JobFailed("gone", gone[0])
        return totals

    def _done(self, key: TopicPartition, partition: Partition, dirt: Dirt, totals: Totals) -> None:
        self.cleaned += 1
        self.last_totals = totals
        if self._broker.partition(*key) is partition:
            self._checkpoints[key] = totals.end
        log.info(
            "%s-%d: compacted offsets %d to %d: %.1f to %.1f MB, %d to %d records, in %.1f s",
            *key,
            dirt.first_dirty,
            totals.end - 1,
            totals.bytes_read / MEBIBYTE,
            totals.bytes_written / MEBIBYTE,
            totals.records_read,
            totals.records_kept,
            totals.seconds,
        )
        if totals.without_key:
            log.warning("%s-%d: dropped %d records without a key", *key, totals.without_key)
        if not totals.fits:
            log.error(
                "%s-%d: the cleaner's memory takes %d keys, less than one segment has, so that segment is compacted "
                "in parts; set a larger log.cleaner.dedupe.buffer.size, or fewer log.cleaner.threads",
                *key,
                totals.map_keys,
            )

    def _settle(self, partition: Partition) -> None:
        """Put the swap on disk, and then how far the log is clean. Runs in a thread."""
        try:
            fsync(partition.log.directory)
        except FileNotFoundError:
            return  # the topic was deleted
        self._broker.logs.write_cleaned(self._checkpoints)

    def _failed(self, key: TopicPartition, partition: Partition, failure: JobFailed) -> None:
        if failure.kind in ("aborted", "gone"):
            log.debug("%s-%d: compaction aborted: %s", *key, failure)
        elif failure.kind in ("disk", "died"):
            log.error("%s-%d: cannot compact, to be tried again: %s", *key, failure)
            if failure.errno is not None:
                self._broker.disks.log_failed(partition.log, OSError(failure.errno, str(failure)))
        else:
            log.error(
                "%s-%d cannot be compacted until the cleaner's settings change or the broker is restarted: %s",
                *key,
                failure,
            )
            self.uncleanable[key] = str(failure)
        self._rest(key)

    def _rest(self, key: TopicPartition) -> None:
        self._resting[key] = monotonic() + self._broker.config.log_cleaner_backoff_ms / 1000
