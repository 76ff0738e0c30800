"""What a consumer group sees of its surroundings: the cluster's topics, settings, the time of day.

A core looks at these whenever it needs them and changes none; so stories and simulations can put their own in place.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.controller.image import ClusterImage
    from ottla.groups.classic.group import ClassicGroup


class Settings(NamedTuple):
    """What holds for one group now. `assignors`: the first is that of groups whose members name none."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    max_size: int = 2**31 - 1
    classic_max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    may_upgrade: bool = True
    may_downgrade: bool = True


class World(Protocol):
    @property
    def image(self) -> ClusterImage: ...

    def settings(self, group_id: str) -> Settings: ...

    def now_ms(self) -> int:
        """Time of day, for records."""

    def classic_group(self, group_id: str) -> ClassicGroup:
        """An empty classic group, for one that goes back to being one."""


def metadata_hash(names: Iterable[str], image: ClusterImage) -> int:
    """One number for all that matters of some topics: it changes when a group must be assigned anew (KIP-1101).

    Topics that are not there do not count. The number itself is ours: Apache Kafka, on the same log, would work out
    another one and rebalance once.
    """
    digest = blake2b(digest_size=8)
    for name in sorted(names):
        topic = image.topics.get(name)
        if topic is None:
            continue
        digest.update(topic.id + len(topic.partitions).to_bytes(4, "big"))
        for partition in topic.partitions:
            for broker_id in partition.replicas:
                broker = image.brokers.get(broker_id)
                digest.update((broker.rack if broker is not None and broker.rack else "").encode() + b"\0")
            digest.update(b"\1")
    return int.from_bytes(digest.digest(), "big", signed=True)
