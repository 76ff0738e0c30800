"""What classic consumers send inside of JoinGroup and get inside of SyncGroup: subscriptions and assignments.

    version int16 | ConsumerProtocolSubscription or ConsumerProtocolAssignment in that version

Those of versions that are not known yet are read as the newest one that is: fields are only ever added at the end.
Assignments are written in the version of the member's own subscription.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.groups.consumer.members import Owned
from ottla.protocol import codec, messages
from ottla.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage

NEWEST = 3

_INT16 = struct.Struct(">h")

Subscription = messages.ConsumerProtocolSubscription
Assigned = messages.ConsumerProtocolAssignment


def _version(data: bytes) -> int:
    """-1 where there is none."""
    return min(int(_INT16.unpack_from(data)[0]), NEWEST) if len(data) >= 2 else -1


def read_subscription(data: bytes) -> Subscription | None:
    """None if it is none."""
    version = _version(data)
    if version < 0:
        return None
    try:
        return codec.decoder(Subscription, version)(memoryview(data)[2:], 0)[0]
    except MalformedMessage:
        return None


def read_assignment(data: bytes) -> Assigned | None:
    version = _version(data)
    if version < 0:
        return None
    try:
        return codec.decoder(Assigned, version)(memoryview(data)[2:], 0)[0]
    except MalformedMessage:
        return None


def write_assignment(
    assigned: Owned | Mapping[bytes, Iterable[int]], subscription: bytes, image: ClusterImage
) -> bytes:
    version = max(_version(subscription), 0)
    message = Assigned(
        assigned_partitions=[
            Assigned.TopicPartitions(topic=image.topics_by_id[topic].name, partitions=sorted(partitions))
            for topic, partitions in assigned.items()
            if topic in image.topics_by_id
        ],
        user_data=None,
    )
    return _INT16.pack(version) + codec.encode(message, version)


def by_id(
    listed: Iterable[Subscription.TopicPartitions | Assigned.TopicPartitions], image: ClusterImage
) -> dict[bytes, set[int]]:
    """Partitions by topic id; topics that are gone are left out."""
    found: dict[bytes, set[int]] = {}
    for one in listed:
        topic = image.topics.get(one.topic)
        if topic is not None:
            found.setdefault(topic.id, set()).update(one.partitions)
    return found
