"""The world of consumer groups (world.py) on a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.group import GroupConfig, assignor_names
from ottla.groups.consumer.world import Settings

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.coordinators.host import Host
    from ottla.groups.classic.group import ClassicGroup
    from ottla.groups.shard import Shard

UPGRADES = ("bidirectional", "upgrade")
DOWNGRADES = ("bidirectional", "downgrade")


class Surroundings:
    __slots__ = ("_host", "_shard")

    def __init__(self, host: Host, shard: Shard) -> None:
        self._host = host
        self._shard = shard

    @property
    def image(self) -> ClusterImage:
        return self._host.image

    def settings(self, group_id: str) -> Settings:
        config = self._host.config
        policy = config.group_consumer_migration_policy.lower()
        own = GroupConfig.resolve(self._host.image.group_configs.get(group_id, {}), config)
        return Settings(
            own.consumer_session_timeout_ms,
            own.consumer_heartbeat_interval_ms,
            own.consumer_assignment_interval_ms,
            config.group_consumer_max_size,
            config.group_max_size,
            assignor_names(config),
            policy in UPGRADES,
            policy in DOWNGRADES,
        )

    def now_ms(self) -> int:
        return self._host.now_ms()

    def classic_group(self, group_id: str) -> ClassicGroup:
        return self._shard.new_core(group_id)
