"""Overrides of a broker's settings: which layer wins, what may be overridden where, what is disregarded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import (
    CLUSTER_WIDE,
    PER_BROKER,
    READ_ONLY,
    ConfigType,
    Configuration,
    Legal,
    Setting,
)
from ottla.config.describe import ConfigSource, describe_broker, describe_topic
from ottla.config.dynamic import Unchangeable, brokers_key, changeable, overlaid, usable
from ottla.config.errors import ConfigError, UnknownKey
from ottla.config.topic import TopicConfig

VALUES = {  # some settings that may change, with texts of legal values
    "message.max.bytes": ["1000", "2000", "3000"],
    "log.retention.ms": ["1", "-1", "1000"],
    "log.cleaner.threads": ["1", "2", "3"],
    "compression.type": ["zstd", "producer", "gzip"],
    "log.cleanup.policy": ["compact", "delete", "compact,delete"],
    "max.connections.per.ip.overrides": ["", "a:1", "b:2"],
}
FILE_ONLY = {"log.retention.hours": ["1", "200"], "num.partitions": ["4", "5"]}


def layers(values: dict[str, list[str]]) -> Any:
    pairs = [st.tuples(st.just(key), st.sampled_from(texts)) for key, texts in values.items()]
    return st.lists(st.one_of(pairs)).map(dict)


@given(layers(VALUES | FILE_ONLY), st.lists(st.tuples(layers(VALUES), layers(VALUES)), min_size=1))
def test_the_nearest_layer_wins_whatever_was_set_before(file: dict[str, str], history: list[Any]) -> None:
    config = BrokerConfig.from_properties(file)
    started = config.replace()
    for for_all, own in history:
        before = config.replace()
        changed = config.become(overlaid(config, for_all, own))
        merged = {**file, **for_all, **own}
        for key, known in BrokerConfig.settings.items():
            wanted = known.parse(merged[key]) if key in merged else known.default
            assert config.value(key) == wanted, key
            assert (key in changed) == (before.value(key) != wanted), key
        rows = {row.name: row for row in describe_broker(config)}
        for key in VALUES:
            sources = [
                source
                for layer, source in (
                    (own, ConfigSource.DYNAMIC_BROKER),
                    (for_all, ConfigSource.DYNAMIC_DEFAULT_BROKER),
                    (file, ConfigSource.STATIC_BROKER),
                )
                if key in layer
            ]
            assert [one.source for one in rows[key].synonyms if one.source != ConfigSource.DEFAULT][
                : len(sources)
            ] == sources
            assert rows[key].source == (sources or [ConfigSource.DEFAULT])[0]
    config.become(overlaid(config, {}, {}))
    assert config == started


def test_what_is_made_from_settings_follows_them() -> None:
    config = BrokerConfig.from_properties({"max.connections.per.ip.overrides": "a:1"})
    config.become(overlaid(config, {"max.connections.per.ip.overrides": "b:2"}, {}))
    assert config.connection_limits == {"b": 2}
    config.become(overlaid(config, {}, {}))
    assert config.connection_limits == {"a": 1}


def test_a_smaller_unit_set_at_run_time_beats_a_larger_one_in_the_file() -> None:
    config = BrokerConfig.from_properties({"log.retention.minutes": "5"})
    config.become(overlaid(config, {"log.retention.ms": "77"}, {}))
    assert TopicConfig.resolve({}, config).retention_ms == 77
    (row,) = describe_topic({}, config, ["retention.ms"])
    assert [tuple(one) for one in row.synonyms] == [
        ("log.retention.ms", "77", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.minutes", "5", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_overrides_that_cannot_hold_together_leave_everything_as_it_was() -> None:
    config = BrokerConfig.from_properties({"log.cleaner.min.compaction.lag.ms": "50"})
    with pytest.raises(ConfigError, match=r"must not exceed log\.cleaner\.max\.compaction\.lag\.ms=5"):
        overlaid(config, {"log.cleaner.max.compaction.lag.ms": "5"}, {})
    assert config.overrides_for_all == {}
    assert config.log_cleaner_max_compaction_lag_ms == 2**63 - 1


@pytest.mark.parametrize("known", BrokerConfig.settings.values(), ids=lambda known: known.key)
def test_every_setting_says_by_itself_where_it_may_be_changed(known: Setting) -> None:
    for name in known.names:
        for for_all in (False, True):
            allowed = not known.no_effect and (
                known.dynamic == CLUSTER_WIDE or (known.dynamic == PER_BROKER and not for_all)
            )
            if allowed:
                assert changeable(name, for_all=for_all) is known
            else:
                with pytest.raises(Unchangeable, match=name):
                    changeable(name, for_all=for_all)


# Kafka 4.3.1's dynamic settings, but those of TLS, SASL, tiered storage, share groups and Streams groups.
DYNAMIC_IN_KAFKA = """
    background.threads compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
    log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
    log.cleaner.threads log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
    log.index.size.max.bytes log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
    log.message.timestamp.type log.preallocate log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms
    log.segment.bytes log.segment.delete.delay.ms max.connections max.connections.per.ip
    max.connections.per.ip.overrides message.max.bytes min.insync.replicas num.recovery.threads.per.data.dir
    producer.id.expiration.ms
"""


@pytest.mark.parametrize("key", DYNAMIC_IN_KAFKA.split())
def test_what_kafka_changes_at_run_time_changes_here(key: str) -> None:
    assert changeable(key, for_all=True).key == key


@pytest.mark.parametrize("key", ["listeners", "listener.security.protocol.map", "num.io.threads", "ssl.key.password"])
def test_what_would_change_nothing_is_refused(key: str) -> None:
    with pytest.raises(Unchangeable, match=key):
        changeable(key, for_all=False)
    assert brokers_key(key) == key  # it may be taken back


def test_an_unknown_key_is_neither_set_nor_taken_back() -> None:
    for ask in (brokers_key, lambda name: changeable(name, for_all=True)):
        with pytest.raises(UnknownKey, match=r"did you mean message\.max\.bytes"):
            ask("message.max.byte")


def test_of_stored_overrides_those_that_cannot_hold_are_told_and_dropped() -> None:
    stored = {"message.max.bytes": "5", "log.retention.ms": "x", "num.partitions": "3", "from.the.future": "1"}
    good, told = usable(stored, for_all=True)
    assert good == {"message.max.bytes": "5"}
    assert [key for key in stored if any(key in line for line in told)] == list(stored)[1:]


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    never = Legal("something else", lambda _: False)

    class Secretive(Configuration):
        word: str | None = Setting(
            "word",
            ConfigType.PASSWORD,
            None,
            never,
            "A secret.",
            twins=(),
            aliases=(),
            synonyms=(),
            dynamic=PER_BROKER,
            no_effect="",
        )  # type: ignore[assignment]

    with pytest.raises(ConfigError) as caught:
        Secretive.settings["word"].parse("sesame")
    assert "sesame" not in str(caught.value)
    assert "sesame" not in Secretive(word="sesame").shown()
    # a broker that had such a setting
    monkeypatch.setitem(BrokerConfig.settings, "word", Secretive.settings["word"])
    monkeypatch.setattr(Secretive.settings["word"], "legal", None)
    config = BrokerConfig()
    config.__dict__["word"] = None
    config.become(overlaid(config, {}, {"word": "sesame"}))
    (row,) = [row for row in describe_broker(config) if row.name == "word"]
    assert (config.value("word"), row.value, row.sensitive) == ("sesame", None, True)
    assert [tuple(one) for one in row.synonyms] == [("word", None, ConfigSource.DYNAMIC_BROKER)]


def test_read_only_rows_are_those_that_cannot_be_changed() -> None:
    for row in describe_broker(BrokerConfig()):
        known = BrokerConfig.names[row.name]
        assert row.read_only == (known.dynamic == READ_ONLY or bool(known.no_effect)), row.name
