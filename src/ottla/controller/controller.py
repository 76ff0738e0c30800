"""The controller's driver: takes decisions to the store, to the brokers' logs and into the image.

One node is broker and controller in one; it takes the role at start by writing /controller and raising the epoch.

- Requests that change topics are taken one at a time.
- A new topic: its nodes are written in one transaction, then `on_change` opens its logs, then the image shows it. So
  nobody is told of a topic whose logs do not answer, and after a crash it is there wholly or not at all. If the logs
  cannot be opened, the topic is deleted again.
- More partitions: the same, topic by topic; if their logs cannot be opened, their nodes are removed again.
- A deleted topic: a mark under /admin/delete_topics, gone from the image, `on_change` removes its logs, then mark and
  nodes go in one transaction. A mark found at start is a deletion that a crash cut short: it is finished there, before
  the broker serves. `on_change` must therefore bear being asked to delete logs that are partly gone or not open.
- Leaders, replicas, levels of features: stored, then in the image; `on_change` tells partitions of new leader epochs.
- Other settings, of a topic or of anything else that has some: stored, then in the image, then `on_change` sees to it
  that they hold.
- At start the image is loaded and nothing is reported as created: the broker opens its logs from the image.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.topic import topic_warnings
from ottla.controller import znodes
from ottla.controller.configs import BROKER, GROUP, TOPIC, ConfigChange, ConfigResult, plan_alteration
from ottla.controller.elections import ElectionKind, ElectionResult, Usable, plan_election
from ottla.controller.features import SUPPORTED, FeaturesResult, FeatureUpdate, plan_update
from ottla.controller.growth import NewPartitions, plan_growth
from ottla.controller.image import BrokerInfo, ClusterImage, PartitionImage, TopicImage
from ottla.controller.names import id_text, is_internal, new_id
from ottla.controller.producer_ids import BLOCK_SIZE, ProducerIds
from ottla.controller.reassignment import Reassignment, ReassignmentResult, plan_reassignment
from ottla.controller.topics import DeletionResult, NewTopic, TopicResult, plan_creation, plan_deletion
from ottla.controller.turns import Turns
from ottla.coordination.store import BadVersion, Create, Node, NodeExists, NoNode, Operation, Set, Store, StoreError
from ottla.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

MAX_ID = 2**63 - 1


class ClusterIdMismatch(Exception):
    def __init__(self, stored: str, wanted: str) -> None:
        super().__init__(f"the data belongs to cluster {stored}, not to {wanted}")
        self.stored = stored
        self.wanted = wanted


class Change(NamedTuple):
    """What a broker must do."""

    created: Sequence[TopicImage] = ()
    deleted: Sequence[TopicImage] = ()
    altered: Sequence[TopicImage] = ()  # have other settings now
    grown: Sequence[tuple[TopicImage, int]] = ()  # have more partitions now, and how many they had
    led: Sequence[tuple[TopicImage, int]] = ()  # topics, and their partitions that have another leader epoch now
    reconfigured: Sequence[tuple[int, str]] = ()  # other resources that have, by type and name


class Controller:
    """`cluster_id` is the id that the data directory claims, if it claims one."""

    def __init__(
        self,
        store: Store,
        broker: BrokerInfo,
        config: BrokerConfig,
        on_change: Callable[[Change], Awaitable[None]],
        *,
        cluster_id: str | None = None,
        pick_start: Callable[[int], int] = lambda count: int.from_bytes(os.urandom(4), "big") % count,
    ) -> None:
        self.image = ClusterImage(controller_id=broker.id)
        self.epoch = 0
        self.producer_ids = ProducerIds(self.allocate_producer_ids)
        self._store = store
        self._broker = broker
        self._config = config
        self._on_change = on_change
        self._wanted_cluster_id = cluster_id
        self._pick_start = pick_start
        self._lock = asyncio.Lock()
        self._being_deleted: set[str] = set()
        self._being_created: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Take the role, load the image, finish deletions that were cut short. Raises ClusterIdMismatch, StoreError."""
        tree = await self._store.subtree("/")
        await self._store.multi(self._take_role(tree))
        image = self.image
        for path, node in tree.items():
            if path.startswith(znodes.BROKER_IDS + "/"):
                broker = znodes.decode_broker(path, node.data)
                image.brokers[broker.id] = broker
        image.brokers[self._broker.id] = self._broker
        if (feature := tree.get(znodes.FEATURE)) is not None:
            image.features, image.features_epoch = znodes.decode_features(feature.data), feature.version + 1
        image.broker_configs = znodes.read_configs(znodes.BROKER_CONFIGS, tree)
        if znodes.FOR_ALL_BROKERS in image.broker_configs:
            image.broker_configs[""] = image.broker_configs.pop(znodes.FOR_ALL_BROKERS)
        image.group_configs = znodes.read_configs(znodes.GROUP_CONFIGS, tree)
        image.client_metrics = znodes.read_configs(znodes.CLIENT_METRICS, tree)
        unfinished = []
        for topic in znodes.read_topics(tree):
            if f"{znodes.DELETE_TOPICS}/{topic.name}" in tree:
                unfinished.append(topic)
            else:
                image.add(topic)
        if unfinished:
            log.info("finishing the deletion of %s", ", ".join(topic.name for topic in unfinished))
            self._being_deleted.update(topic.name for topic in unfinished)
            await self._finish_deletion(unfinished)

    def _take_role(self, tree: Mapping[str, Node]) -> list[Operation]:
        now_ms = int(time.time() * 1000)
        operations: list[Operation] = [Create(path) for path in znodes.SKELETON if path not in tree]
        known = tree.get(znodes.CLUSTER_ID)
        if known is None:
            self.image.cluster_id = self._wanted_cluster_id or id_text(new_id())
            operations.append(Create(znodes.CLUSTER_ID, znodes.encode({"version": "1", "id": self.image.cluster_id})))
        else:
            self.image.cluster_id = stored = znodes.decode(znodes.CLUSTER_ID, known.data)["id"]
            if self._wanted_cluster_id not in (None, stored):
                raise ClusterIdMismatch(stored, str(self._wanted_cluster_id))
        epoch = tree.get(znodes.CONTROLLER_EPOCH)
        if epoch is None:
            self.epoch = 1
            operations.append(Create(znodes.CONTROLLER_EPOCH, b"1"))
        else:
            self.epoch = int(epoch.data) + 1
            operations.append(Set(znodes.CONTROLLER_EPOCH, b"%d" % self.epoch, epoch.version))
        role = {"version": 2, "brokerid": self._broker.id, "timestamp": str(now_ms)}
        operations.append(Create(znodes.CONTROLLER, znodes.encode(role), ephemeral=True))
        own = f"{znodes.BROKER_IDS}/{self._broker.id}"
        operations.append(Create(own, znodes.encode_broker(self._broker, now_ms), ephemeral=True))
        return operations

    async def stop(self) -> None:
        """Let the work in hand finish. Closing the store, which gives up the role, is the owner's."""
        while self._being_created:
            await asyncio.wait(self._being_created.values())
        async with self._lock:
            pass

    # -- topics

    async def create_topics(self, asked: Sequence[NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
        """One result per name; the good ones are made even if others are refused."""
        async with self._lock:
            results = self._plan(asked)
            topics = [result.image for result in results if result.image is not None]
            if validate_only or not topics:
                return results
            try:
                await self._store.multi(
                    [operation for topic in topics for operation in znodes.create_topic(topic, self.epoch)]
                )
            except StoreError as error:
                log.error("topics not created: %s", error)
                return [_failed(result, str(error)) for result in results]
            try:
                await self._on_change(Change(created=topics))
            except Exception as error:
                log.exception("the logs of new topics cannot be opened; deleting the topics again")
                await self._undo(topics)
                return [_failed(result, f"the logs cannot be opened: {error}") for result in results]
            for topic in topics:
                self.image.add(topic)
                log.info("topic %s created with %d partitions", topic.name, len(topic.partitions))
                for warning in topic_warnings(topic.configs):
                    log.warning("topic %s: %s", topic.name, warning)
            return results

    async def _undo(self, topics: Sequence[TopicImage]) -> None:
        try:
            await self._delete(topics)
        except StoreError as error:
            log.error("topics that could not be opened are still in the store: %s", error)

    def _plan(self, asked: Sequence[NewTopic]) -> list[TopicResult]:
        return plan_creation(
            asked,
            self.image,
            self._config,
            being_deleted=self._being_deleted,
            new_id=new_id,
            pick_start=self._pick_start,
        )

    async def create_partitions(
        self, asked: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[TopicResult]:
        """One result per topic; the good ones have their partitions when this returns, even if others are refused."""
        async with self._lock:
            results = plan_growth(asked, self.image, pick_start=self._pick_start)
            if validate_only:
                return results
            return [result if result.image is None else await self._grow(result, result.image) for result in results]

    async def _grow(self, result: TopicResult, topic: TopicImage) -> TopicResult:
        before = self.image.topics[topic.name]
        first, count = len(before.partitions), len(topic.partitions)
        try:
            await self._store.multi(znodes.grow_topic(topic, first, self.epoch))
        except StoreError as error:
            log.error("topic %s not given more partitions: %s", topic.name, error)
            return _failed(result, str(error))
        try:
            await self._on_change(Change(grown=[(topic, first)]))
        except Exception as error:
            log.exception(
                "the logs of new partitions of %s cannot be opened; removing the partitions again", topic.name
            )
            try:
                await self._store.multi(znodes.shrink_topic(before, count))
            except StoreError as worse:
                log.error("they are still in the store, and come with the next start: %s", worse)
            return _failed(result, f"the logs cannot be opened: {error}")
        self.image.add(topic)
        log.info("topic %s has %d partitions now, it had %d", topic.name, count, first)
        return result

    def create_in_background(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Start creating topics with the default settings; what to tell a client that asked for them meanwhile.

        LEADER_NOT_AVAILABLE where the topic will be there soon, else why it will not. Internal topics are made by the
        coordinators that own them, with settings of their own, so they are unknown until then.
        """
        told = dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)
        wanted = []
        for name in told:
            if is_internal(name):
                told[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif name not in self._being_created and name not in self._being_deleted:
                (result,) = self._plan([NewTopic(name)])
                if result.image is not None:
                    wanted.append(NewTopic(name))
                elif result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    told[name] = result.error_code
        if wanted:
            task = asyncio.get_running_loop().create_task(self._create(wanted))
            for new in wanted:
                self._being_created[new.name] = task
        return told

    async def _create(self, wanted: Sequence[NewTopic]) -> None:
        try:
            for result in await self.create_topics(wanted):
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    log.warning("topic %s was not created: %s", result.name, result.message)
        except Exception:
            log.exception("automatic creation of topics failed")
        finally:
            for new in wanted:
                del self._being_created[new.name]

    async def delete_topics(self, asked: Sequence[str | bytes]) -> list[DeletionResult]:
        """One result per different entry, each a topic's name or id."""
        async with self._lock:
            if not self._config.delete_topic_enable:
                disabled = ErrorCode.TOPIC_DELETION_DISABLED
                return [
                    DeletionResult(key, None, disabled, disabled.message)
                    if isinstance(key, str)
                    else DeletionResult(None, key, disabled, disabled.message)
                    for key in dict.fromkeys(asked)
                ]
            results = plan_deletion(asked, self.image)
            names = [result.name for result in results if result.error_code == ErrorCode.NONE]
            topics = [self.image.topics[name] for name in names if name is not None]
            if not topics:
                return results
            try:
                await self._delete(topics)
            except StoreError as error:
                log.error("topics not deleted: %s", error)
                return [
                    result._replace(error_code=ErrorCode.KAFKA_STORAGE_ERROR, message=str(error))
                    if result.error_code == ErrorCode.NONE
                    else result
                    for result in results
                ]
            return results

    async def _delete(self, topics: Sequence[TopicImage]) -> None:
        await self._store.multi([Create(f"{znodes.DELETE_TOPICS}/{topic.name}") for topic in topics])
        for topic in topics:  # decided: from here on the topic is gone, now or at the next start
            self._being_deleted.add(topic.name)
            if topic.name in self.image.topics:
                self.image.remove(topic.name)
        await self._finish_deletion(topics)

    async def _finish_deletion(self, topics: Sequence[TopicImage]) -> None:
        try:
            await self._on_change(Change(deleted=topics))
        except Exception:
            names = ", ".join(topic.name for topic in topics)
            log.exception("the logs of %s could not be removed; the next start tries again", names)
            return
        operations = []
        for topic in topics:
            tree: dict[str, Node] = {}
            for above in (znodes.TOPICS, znodes.TOPIC_CONFIGS, znodes.DELETE_TOPICS):
                tree |= await self._store.subtree(f"{above}/{topic.name}")
            operations += znodes.delete_topic(topic.name, tree)
        await self._store.multi(operations)
        for topic in topics:
            self._being_deleted.discard(topic.name)
            log.info("topic %s deleted", topic.name)

    # -- settings

    async def alter_configs(self, asked: Sequence[ConfigChange], *, validate_only: bool = False) -> list[ConfigResult]:
        """One result per change; the good ones hold when this returns, even if others are refused."""
        async with self._lock:
            results, turns = [], Turns()
            for planned in plan_alteration(asked, self.image, self._config):
                results.append(planned)
                await turns.give()
            good = [result for result in results if result.overrides is not None]
            if validate_only or not good:
                return results
            try:
                await self._store.multi([operation for result in good for operation in self._store_configs(result)])
            except StoreError as error:
                log.error("settings not changed: %s", error)
                storage = ErrorCode.KAFKA_STORAGE_ERROR
                return [
                    result if result.overrides is None else ConfigResult(result.type, result.name, storage, str(error))
                    for result in results
                ]
            for result in good:
                self._show_configs(result)
            await self._on_change(
                Change(
                    altered=[self.image.topics[result.name] for result in good if result.type == TOPIC],
                    reconfigured=[(result.type, result.name) for result in good if result.type != TOPIC],
                )
            )
            return results

    def _store_configs(self, result: ConfigResult) -> list[Operation]:
        assert result.overrides is not None
        if result.type == TOPIC:
            return [znodes.set_configs(f"{znodes.TOPIC_CONFIGS}/{result.name}", result.overrides)]
        above, known = self._configs(result.type)
        name = znodes.FOR_ALL_BROKERS if not result.name else znodes.escaped(result.name)
        return znodes.put_configs(f"{above}/{name}", result.overrides, existed=result.name in known)

    def _configs(self, type: int) -> tuple[str, dict[str, dict[str, str]]]:
        """Where overrides of a resource's kind are, in the store and in the image."""
        image = self.image
        if type == BROKER:
            return znodes.BROKER_CONFIGS, image.broker_configs
        if type == GROUP:
            return znodes.GROUP_CONFIGS, image.group_configs
        return znodes.CLIENT_METRICS, image.client_metrics

    def _show_configs(self, result: ConfigResult) -> None:
        assert result.overrides is not None
        if result.type == TOPIC:
            topic = self.image.topics[result.name]._replace(configs=result.overrides)
            self.image.add(topic)
            log.info("topic %s has other settings: %s", topic.name, topic.configs)
            for warning in topic_warnings(topic.configs):
                log.warning("topic %s: %s", topic.name, warning)
            return
        _, known = self._configs(result.type)
        if result.overrides:
            known[result.name] = result.overrides
        else:
            known.pop(result.name, None)

    # -- leaders and replicas

    async def elect_leaders(
        self, asked: Sequence[tuple[str, int]], kind: ElectionKind, usable: Usable
    ) -> list[ElectionResult]:
        """One result per partition."""
        async with self._lock:
            results = [plan_election(topic, index, kind, self.image, usable) for topic, index in asked]
            changed = {(one.topic, one.partition): one.image for one in results if one.image is not None}
            try:
                await self._set_partitions(changed)
            except StoreError as error:
                log.error("leaders not elected: %s", error)
                storage = ErrorCode.KAFKA_STORAGE_ERROR
                return [
                    one if one.image is None else one._replace(error_code=storage, message=str(error))
                    for one in results
                ]
            return results

    async def reassign(self, asked: Sequence[Reassignment], *, keep_factor: bool = False) -> list[ReassignmentResult]:
        """One result per partition; the good ones are under way when this returns, even if others are refused."""
        async with self._lock:
            results = plan_reassignment(asked, self.image, keep_factor=keep_factor)
            changed = {(one.topic, one.partition): one.image for one in results if one.image is not None}
            try:
                await self._set_partitions(changed)
            except StoreError as error:
                log.error("partitions not reassigned: %s", error)
                storage = ErrorCode.KAFKA_STORAGE_ERROR
                return [
                    one if one.image is None else one._replace(error_code=storage, message=str(error))
                    for one in results
                ]
            return results

    async def _set_partitions(self, changed: Mapping[tuple[str, int], PartitionImage]) -> None:
        """Store the new states of partitions, then show them."""
        topics: dict[str, TopicImage] = {}
        for (name, index), partition in changed.items():
            topic = topics.setdefault(name, self.image.topics[name])
            partitions = list(topic.partitions)
            partitions[index] = partition._replace(epoch=partition.epoch + 1)
            topics[name] = topic._replace(partitions=partitions)
        if not topics:
            return
        operations = [znodes.set_assignment(topic) for topic in topics.values()]
        operations += [znodes.set_state(topics[name], index, self.epoch) for name, index in changed]
        await self._store.multi(operations)
        for topic in topics.values():
            self.image.add(topic)
        for (name, index), partition in changed.items():
            log.info("%s-%d: leader %d, replicas %s", name, index, partition.leader, partition.replicas)
        await self._on_change(Change(led=[(topics[name], index) for name, index in changed]))

    # -- features

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> FeaturesResult:
        """All of the updates hold when this returns, or none."""
        async with self._lock:
            result = plan_update(updates, self.image.features, SUPPORTED)
            if result.levels is None or validate_only or result.levels == self.image.features:
                return result
            data = znodes.encode_features(result.levels)
            try:
                if self.image.features_epoch:
                    await self._store.set(znodes.FEATURE, data)
                else:
                    await self._store.create(znodes.FEATURE, data)
            except StoreError as error:
                log.error("features not changed: %s", error)
                return FeaturesResult(ErrorCode.FEATURE_UPDATE_FAILED, str(error))
            self.image.features = result.levels
            self.image.features_epoch += 1
            log.info("features: %s", result.levels)
            return result

    # -- producer ids

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """A block of ids that nobody else has or will have, as (first id, count)."""
        path = znodes.PRODUCER_ID_BLOCK
        while True:
            try:
                node = await self._store.get(path)
            except NoNode:
                first, version = 0, None
            else:
                first, version = int(znodes.decode(path, node.data)["block_end"]) + 1, node.version
            last = first + BLOCK_SIZE - 1
            if last > MAX_ID:
                raise StoreError(f"{path}: producer ids are used up")
            block = {"version": 1, "broker": self._broker.id, "block_start": str(first), "block_end": str(last)}
            try:
                if version is None:
                    await self._store.create(path, znodes.encode(block))
                else:
                    await self._store.set(path, znodes.encode(block), version)
            except (BadVersion, NodeExists):  # another broker was quicker
                continue
            return first, BLOCK_SIZE


def _failed(result: TopicResult, message: str) -> TopicResult:
    if result.image is None:
        return result
    return TopicResult(result.name, ErrorCode.KAFKA_STORAGE_ERROR, message)
