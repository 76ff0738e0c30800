"""The broker's settings that stand behind topic settings: what a topic without an override gets.

Type, range and default come from the topic's definition; only what differs is said here.
A unit is chosen by name: of `log.retention.{ms,minutes,hours}` the smallest that is set wins (A1 CF-09).
"""

from __future__ import annotations

from typing import Any

from ottla.config.definitions import CLUSTER_WIDE, INT, READ_ONLY, ConfigType, Configuration, Legal, setting
from ottla.config.topic import TopicConfig

UNLIMITED = Legal("at least 1, or -1 for no limit", lambda value: bool(value == -1 or value >= 1))
_SAME: Any = object()


def behind(
    topic_key: str,
    key: str,
    *,
    type: ConfigType | None = None,
    default: Any = _SAME,
    legal: Legal | None = None,
    doc: str = "",
    aliases: tuple[str, ...] = (),
    dynamic: str = CLUSTER_WIDE,
) -> Any:
    """A broker setting that is the default of a topic setting."""
    topic = TopicConfig.settings[topic_key]
    return setting(
        key,
        type or topic.type,
        topic.default if default is _SAME else default,
        legal or topic.legal,
        doc or f"Default of a topic's {topic_key}.",
        aliases=aliases,
        dynamic=dynamic,
        no_effect=topic.no_effect,
    )


class LogDefaults(Configuration):
    """Defaults of topics."""

    compression_gzip_level: int = behind("compression.gzip.level", "compression.gzip.level")
    compression_lz4_level: int = behind("compression.lz4.level", "compression.lz4.level")
    compression_type: str = behind("compression.type", "compression.type")
    compression_zstd_level: int = behind("compression.zstd.level", "compression.zstd.level")
    log_cleaner_delete_retention_ms: int = behind("delete.retention.ms", "log.cleaner.delete.retention.ms")
    log_cleaner_max_compaction_lag_ms: int = behind("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    log_cleaner_min_cleanable_ratio: float = behind("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio")
    log_cleaner_min_compaction_lag_ms: int = behind("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms")
    log_cleanup_policy: list[str] = behind("cleanup.policy", "log.cleanup.policy")
    log_flush_interval_messages: int = behind("flush.messages", "log.flush.interval.messages")
    log_flush_interval_ms: int | None = behind("flush.ms", "log.flush.interval.ms", default=None)
    log_flush_scheduler_interval_ms: int = behind(
        "flush.ms",
        "log.flush.scheduler.interval.ms",
        dynamic=READ_ONLY,
        doc="Default of a topic's flush.ms where log.flush.interval.ms is not set.",
    )
    log_index_interval_bytes: int = behind("index.interval.bytes", "log.index.interval.bytes")
    log_index_size_max_bytes: int = behind("segment.index.bytes", "log.index.size.max.bytes")
    log_message_timestamp_after_max_ms: int = behind(
        "message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"
    )
    log_message_timestamp_before_max_ms: int = behind(
        "message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"
    )
    log_message_timestamp_type: str = behind("message.timestamp.type", "log.message.timestamp.type")
    log_preallocate: bool = behind("preallocate", "log.preallocate")
    log_retention_bytes: int = behind("retention.bytes", "log.retention.bytes")
    log_retention_hours: int = behind(
        "retention.ms",
        "log.retention.hours",
        type=INT,
        default=168,
        legal=UNLIMITED,
        dynamic=READ_ONLY,
        doc="Default of a topic's retention.ms, in hours, where neither minutes nor milliseconds are set.",
    )
    log_retention_minutes: int | None = behind(
        "retention.ms",
        "log.retention.minutes",
        type=INT,
        default=None,
        legal=UNLIMITED,
        dynamic=READ_ONLY,
        doc="Default of a topic's retention.ms, in minutes, where milliseconds are not set.",
    )
    log_retention_ms: int | None = behind("retention.ms", "log.retention.ms", default=None, legal=UNLIMITED)
    log_roll_hours: int = behind(
        "segment.ms",
        "log.roll.hours",
        type=INT,
        default=168,
        dynamic=READ_ONLY,
        doc="Default of a topic's segment.ms, in hours, where milliseconds are not set.",
    )
    log_roll_jitter_hours: int = behind(
        "segment.jitter.ms",
        "log.roll.jitter.hours",
        type=INT,
        default=0,
        dynamic=READ_ONLY,
        doc="Default of a topic's segment.jitter.ms, in hours, where milliseconds are not set.",
    )
    log_roll_jitter_ms: int | None = behind("segment.jitter.ms", "log.roll.jitter.ms", default=None)
    log_roll_ms: int | None = behind("segment.ms", "log.roll.ms", default=None, aliases=("log.segment.ms",))
    log_segment_bytes: int = behind("segment.bytes", "log.segment.bytes")
    log_segment_delete_delay_ms: int = behind("file.delete.delay.ms", "log.segment.delete.delay.ms")
    message_max_bytes: int = behind("max.message.bytes", "message.max.bytes", aliases=("max.message.size",))
    min_insync_replicas: int = behind(
        "min.insync.replicas", "min.insync.replicas", aliases=("min.insync.replica", "min.isr")
    )
    unclean_leader_election_enable: bool = behind(
        "unclean.leader.election.enable", "unclean.leader.election.enable", aliases=("unclean.leader.election",)
    )


SYNONYM_GROUPS = {  # of each name, what supplies the value: itself, and the same in larger units
    key: group[place:]
    for group in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    for place, key in enumerate(group)
}
