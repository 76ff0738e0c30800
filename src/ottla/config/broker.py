"""Broker configuration: every setting of a broker, from a property file and the command line.

Names, ranges and defaults are Kafka 4.3's (A1 CF-01..25, B CFB-01..22), except where a single node must run without a
file: `node.id` is 0, data go to `./data`, and the coordinators' topics have one replica. Socket buffers are left to the
system, requests in flight are bounded (Kafka: not), and fewer threads help the event loop.

`from_properties` refuses what is illegal (ConfigError), and collects in `warnings` what the reader should know: unknown
keys with the nearest known one, and known keys that change nothing here. Names of old that are still taken: `port` and
`host.name` (0.8; A1 CF-02) for a listener, misspellings of the texts (A1 X-06).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ottla.config.definitions import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MAX_INT,
    MAX_LONG,
    PER_BROKER,
    SHORT,
    STRING,
    Legal,
    at_least,
    between,
    canonical,
    setting,
)
from ottla.config.errors import ConfigError, nearest
from ottla.config.group import GroupDefaults, check_group_defaults
from ottla.config.listeners import (
    DEFAULT_MAP,
    Listener,
    parse_address,
    parse_advertised,
    parse_listeners,
    parse_protocol_map,
)
from ottla.config.log_defaults import UNLIMITED

SYSTEM_BUFFER = Legal("at least 1, or -1 for the system's own", lambda value: bool(value == -1 or value >= 1))
ABOVE_ZERO = Legal("above 0", lambda value: bool(value > 0))
FILLED = Legal("at least one directory", lambda value: bool(value) and all(value))
CLUSTER_ID = Legal(
    "1 to 64 letters, digits, - and _",
    lambda text: 0 < len(text) <= 64 and text.isascii() and text.replace("-", "").replace("_", "").isalnum(),
)


class BrokerConfig(GroupDefaults):
    """What holds for one broker."""

    node_id: int = setting(
        "node.id", INT, 0, at_least(0), "The broker's number, unique in its cluster.", twins=("broker.id",)
    )
    cluster_id: str | None = setting(
        "cluster.id",
        STRING,
        None,
        CLUSTER_ID,
        "The cluster's name for itself (ottla's own key). Made up at the first start where it is not given; a data "
        "directory of another cluster is refused.",
    )
    broker_rack: str | None = setting("broker.rack", STRING, None, None, "Where the broker stands, told to clients.")

    listeners: list[str] = setting(
        "listeners",
        LIST,
        ["PLAINTEXT://:9092"],
        None,
        "Addresses to serve, NAME://HOST:PORT; empty HOST for all interfaces, PORT 0 for any free one.",
    )
    advertised_listeners: list[str] | None = setting(
        "advertised.listeners",
        LIST,
        None,
        None,
        "Addresses that clients are told, by listener name. Not given: the address that the client has reached.",
    )
    listener_security_protocol_map: str = setting(
        "listener.security.protocol.map",
        STRING,
        DEFAULT_MAP,
        None,
        "Protocol of each listener name, NAME:PROTOCOL, …; only PLAINTEXT is served so far.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", LONG, 600_000, at_least(1), "Silence after which a connection is closed."
    )
    max_connections: int = setting(
        "max.connections", INT, MAX_INT, at_least(0), "Connections open at once.", dynamic=CLUSTER_WIDE
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        INT,
        MAX_INT,
        at_least(0),
        "Connections open at once from one address.",
        dynamic=CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides: str = setting(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        None,
        "Limits of single addresses, as HOST:COUNT, …",
        dynamic=CLUSTER_WIDE,
    )
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size", INT, 50, at_least(1), "Connections waiting to be accepted."
    )
    socket_receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes", INT, -1, SYSTEM_BUFFER, "Receive buffer of a socket; -1 for the system's own."
    )
    socket_send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes", INT, -1, SYSTEM_BUFFER, "Send buffer of a socket; -1 for the system's own."
    )
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes", INT, 104_857_600, at_least(1), "Largest request; a larger one ends the connection."
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        LONG,
        268_435_456,
        UNLIMITED,
        "Bytes of large requests on their way in, over all connections, before the next one waits; -1 for no limit.",
    )

    background_threads: int = setting(
        "background.threads",
        INT,
        4,
        at_least(1),
        "Threads for what waits for the disk or opens many records, beside the event loop (Kafka: 10).",
        dynamic=CLUSTER_WIDE,
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes", INT, 57_671_680, at_least(1024), "Most bytes in one reply to a fetch, whatever it asks for."
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), "Fetch sessions remembered at once."
    )
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit", INT, 2000, at_least(1), "Most partitions in one described page of topics."
    )

    metrics_listener: str | None = setting(
        "metrics.listener",
        STRING,
        None,
        None,
        "HOST:PORT where Prometheus finds the broker's figures and its clients' metrics, under /metrics (ottla's own "
        "key). Not given or empty: nowhere.",
    )
    telemetry_max_bytes: int = setting(
        "telemetry.max.bytes",
        INT,
        1_048_576,
        at_least(1),
        "Most bytes of metrics that a client may push at once, packed; unpacked it may be four times as much.",
    )

    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable", BOOLEAN, True, None, "Whether asking for an unknown topic creates it."
    )
    default_replication_factor: int = setting(
        "default.replication.factor", INT, 1, at_least(1), "Replicas of topics that are created without a number."
    )
    delete_topic_enable: bool = setting("delete.topic.enable", BOOLEAN, True, None, "Whether topics can be deleted.")
    num_partitions: int = setting(
        "num.partitions", INT, 1, at_least(1), "Partitions of topics that are created without a number."
    )

    log_dirs: list[str] = setting(
        "log.dirs", LIST, ["data"], FILLED, "Directories that hold the data.", twins=("log.dir",)
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60_000,
        at_least(0),
        "How often the point up to which logs are on disk is written down.",
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        at_least(0),
        "How often the first offsets of logs are written down.",
    )
    log_initial_task_delay_ms: int = setting(
        "log.initial.task.delay.ms",
        LONG,
        30_000,
        at_least(0),
        "Wait after the start before retention and checkpoints of logs begin.",
    )
    log_cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        at_least(0),
        "How often logs to be compacted are looked for.",
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134_217_728,
        at_least(0),
        "Memory for the keys of logs that are being compacted, 24 bytes each, over all of log.cleaner.threads.",
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_enable: bool = setting(
        "log.cleaner.enable",
        BOOLEAN,
        True,
        None,
        "Whether topics with cleanup.policy compact are compacted.",
        aliases=("log.cleaner.enabled",),
    )
    log_cleaner_io_buffer_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        between(0.01, 1),
        "How full the memory for keys may become; fuller holds more, and takes longer to search.",
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size: int = setting(
        "log.cleaner.io.buffer.size",
        INT,
        524_288,
        at_least(0),
        "Memory for reading and writing when compacting, over all of log.cleaner.threads.",
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        sys.float_info.max,
        ABOVE_ZERO,
        "Bytes that compaction reads and writes per second, on average, over all of log.cleaner.threads.",
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_threads: int = setting(
        "log.cleaner.threads",
        INT,
        1,
        at_least(1),
        "Logs compacted at the same time, each in a process of its own.",
        dynamic=CLUSTER_WIDE,
    )
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        at_least(1),
        "How often old segments are looked for.",
    )
    num_recovery_threads_per_data_dir: int = setting(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        at_least(1),
        "Partitions recovered at the same time, per data directory.",
        dynamic=CLUSTER_WIDE,
    )
    num_replica_alter_log_dirs_threads: int = setting(
        "num.replica.alter.log.dirs.threads",
        INT,
        0,
        at_least(0),
        "Partitions copied at the same time when they move between log.dirs; 0: as many as there are directories.",
    )
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        at_least(1),
        "How often forgotten producers are looked for.",
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        at_least(1),
        "Silence after which a partition forgets an idempotent producer.",
        dynamic=CLUSTER_WIDE,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        MAX_LONG,
        at_least(1),
        "Bytes that are copied per second when partitions move between log.dirs, over all of them.",
        dynamic=PER_BROKER,
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        at_least(1),
        "How often high watermarks are written down.",
    )

    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        at_least(0),
        "How long an empty group waits for more members before its first rebalance.",
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        at_least(1),
        "Longest session timeout that a member may ask for.",
    )
    group_max_size: int = setting("group.max.size", INT, MAX_INT, at_least(1), "Most members of one group.")
    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms", INT, 6000, at_least(1), "Shortest session timeout that a member may ask for."
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes", INT, 4096, at_least(0), "Longest text that may stand beside a committed offset."
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        at_least(1),
        "How long an answer waits until what groups have written is committed.",
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", LONG, 600_000, at_least(1), "How often old offsets are looked for."
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        INT,
        10_080,
        at_least(1),
        "Age at which committed offsets are dropped. Those of a group with members have none; others age from when "
        "the group lost its last member, or from the commit where it never had one.",
    )
    offsets_topic_compression_codec: int = setting(
        "offsets.topic.compression.codec",
        INT,
        0,
        between(0, 4),
        "Codec of what groups write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        INT,
        50,
        at_least(1),
        "Partitions of the offsets topic.",
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        SHORT,
        1,
        at_least(1),
        "Replicas of the offsets topic.",
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        INT,
        104_857_600,
        at_least(1),
        "Segment size of the offsets topic.",
    )
    transaction_state_log_min_isr: int = setting(
        "transaction.state.log.min.isr",
        INT,
        1,
        at_least(1),
        "In-sync replicas that the transaction topic needs.",
    )
    transaction_state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions",
        INT,
        50,
        at_least(1),
        "Partitions of the transaction topic.",
    )
    transaction_state_log_replication_factor: int = setting(
        "transaction.state.log.replication.factor",
        SHORT,
        1,
        at_least(1),
        "Replicas of the transaction topic.",
    )
    transaction_state_log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        at_least(1),
        "Segment size of the transaction topic.",
    )
    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        at_least(1),
        "Longest time that a producer may ask for before its transaction is aborted.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        at_least(1),
        "How often transactions are looked for that have been open for too long.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        at_least(1),
        "How often transactional ids are looked for that nobody uses any more.",
    )
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        at_least(1),
        "Time after which a transactional id is forgotten if nobody has used it.",
    )

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.given: dict[str, str] = {}  # texts that it was started with, under their keys of today
        self.overrides_for_all: dict[str, str] = {}  # set at run time, for all brokers of the cluster
        self.overrides: dict[str, str] = {}  # set at run time, for this broker
        self.warnings: list[str] = []
        self._started_with: dict[str, Any] = {}  # by attribute, what an override stands before
        self._derive()

    def _derive(self) -> None:
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        # what to bind; what to advertise, by listener name; connections allowed per address
        self.endpoints: tuple[Listener, ...] = parse_listeners(self.listeners, protocols)
        self.advertised: dict[str, Listener] = parse_advertised(
            self.advertised_listeners or [], self.endpoints, protocols
        )
        self.metrics_address: tuple[str, int] | None = (
            parse_address("metrics.listener", self.metrics_listener) if self.metrics_listener else None
        )
        self.connection_limits: dict[str, int] = _parse_limits(self.max_connections_per_ip_overrides)
        if self.max_connections_per_ip == 0 and not self.connection_limits:
            raise ConfigError(
                "max.connections.per.ip", "0", "nobody could connect without max.connections.per.ip.overrides"
            )
        least, most = self.log_cleaner_min_compaction_lag_ms, self.log_cleaner_max_compaction_lag_ms
        if least > most:
            raise ConfigError(
                "log.cleaner.min.compaction.lag.ms",
                str(least),
                f"must not exceed log.cleaner.max.compaction.lag.ms={most}",
            )
        check_group_defaults(self)

    def with_overrides(self, values: Mapping[str, Any], for_all: dict[str, str], own: dict[str, str]) -> BrokerConfig:
        """A copy in which `values` (by attribute) stand before what the broker was started with."""
        copy = self.replace(**{**self._started_with, **values})
        copy._started_with = {
            attribute: self._started_with.get(attribute, self.__dict__[attribute]) for attribute in values
        }
        copy.overrides_for_all, copy.overrides = for_all, own
        copy._derive()
        return copy

    def become(self, other: BrokerConfig) -> set[str]:
        """Take over another's values in place, so that all who hold this object go by them. Returns what differs."""
        changed = {
            known.key
            for known in self.settings.values()
            if self.__dict__[known.attribute] != other.__dict__[known.attribute]
        }
        self.__dict__.update(other.__dict__)
        return changed

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """The configuration that these keys and values make."""
        texts = dict(properties)
        warnings = _old_listener_keys(texts)
        given, rest = canonical(cls.names, texts)
        config = cls(**{cls.settings[key].attribute: cls.settings[key].parse(text) for key, text in given.items()})
        config.given = given
        for key in given:
            if cls.settings[key].no_effect:
                warnings.append(f"{key} has no effect in ottla: {cls.settings[key].no_effect}")
        if rest:
            warnings += _unknown(rest)
        config.warnings = warnings
        return config


def _unknown(rest: Mapping[str, str]) -> list[str]:
    """What to say of keys that no definition has."""
    from ottla.config.without_effect import reason_of  # a table that a clean configuration does not need

    told = []
    for key in rest:
        reason = reason_of(key)
        if reason:
            told.append(f"{key} has no effect in ottla: {reason}")
            continue
        like = nearest(key, list(BrokerConfig.names))
        told.append(f"unknown key {key}" + (f" (did you mean {like}?)" if like else ""))
    return told


def _old_listener_keys(texts: dict[str, str]) -> list[str]:
    """Turns the listener keys of 0.8 into those of today, where these are not given; warns of those left over."""
    warnings = []
    for old_host, old_port, key in (
        ("host.name", "port", "listeners"),
        ("advertised.host.name", "advertised.port", "advertised.listeners"),
    ):
        host, port = texts.pop(old_host, None), texts.pop(old_port, None)
        if host is None and port is None:
            continue
        if key in texts:
            warnings.append(f"{old_host} and {old_port} have no effect in ottla: {key} is given")
        else:
            host = (host or "").strip()
            host = f"[{host}]" if ":" in host else host
            texts[key] = f"PLAINTEXT://{host}:{(port or '9092').strip()}"
    return warnings


def _parse_limits(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: HOST:COUNT, …"""
    found = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        host, _, count = part.rpartition(":")
        if not host or not (count.isascii() and count.isdigit()) or int(count) > MAX_INT:
            raise ConfigError("max.connections.per.ip.overrides", text, "must be HOST:COUNT, …")
        found[host.strip("[]")] = int(count)
    return found
