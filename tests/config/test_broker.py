import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.without_effect import KNOWN_WITHOUT_EFFECT


def test_a_broker_needs_no_configuration() -> None:
    config = BrokerConfig.from_properties({})
    assert (config.node_id, config.log_dirs, config.num_partitions) == (0, ["data"], 1)
    assert config.endpoints[0].port == 9092
    assert config.auto_create_topics_enable
    assert config.warnings == []


def test_values_are_typed() -> None:
    config = BrokerConfig.from_properties(
        {"log.dirs": "/a, /b", "num.partitions": "3", "auto.create.topics.enable": "FALSE", "log.retention.ms": "-1"}
    )
    assert config.log_dirs == ["/a", "/b"]
    assert config.num_partitions == 3
    assert config.auto_create_topics_enable is False
    assert config.log_retention_ms == -1
    assert config.given["log.retention.ms"] == "-1"


@pytest.mark.parametrize(
    ("key", "value", "legal"),
    [
        ("num.partitions", "0", "a whole number of 32 bits, at least 1"),
        ("num.partitions", "three", "a whole number of 32 bits"),
        ("node.id", "-1", "at least 0"),
        ("log.dirs", "", "at least one directory"),
        ("log.dirs", "/a,,/b", "at least one directory"),
        ("auto.create.topics.enable", "1", "true or false"),
        ("log.cleanup.policy", "compress", "any of compact, delete"),
        ("compression.type", "none", "one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("log.retention.hours", "0", "at least 1, or -1 for no limit"),
        ("log.retention.ms", "0", "at least 1, or -1 for no limit"),
        ("log.cleaner.min.cleanable.ratio", "2", "from 0 to 1"),
        ("socket.request.max.bytes", "2147483648", "32 bits"),
        ("max.connections.per.ip.overrides", "10.0.0.1", "HOST:COUNT"),
        ("max.connections.per.ip.overrides", "10.0.0.1:many", "HOST:COUNT"),
        ("cluster.id", "a b", "letters, digits"),
        ("fetch.max.bytes", "1023", "at least 1024"),
    ],
)
def test_an_illegal_value_is_refused_with_key_value_and_what_is_legal(key: str, value: str, legal: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({key: value})
    assert (caught.value.key, caught.value.value) == (key, value)
    assert f"{key}={value} is illegal: " in str(caught.value)
    assert legal in str(caught.value)


def test_an_unknown_key_is_warned_about_with_the_nearest_known_one() -> None:
    config = BrokerConfig.from_properties({"num.partition": "3", "frobnicate": "1"})
    assert config.warnings == ["unknown key num.partition (did you mean num.partitions?)", "unknown key frobnicate"]
    assert config.num_partitions == 1


def test_a_key_of_kafkas_without_effect_is_warned_about_with_the_reason() -> None:
    config = BrokerConfig.from_properties(
        {"num.io.threads": "8", "ssl.keystore.location": "x", "unclean.leader.election.enable": "true"}
    )
    assert sorted(config.warnings) == [
        "num.io.threads has no effect in ottla: one event loop serves a broker; run more brokers to use more cores",
        "ssl.keystore.location has no effect in ottla: listeners with TLS or SASL are not served yet",
        "unclean.leader.election.enable has no effect in ottla: partitions have one replica so far",
    ]


def test_no_key_is_both_defined_and_without_effect() -> None:
    assert not KNOWN_WITHOUT_EFFECT.keys() & BrokerConfig.names.keys()


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("broker.id", "7", "node_id", 7),
        ("log.dir", "/a", "log_dirs", ["/a"]),
        ("max.message.size", "5", "message_max_bytes", 5),
        ("log.segment.ms", "5", "log_roll_ms", 5),
    ],
)
def test_other_names_of_a_setting_are_taken(name: str, value: str, attribute: str, expected: object) -> None:
    assert getattr(BrokerConfig.from_properties({name: value}), attribute) == expected


def test_two_names_of_one_setting_must_agree() -> None:
    assert BrokerConfig.from_properties({"broker.id": "1", "node.id": "1"}).node_id == 1
    with pytest.raises(ConfigError, match=r"node\.id=2 is illegal: the same setting is given as broker\.id=1"):
        BrokerConfig.from_properties({"broker.id": "1", "node.id": "2"})


def test_connection_limits_are_kept_by_address() -> None:
    config = BrokerConfig.from_properties({"max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:7"})
    assert config.connection_limits == {"10.0.0.1": 5, "::1": 7}
