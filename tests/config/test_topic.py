import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError, UnknownKey
from ottla.config.topic import TopicConfig, topic_warnings, validate_topic_overrides

# Kafka 4.3's defaults, from its own definitions (A3 CT1-CT21, B CFT-01..15)
DEFAULTS = """
cleanup.policy=delete compression.gzip.level=-1 compression.lz4.level=9 compression.type=producer
compression.zstd.level=3 delete.retention.ms=86400000 file.delete.delay.ms=60000 flush.messages=9223372036854775807
flush.ms=9223372036854775807 follower.replication.throttled.replicas= index.interval.bytes=4096
leader.replication.throttled.replicas= max.compaction.lag.ms=9223372036854775807 max.message.bytes=1048588
message.timestamp.after.max.ms=3600000 message.timestamp.before.max.ms=9223372036854775807
message.timestamp.type=CreateTime min.cleanable.dirty.ratio=0.5 min.compaction.lag.ms=0 min.insync.replicas=1
preallocate=false retention.bytes=-1 retention.ms=604800000 segment.bytes=1073741824 segment.index.bytes=10485760
segment.jitter.ms=0 segment.ms=604800000 unclean.leader.election.enable=false
"""


def test_a_topic_without_overrides_has_kafkas_defaults() -> None:
    config = TopicConfig.resolve({}, BrokerConfig.from_properties({}))
    shown = {key: known.show(config.value(key)) for key, known in TopicConfig.settings.items()}
    assert shown == dict(pair.split("=") for pair in DEFAULTS.split())
    assert shown == {key: known.show(known.default) for key, known in TopicConfig.settings.items()}


def test_every_broker_setting_behind_a_topic_setting_exists() -> None:
    for known in TopicConfig.settings.values():
        for name, _ in known.synonyms:
            assert name in BrokerConfig.settings


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1"}, -1),
    ],
)
def test_the_smallest_unit_of_retention_wins(broker: dict[str, str], expected: int) -> None:
    assert TopicConfig.resolve({}, BrokerConfig.from_properties(broker)).retention_ms == expected


def test_an_override_wins_over_the_broker_and_the_broker_over_the_default() -> None:
    broker = BrokerConfig.from_properties({"message.max.bytes": "100", "log.roll.hours": "2"})
    config = TopicConfig.resolve({"max.message.bytes": "10"}, broker)
    assert config.max_message_bytes == 10
    assert config.segment_ms == 7_200_000
    assert TopicConfig.resolve({}, broker).max_message_bytes == 100


def test_a_topic_is_compacted_when_its_policy_says_so() -> None:
    broker = BrokerConfig.from_properties({})
    assert not TopicConfig.resolve({}, broker).compacted
    assert TopicConfig.resolve({"cleanup.policy": "compact, delete"}, broker).compacted


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "Compact"),
        ("retention.ms", "-2"),
        ("retention.ms", "abc"),
        ("compression.gzip.level", "0"),
        ("compression.type", "none"),
        ("preallocate", "yes"),
        ("leader.replication.throttled.replicas", "x"),
        ("leader.replication.throttled.replicas", "1:2:3"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("segment.bytes", "13"),
        ("segment.ms", "0"),
        ("min.insync.replicas", ""),
        ("min.insync.replicas", "0"),
        ("max.message.bytes", "-1"),
    ],
)
def test_an_illegal_override_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_overrides({key: value})
    assert caught.value.key == key
    assert caught.value.value == value


def test_legal_overrides_come_back_as_they_are_to_be_stored() -> None:
    for key, value in [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,delete"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("retention.bytes", "-7"),
        ("compression.gzip.level", "-1"),
    ]:
        assert validate_topic_overrides({key: value}) == {key: value}


def test_an_override_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"retention\.ms without a value"):
        validate_topic_overrides({"retention.ms": None})


def test_an_unknown_override_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(UnknownKey, match=r"unknown key retention\.msec \(did you mean retention\.ms\?\)"):
        validate_topic_overrides({"retention.msec": "1"})


def test_compaction_lags_must_not_cross() -> None:
    with pytest.raises(ConfigError, match=r"must not exceed max\.compaction\.lag\.ms=5"):
        validate_topic_overrides({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_keys_that_kafka_dropped_are_taken() -> None:
    assert validate_topic_overrides({"message.timestamp.difference.max.ms": "5"}) == {
        "message.timestamp.before.max.ms": "5",
        "message.timestamp.after.max.ms": "5",
    }
    assert validate_topic_overrides(
        {"message.timestamp.difference.max.ms": "5", "message.timestamp.after.max.ms": "7"}
    ) == {"message.timestamp.before.max.ms": "5", "message.timestamp.after.max.ms": "7"}
    assert validate_topic_overrides({"message.format.version": "2.8", "max.message.size": "1"}) == {
        "max.message.bytes": "1"
    }


def test_overrides_without_effect_are_told() -> None:
    overrides = {"message.format.version": "2.8", "segment.bytes": "100", "unclean.leader.election.enable": "true"}
    assert topic_warnings(overrides) == [
        "message.format.version has no effect in ottla: records are always stored in format 2",
        "unclean.leader.election.enable has no effect in ottla: partitions have one replica so far",
    ]
