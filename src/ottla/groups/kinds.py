"""The kinds of groups: who reads which records of __consumer_offsets back.

A restorer is called with the shard, a key and its value, for each kind of key that it is registered for; it finds or
makes the group (`shard.find_or_create`) and gives it its core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.groups.classic import stored
from ottla.groups.consumer import records as consumer
from ottla.groups.consumer import stored as consumer_stored
from ottla.groups.records import GROUP_KEY

if TYPE_CHECKING:
    from ottla.groups.shard import Shard

RESTORERS: dict[int, Callable[[Shard, bytes, bytes], None]] = {
    GROUP_KEY: stored.restore,
    **dict.fromkeys(
        (
            consumer.GROUP,
            consumer.TOPICS,
            consumer.MEMBER,
            consumer.TARGET,
            consumer.MEMBER_TARGET,
            consumer.MEMBER_STATE,
            consumer.PATTERN,
        ),
        consumer_stored.restore,
    ),
}
