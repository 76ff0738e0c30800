"""Broker settings that change while the broker runs take hold (config/dynamic.py says which may).

There is one `BrokerConfig` object, and it is changed in place: what reads it when it needs a value goes by the new one.
What has been made from it is brought in line here: limits of listeners, threads, the cleaner's rest, and the settings
of all topics that leave a value to the broker.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig
from ottla.config.dynamic import CLUSTER, overlaid, usable
from ottla.config.errors import ConfigError
from ottla.config.log_defaults import LogDefaults
from ottla.config.topic import TopicConfig
from ottla.controller.turns import Turns

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.controller.image import TopicImage

log = logging.getLogger(__name__)


def load_overrides(broker: Broker) -> None:
    """Before logs are opened: go by what was set in former lives."""
    stored, own_name = broker.image.broker_configs, str(broker.config.node_id)
    for name in (CLUSTER, own_name):
        if name in stored:
            stored[name], told = usable(stored[name], for_all=name == CLUSTER)
            for line in told:
                log.error("a stored override is disregarded: %s", line)
    try:
        changed = broker.config.become(_as_stored(broker))
    except ConfigError as error:  # each is legal, but not with what the broker was started with now
        log.error("overrides of the broker's settings disregarded: %s", error)
        return
    _bring_in_line(broker, changed)


async def reconfigure(broker: Broker) -> None:
    """Overrides have changed: go by them."""
    changed = broker.config.become(_as_stored(broker))
    if not changed:
        return
    log.info("settings changed: %s", ", ".join(f"{key}={_shown(broker.config, key)}" for key in sorted(changed)))
    _bring_in_line(broker, changed)
    if not changed.isdisjoint(LogDefaults.settings):
        await _configure_topics(broker)
    broker.cleaner.look_again(own_settings=any(key.startswith("log.cleaner.") for key in changed))


def _as_stored(broker: Broker) -> BrokerConfig:
    stored = broker.image.broker_configs
    return overlaid(broker.config, stored.get(CLUSTER, {}), stored.get(str(broker.config.node_id), {}))


def _shown(config: BrokerConfig, key: str) -> str | None:
    known = config.settings[key]
    return "[hidden]" if known.sensitive else known.show(config.value(key))


def _bring_in_line(broker: Broker, changed: set[str]) -> None:
    config = broker.config
    limits = broker.limits
    limits.connections = config.max_connections
    limits.connections_per_ip = config.max_connections_per_ip
    limits.connections_per_ip_overrides = config.connection_limits
    broker.logs.recovery_threads = config.num_recovery_threads_per_data_dir
    if "background.threads" in changed:
        broker.use_threads(config.background_threads)


async def _configure_topics(broker: Broker) -> None:
    """All topics, with others served in between. No topic is made or deleted meanwhile: the controller waits."""
    made: dict[frozenset[tuple[str, str]], TopicConfig] = {}  # most topics have one of few sets of overrides
    turns = Turns()
    for topic in list(broker.image.topics.values()):
        overrides = frozenset(topic.configs.items())
        config = made.get(overrides)
        if config is None:
            config = made[overrides] = TopicConfig.resolve(topic.configs, broker.config)
        configure_topic(broker, topic, config)
        await turns.give()


def configure_topic(broker: Broker, topic: TopicImage, config: TopicConfig) -> None:
    for partition in broker.replicas.by_id.get(topic.id, ()):
        if partition.config != config:
            partition.configure(config)
            broker.flushing.reconsider(partition)
