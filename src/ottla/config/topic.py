"""Topic configuration: the settings of a topic, from its own overrides and the broker's defaults.

A topic stores only what somebody set on it (overrides). What holds is, in this order: the override, the broker's
settings that stand behind it (`synonyms`), Kafka's default. Defaults and ranges are those of Kafka 4.3 (A3 CT1-CT21,
B CFT-01..15), except:
- `segment.bytes` may be as small as before Kafka 4.0 (14 bytes; 4.x: 1 MiB), since the texts roll small ones;
- tiered storage (`remote.*`, `local.*`) is left out.

Keys that Kafka has dropped: `message.timestamp.difference.max.ms` sets the two keys that replaced it (KIP-937);
`message.format.version` and `message.downconversion.enable` are taken and dropped with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.config.definitions import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MAX_LONG,
    STRING,
    Configuration,
    Legal,
    at_least,
    between,
    canonical,
    one_of,
    setting,
    some_of,
)
from ottla.config.errors import ConfigError, UnknownKey, nearest

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

HOUR_MS = 3_600_000
MINUTE_MS = 60_000

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
GZIP_LEVEL = Legal("from 1 to 9, or -1 for the library's own", lambda level: level == -1 or 1 <= level <= 9)

NOT_REPLICATED = "partitions have one replica so far"


def _throttled(replicas: list[str]) -> bool:
    return replicas == ["*"] or all(
        part.isascii() and all(number.isdigit() for number in part.split(":")) and part.count(":") == 1
        for part in replicas
    )


THROTTLED = Legal("* or PARTITION:BROKER, …", _throttled)


class TopicConfig(Configuration):
    """What holds for one topic."""

    cleanup_policy: list[str] = setting(
        "cleanup.policy",
        LIST,
        ["delete"],
        some_of("compact", "delete"),
        "What happens to old data: delete drops whole segments past retention, compact keeps the newest record of each "
        "key, both do both, empty keeps everything.",
        synonyms=(("log.cleanup.policy", 1),),
    )
    compression_gzip_level: int = setting(
        "compression.gzip.level",
        INT,
        -1,
        GZIP_LEVEL,
        "Level when compression.type is gzip.",
        synonyms=(("compression.gzip.level", 1),),
    )
    compression_lz4_level: int = setting(
        "compression.lz4.level",
        INT,
        9,
        between(1, 17),
        "Level when compression.type is lz4.",
        synonyms=(("compression.lz4.level", 1),),
    )
    compression_type: str = setting(
        "compression.type",
        STRING,
        "producer",
        one_of(*CODECS),
        "Codec of batches on disk; producer keeps what the producer chose.",
        synonyms=(("compression.type", 1),),
    )
    compression_zstd_level: int = setting(
        "compression.zstd.level",
        INT,
        3,
        between(-131072, 22),
        "Level when compression.type is zstd.",
        synonyms=(("compression.zstd.level", 1),),
    )
    delete_retention_ms: int = setting(
        "delete.retention.ms",
        LONG,
        86_400_000,
        at_least(0),
        "How long a compacted topic keeps tombstones, so that readers get to see them.",
        synonyms=(("log.cleaner.delete.retention.ms", 1),),
    )
    file_delete_delay_ms: int = setting(
        "file.delete.delay.ms",
        LONG,
        60_000,
        at_least(0),
        "Wait between taking a segment out of the log and removing its files.",
        synonyms=(("log.segment.delete.delay.ms", 1),),
    )
    flush_messages: int = setting(
        "flush.messages",
        LONG,
        MAX_LONG,
        at_least(1),
        "Records after which the log is forced to disk; 1 forces every write.",
        synonyms=(("log.flush.interval.messages", 1),),
    )
    flush_ms: int = setting(
        "flush.ms",
        LONG,
        MAX_LONG,
        at_least(0),
        "Time after which written records are forced to disk.",
        synonyms=(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    )
    follower_replication_throttled_replicas: list[str] = setting(
        "follower.replication.throttled.replicas",
        LIST,
        [],
        THROTTLED,
        "Replicas whose fetching is throttled on the follower's side.",
        no_effect=NOT_REPLICATED,
    )
    index_interval_bytes: int = setting(
        "index.interval.bytes",
        INT,
        4096,
        at_least(0),
        "Bytes between two entries of a segment's offset index.",
        synonyms=(("log.index.interval.bytes", 1),),
    )
    leader_replication_throttled_replicas: list[str] = setting(
        "leader.replication.throttled.replicas",
        LIST,
        [],
        THROTTLED,
        "Replicas whose fetching is throttled on the leader's side.",
        no_effect=NOT_REPLICATED,
    )
    max_compaction_lag_ms: int = setting(
        "max.compaction.lag.ms",
        LONG,
        MAX_LONG,
        at_least(1),
        "Longest time that a record of a compacted topic stays out of compaction.",
        synonyms=(("log.cleaner.max.compaction.lag.ms", 1),),
    )
    max_message_bytes: int = setting(
        "max.message.bytes",
        INT,
        1_048_588,
        at_least(0),
        "Largest batch, as it is stored (compressed).",
        aliases=("max.message.size",),
        synonyms=(("message.max.bytes", 1),),
    )
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        at_least(0),
        "How far a record's timestamp may lie after the broker's clock (CreateTime only).",
        synonyms=(("log.message.timestamp.after.max.ms", 1),),
    )
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms",
        LONG,
        MAX_LONG,
        at_least(0),
        "How far a record's timestamp may lie before the broker's clock (CreateTime only).",
        synonyms=(("log.message.timestamp.before.max.ms", 1),),
    )
    message_timestamp_type: str = setting(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose clock stamps a record: the producer's or the broker's.",
        synonyms=(("log.message.timestamp.type", 1),),
    )
    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        between(0, 1),
        "Share of the log not yet compacted at which compaction starts.",
        synonyms=(("log.cleaner.min.cleanable.ratio", 1),),
    )
    min_compaction_lag_ms: int = setting(
        "min.compaction.lag.ms",
        LONG,
        0,
        at_least(0),
        "Time for which a record of a compacted topic is left alone.",
        synonyms=(("log.cleaner.min.compaction.lag.ms", 1),),
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        INT,
        1,
        at_least(1),
        "In-sync replicas that a write with acks=all needs.",
        aliases=("min.insync.replica", "min.isr"),
        synonyms=(("min.insync.replicas", 1),),
    )
    preallocate: bool = setting(
        "preallocate",
        BOOLEAN,
        False,
        None,
        "Whether a new segment's file takes its full size at once.",
        synonyms=(("log.preallocate", 1),),
    )
    retention_bytes: int = setting(
        "retention.bytes",
        LONG,
        -1,
        None,
        "Bytes kept per partition before old segments go; -1 for no limit.",
        synonyms=(("log.retention.bytes", 1),),
    )
    retention_ms: int = setting(
        "retention.ms",
        LONG,
        604_800_000,
        at_least(-1),
        "Time for which records are kept before old segments go; -1 for no limit.",
        synonyms=(
            ("log.retention.ms", 1),
            ("log.retention.minutes", MINUTE_MS),
            ("log.retention.hours", HOUR_MS),
        ),
    )
    segment_bytes: int = setting(
        "segment.bytes",
        INT,
        1_073_741_824,
        at_least(14),
        "Size at which the log goes on in a new segment.",
        synonyms=(("log.segment.bytes", 1),),
    )
    segment_index_bytes: int = setting(
        "segment.index.bytes",
        INT,
        10_485_760,
        at_least(4),
        "Largest offset index of a segment.",
        synonyms=(("log.index.size.max.bytes", 1),),
    )
    segment_jitter_ms: int = setting(
        "segment.jitter.ms",
        LONG,
        0,
        at_least(0),
        "Random part taken off segment.ms, so that segments do not all roll at once.",
        synonyms=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    )
    segment_ms: int = setting(
        "segment.ms",
        LONG,
        604_800_000,
        at_least(1),
        "Age at which the log goes on in a new segment.",
        synonyms=(("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        None,
        "Whether a replica that was not in sync may lead as a last resort, losing records.",
        aliases=("unclean.leader.election",),
        synonyms=(("unclean.leader.election.enable", 1),),
        no_effect=NOT_REPLICATED,
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str | None], broker: BrokerConfig) -> TopicConfig:
        """What holds for a topic with these overrides on this broker."""
        checked = validate_topic_overrides(overrides)
        config = cls()
        values = config.__dict__
        for known in cls.settings.values():
            text = checked.get(known.key)
            values[known.attribute] = known.parse(text) if text is not None else broker_default(known.key, broker)
        return config

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy


def broker_default(key: str, broker: BrokerConfig) -> object:
    """What a topic without an override gets: the first of the broker's settings behind it that has a value."""
    known = TopicConfig.settings[key]
    for name, factor in known.synonyms:
        value = broker.value(name)
        if value is not None:
            if factor == 1:
                return value
            return value * factor if value >= 0 else -1
    return known.default


DROPPED = {
    "message.format.version": "records are always stored in format 2",
    "message.downconversion.enable": "old consumers are always served their format",
    "message.downconversion.enabled": "old consumers are always served their format",
}
TIMESTAMP_DIFFERENCE = "message.timestamp.difference.max.ms"


def validate_topic_overrides(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """The overrides under today's names, as they are to be stored; ConfigError for the first that is not legal."""
    given: dict[str, str] = {}
    for name, text in overrides.items():
        if text is None:
            raise ConfigError(name, None, "a topic's override needs a value")
        if name == TIMESTAMP_DIFFERENCE:
            for key in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
                if key not in overrides:
                    given[key] = text
        elif name not in DROPPED:
            given[name] = text
    checked, rest = canonical(TopicConfig.names, given)
    for name, text in rest.items():
        raise UnknownKey(name, text, nearest(name, list(TopicConfig.names)))
    values = {key: TopicConfig.settings[key].parse(text) for key, text in checked.items()}
    least, most = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if least is not None and most is not None and least > most:
        raise ConfigError("min.compaction.lag.ms", str(least), f"must not exceed max.compaction.lag.ms={most}")
    return checked


def topic_warnings(overrides: Mapping[str, str | None]) -> list[str]:
    """What to tell who sets these (legal) overrides: those that change nothing."""
    told = []
    for name in overrides:
        known = TopicConfig.names.get(name)
        reason = known.no_effect if known else DROPPED.get(name)
        if reason:
            told.append(f"{name} has no effect in ottla: {reason}")
    return told
