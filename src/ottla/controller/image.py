"""The cluster as its controller has decided it: brokers, topics, partitions, settings that were set at run time.

Every broker holds one image and reads it on its event loop; the controller changes it in place between requests. So a
handler that does not await sees one state; one that awaits must look again.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.controller.names import collision_key, is_internal, may_collide

NO_LEADER = -1


class BrokerInfo(NamedTuple):
    """A live broker. `endpoints`: listener name -> (host, port) as advertised."""

    id: int
    rack: str | None
    endpoints: dict[str, tuple[str, int]]


class PartitionImage(NamedTuple):
    """`epoch` counts the changes of this state (KIP-841's partition epoch; the version of its node in the store).

    While a partition is reassigned, `replicas` has the old and the new ones; `adding` and `removing` say which.
    """

    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)


class TopicImage(NamedTuple):
    """`configs` holds the topic's own overrides only."""

    name: str
    id: bytes
    partitions: list[PartitionImage]
    configs: dict[str, str]

    @property
    def internal(self) -> bool:
        return is_internal(self.name)


class ClusterImage:
    """`broker_configs`, `group_configs` and `client_metrics` hold overrides only, by key, of those that have any; the
    name "" among brokers stands for all brokers. `features` are the levels that were asked for, with the epoch of that
    (features.py)."""

    __slots__ = (
        "_collisions",
        "broker_configs",
        "brokers",
        "client_metrics",
        "cluster_id",
        "controller_id",
        "features",
        "features_epoch",
        "group_configs",
        "topics",
        "topics_by_id",
    )

    def __init__(self, cluster_id: str = "", controller_id: int = -1) -> None:
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers: dict[int, BrokerInfo] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.features: dict[str, int] = {}
        self.features_epoch = 0
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}
        self._collisions: dict[str, str] = {}

    def add(self, topic: TopicImage) -> None:
        """Take in a new topic, or the new state of one."""
        self.topics[topic.name] = topic
        self.topics_by_id[topic.id] = topic
        if may_collide(topic.name):
            self._collisions[collision_key(topic.name)] = topic.name

    def remove(self, name: str) -> None:
        topic = self.topics.pop(name)
        del self.topics_by_id[topic.id]
        if self._collisions.get(collision_key(name)) == name:
            del self._collisions[collision_key(name)]

    def colliding(self, name: str) -> str | None:
        """The other topic whose name collides with this one (see names.py)."""
        other = self._collisions.get(collision_key(name)) if may_collide(name) else None
        return other if other != name else None
