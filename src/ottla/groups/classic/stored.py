"""Classic groups read back from __consumer_offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.groups.records import read_group_key, read_group_value

if TYPE_CHECKING:
    from ottla.groups.shard import Shard


def restore(shard: Shard, key: bytes, value: bytes) -> None:
    group = shard.find_or_create(read_group_key(key))
    core = shard.new_core(group.id)
    core.take(read_group_value(value))
    group.core = core
