from pathlib import Path

from ottla.config import docs
from ottla.config.broker import BrokerConfig
from ottla.config.definitions import ConfigType
from ottla.config.describe import ConfigSource, Synonym, describe_broker, describe_topic
from ottla.config.topic import TopicConfig


def test_a_topics_rows_say_where_each_value_comes_from() -> None:
    broker = BrokerConfig.from_properties({"log.retention.minutes": "1", "message.max.bytes": "100"})
    rows = {row.name: row for row in describe_topic({"max.message.bytes": " 10 "}, broker)}
    assert rows.keys() == TopicConfig.settings.keys()
    size = rows["max.message.bytes"]
    assert (size.value, size.source, size.type) == ("10", ConfigSource.DYNAMIC_TOPIC, ConfigType.INT)
    assert size.synonyms == [
        Synonym("max.message.bytes", "10", ConfigSource.DYNAMIC_TOPIC),
        Synonym("message.max.bytes", "100", ConfigSource.STATIC_BROKER),
        Synonym("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    ]
    kept = rows["retention.ms"]
    assert (kept.value, kept.source) == ("60000", ConfigSource.STATIC_BROKER)
    assert kept.synonyms == [
        Synonym("log.retention.minutes", "1", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    assert rows["segment.bytes"].source == ConfigSource.DEFAULT
    assert rows["leader.replication.throttled.replicas"].synonyms == []


def test_a_brokers_rows_have_both_names_of_twins_and_no_aliases() -> None:
    rows = {row.name: row for row in describe_broker(BrokerConfig.from_properties({"broker.id": "7"}))}
    for name in ("broker.id", "node.id"):
        assert (rows[name].value, rows[name].source, rows[name].read_only) == ("7", ConfigSource.STATIC_BROKER, True)
    assert "max.message.size" not in rows
    assert not rows["message.max.bytes"].read_only
    assert rows["log.retention.ms"].value is None
    assert rows["log.cleanup.policy"].value == "delete"


def test_only_the_named_settings_are_described_and_unknown_names_have_no_row() -> None:
    broker = BrokerConfig.from_properties({})
    assert [row.name for row in describe_broker(broker, ["num.partitions", "nonsense"])] == ["num.partitions"]
    assert [row.name for row in describe_topic({}, broker, ["retention.ms"])] == ["retention.ms"]
    assert describe_topic({}, broker, []) == []


def test_the_reference_page_is_in_step_with_the_definitions() -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert page.read_text() == docs.render(), "run: python -m ottla.config.docs"
