"""The broker: its parts put together, started and stopped in order.

    start: lock the data directories, bind the listeners, open the coordination store, take the controller's role and
           load the image, open the logs, serve
    stop:  no new connections, finish the controller's work, close connections, flush and close the logs, close the
           store, unlock

Everything runs on one event loop. What waits for the disk longer than a write to the page cache does (creating and
removing logs, fsync, checkpoints, conversions) goes to a thread, through `run_blocking`.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, TypeVar

from ottla.broker import handlers  # noqa: F401  every handler registers itself
from ottla.broker.cleaner import LogCleaner
from ottla.broker.disks import Disks
from ottla.broker.dispatch import Dispatcher
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.flushing import Flushing
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.moves import Moves
from ottla.broker.process import StartError
from ottla.broker.reconfiguring import configure_topic, load_overrides, reconfigure
from ottla.broker.retention import check_retention
from ottla.config.broker import BrokerConfig
from ottla.config.group import GroupConfig
from ottla.config.topic import TopicConfig
from ottla.controller.configs import BROKER, CLIENT_METRICS
from ottla.controller.controller import Change, Controller
from ottla.controller.image import BrokerInfo, ClusterImage, TopicImage
from ottla.coordination.local import FILE_NAME, LocalStore
from ottla.groups.coordinator import Coordinator as GroupCoordinator
from ottla.net.budget import Budget
from ottla.net.listener import Census, Limits, Listener
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.log import Log
from ottla.storage.logs import Logs
from ottla.transactions.coordinator import Coordinator as TransactionCoordinator

if TYPE_CHECKING:
    from ottla.broker.metrics.figures import Figures
    from ottla.broker.metrics.listener import MetricsListener
    from ottla.broker.telemetry.receiver import ClientTelemetry

log = logging.getLogger(__name__)

CLOSING_SECONDS = 2.0

T = TypeVar("T")


class Broker:
    def __init__(self, config: BrokerConfig) -> None:
        # as configured; the object stays the same, its values may change while the broker runs
        self.config = config
        self.logs = Logs(
            [Path(path) for path in config.log_dirs], recovery_threads=config.num_recovery_threads_per_data_dir
        )
        self.replicas = Replicas()
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self.census = Census()
        self.limits = self._limits()
        self.listeners = self._listeners()
        self.metrics: MetricsListener | None = None
        # from start to stop
        self.loop: asyncio.AbstractEventLoop
        self.controller: Controller
        self._store: LocalStore | None = None
        self._threads = ThreadPoolExecutor(config.background_threads, "blocking")
        self.housekeeping = Housekeeping(self.run_blocking)
        self.cleaner = LogCleaner(self)
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self, self.groups.end_transaction)
        self.disks = Disks(self)
        self.moves = Moves(self)
        self.logs.on_failure = self.disks.directory_failed
        self.flushing = Flushing(config.log_flush_scheduler_interval_ms)
        self.on_client_metrics: list[Callable[[str], None]] = []  # told the name of a subscription that has changed

    def _limits(self) -> Limits:
        config = self.config
        return Limits(
            request_max_bytes=config.socket_request_max_bytes,
            connections=config.max_connections,
            connections_per_ip=config.max_connections_per_ip,
            connections_per_ip_overrides=config.connection_limits,
            idle_seconds=config.connections_max_idle_ms / 1000,
            send_buffer=config.socket_send_buffer_bytes,
            receive_buffer=config.socket_receive_buffer_bytes,
            backlog=config.socket_listen_backlog_size,
        )

    def _listeners(self) -> list[Listener]:
        config, limits = self.config, self.limits
        budget, dispatcher = Budget(config.queued_max_request_bytes), Dispatcher(self)
        return [
            Listener(one.name, one.host, one.port, limits=limits, budget=budget, census=self.census, handle=dispatcher)
            for one in config.endpoints
        ]

    # -- starting and stopping -----------------------------------------------------------------------------------

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        config = self.config
        cluster_id = self.logs.lock(config.cluster_id, config.node_id)
        try:
            for listener in self.listeners:
                listener.bind()
            self._bind_metrics()
            self._store = await LocalStore.open(self.logs.directories[0].path / FILE_NAME)
            self.controller = Controller(self._store, self._info(), config, self._on_change, cluster_id=cluster_id)
            await self.controller.start()
            load_overrides(self)
            self.logs.mark(self.image.cluster_id, config.node_id)
            await self._open_logs()
            await self.flushing.idle()  # of what a crash left, nobody sees more than a power cut would have spared
            self.groups.start()
            self.transactions.start()
            for listener in self.listeners:
                await listener.open()
            if self.metrics is not None:
                await self.metrics.open()
        except BaseException:
            for listener in self.listeners:
                listener.stop_accepting()
            if self.metrics is not None:
                await self.metrics.stop()
            if self._store is not None:
                await self._store.close()
            self.logs.unlock()
            self._threads.shutdown()
            raise
        self._begin_housekeeping()

    def _begin_housekeeping(self) -> None:
        config, every, delay = self.config, self.housekeeping.every, self.config.log_initial_task_delay_ms
        every(config.log_flush_offset_checkpoint_interval_ms, self.logs.write_recovery_points, first_ms=delay)
        every(config.log_flush_start_offset_checkpoint_interval_ms, self.logs.write_log_starts, first_ms=delay)
        every(config.log_retention_check_interval_ms, partial(check_retention, self), blocking=False, first_ms=delay)
        every(config.replica_high_watermark_checkpoint_interval_ms, self.logs.write_high_watermarks)
        every(config.producer_id_expiration_check_interval_ms, self._expire_producers, blocking=False)
        every(config.offsets_retention_check_interval_ms, self.groups.expire_offsets, blocking=False)
        every(
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            self.transactions.abort_timed_out,
            blocking=False,
        )
        every(
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
            self.transactions.forget_unused,
            blocking=False,
        )
        self.cleaner.start()
        self.moves.take_up()

    async def stop(self) -> None:
        for listener in self.listeners:
            listener.stop_accepting()
        if self.metrics is not None:
            await self.metrics.stop()
        await self.moves.stop()
        await self.cleaner.stop()
        await self.housekeeping.stop()
        await self.controller.stop()
        await self.transactions.stop()
        await self.groups.stop()
        await self._close_connections()
        await self.flushing.stop()
        await self.run_blocking(self.logs.close)
        assert self._store is not None
        await self._store.close()
        self._threads.shutdown()

    def _bind_metrics(self) -> None:
        if self.config.metrics_address is not None:
            from ottla.broker.metrics.listener import MetricsListener  # a broker that nobody watches does not need it

            self.metrics = MetricsListener(*self.config.metrics_address, lambda: self.figures.render())
            try:
                self.metrics.bind()
            except OSError as error:
                why = error.strerror or str(error)
                raise StartError(
                    f"cannot listen on {self.config.metrics_listener} (metrics.listener): {why}"
                ) from error

    async def _close_connections(self) -> None:
        for connection in list(self.census.connections):
            connection.close()
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await self.census.empty.wait()
        except TimeoutError:
            for connection in list(self.census.connections):
                connection.transport.abort()

    def _info(self) -> BrokerInfo:
        config = self.config
        endpoints = {}
        for listener in self.listeners:
            advertised = config.advertised.get(listener.name)
            endpoints[listener.name] = (
                (advertised.host, advertised.port) if advertised else (listener.host, listener.port)
            )
        return BrokerInfo(config.node_id, config.broker_rack, endpoints)

    # -- what handlers use ---------------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @cached_property
    def figures(self) -> Figures:
        """What the broker can be asked for in numbers; parts register theirs in metrics/own.py."""
        from ottla.broker.metrics import figures, own

        made = figures.Figures()
        own.register(made, self)
        return made

    @cached_property
    def telemetry(self) -> ClientTelemetry:
        """Clients' own metrics, from the first one on that is asked for or pushed."""
        from ottla.broker.telemetry.receiver import ClientTelemetry

        return ClientTelemetry(self)

    def partition(self, topic: str, index: int) -> Partition | None:
        return self.replicas.find(topic, index)

    def has_usable_replica(self, topic: str, index: int, node: int) -> bool:
        """Whether a node that lives has a replica that can be used; of other nodes only that they live is known."""
        if node != self.config.node_id:
            return node in self.image.brokers
        found = self.partition(topic, index)
        return found is not None and found.offline is None

    def topic_config(self, name: str) -> TopicConfig:
        """What holds for a topic; KeyError when it is not there."""
        return TopicConfig.resolve(self.image.topics[name].configs, self.config)

    def group_config(self, name: str) -> GroupConfig:
        """What holds for a group, whether it exists or not."""
        return GroupConfig.resolve(self.image.group_configs.get(name, {}), self.config)

    def now_ms(self) -> int:
        return int(time() * 1000)

    async def run_blocking(self, function: Callable[..., T], *arguments: object) -> T:
        return await self.loop.run_in_executor(self._threads, function, *arguments)

    def use_threads(self, count: int) -> None:
        """Let `run_blocking` use so many threads from now on; the former ones finish what they have."""
        former, self._threads = self._threads, ThreadPoolExecutor(count, "blocking")
        former.shutdown(wait=False)

    # -- logs ----------------------------------------------------------------------------------------------------

    async def _open_logs(self) -> None:
        topics = list(self.image.topics.values())
        wanted = {}
        for topic in topics:
            config = self.topic_config(topic.name)
            wanted.update({(topic.name, index): (topic.id, config) for index in range(len(topic.partitions))})
        opened = await self.run_blocking(self.logs.open_all, wanted) if wanted else self.logs.open_all({})
        for topic in topics:
            self._serve(topic, [opened[topic.name, index] for index in range(len(topic.partitions))])

    async def _on_change(self, change: Change) -> None:
        for topic in change.created:
            config = TopicConfig.resolve(topic.configs, self.config)
            self._serve(topic, await self.run_blocking(self._create_logs, topic, config))
            log.info("created logs of topic %s with settings {%s}", topic.name, config.shown())
        for topic, first in change.grown:
            config = TopicConfig.resolve(topic.configs, self.config)
            self._serve(topic, await self.run_blocking(self._create_logs, topic, config, first), first)
        for topic in change.altered:
            configure_topic(self, topic, TopicConfig.resolve(topic.configs, self.config))
        for topic, index in change.led:
            led = self.partition(topic.name, index)
            if led is not None:
                led.leader_epoch = topic.partitions[index].leader_epoch
        if any(type == BROKER for type, _ in change.reconfigured):
            await reconfigure(self)
        for type, name in change.reconfigured:
            if type == CLIENT_METRICS:
                for tell in self.on_client_metrics:
                    tell(name)
        for topic in change.deleted:
            for partition in self.replicas.remove(topic.name):
                self.flushing.remove(partition)
            keys = [(topic.name, index) for index in range(len(topic.partitions))]
            await self.moves.forget(keys)
            await self.cleaner.forget(keys)
            self.housekeeping.remove_later(
                [path for path in map(self.logs.delete, keys) if path is not None],
                TopicConfig.resolve(topic.configs, self.config).file_delete_delay_ms,
            )
            await self.run_blocking(self.logs.forget, keys)
        self.transactions.topics_changed(
            [topic.name for topic in change.created], [topic.name for topic in change.deleted]
        )
        self.groups.topics_changed(
            created=[topic.name for topic in change.created],
            deleted=[topic.name for topic in change.deleted],
            grown=[topic.name for topic, _ in change.grown],
        )

    def _create_logs(self, topic: TopicImage, config: TopicConfig, first: int = 0) -> list[Log]:
        """The logs of all partitions from `first` on, or none of them."""
        made: list[Log] = []
        keys = [(topic.name, index) for index in range(first, len(topic.partitions))]
        try:
            for key in keys:
                made.append(self.logs.create(key, topic.id, config))
        except Exception:
            for path in map(self.logs.delete, keys[: len(made)]):
                if path is not None:
                    shutil.rmtree(path, ignore_errors=True)
            raise
        return made

    def _serve(self, topic: TopicImage, logs: list[Log], first: int = 0) -> None:
        """Take up the partitions from `first` on, whose logs are open."""
        for one in logs:
            one.on_failure = self.disks.log_failed
        epochs = [partition.leader_epoch for partition in topic.partitions[first:]]
        for partition in self.replicas.add(topic.name, topic.id, logs, epochs, is_internal=topic.internal):
            partition.offline = self.logs.offline.get((topic.name, partition.index))
            if partition.offline is None:
                self.flushing.add(partition)

    def _expire_producers(self) -> None:
        older_than = self.now_ms() - self.config.producer_id_expiration_ms
        for partition in self.replicas:
            partition.log.producers.expire(older_than)
