"""Changes of topics' settings: what they come to, and what is refused."""

from __future__ import annotations

import re

import pytest

from ottla.config.broker import BrokerConfig
from ottla.controller.configs import TOPIC, ConfigChange, ConfigEntry, Operation, plan_alteration
from ottla.controller.image import ClusterImage, PartitionImage, TopicImage
from ottla.protocol.errors import ErrorCode

SET, DELETE, APPEND, SUBTRACT = Operation
BROKER = BrokerConfig.from_properties({"log.cleanup.policy": "compact"})


def image(**configs: dict[str, str]) -> ClusterImage:
    cluster = ClusterImage()
    for name, overrides in configs.items():
        cluster.add(TopicImage(name, name.encode().ljust(16), [PartitionImage(0, 0, [0], [0])], overrides))
    return cluster


def change(
    now: dict[str, str], *entries: tuple[int, str, str | None], replace: bool = False
) -> dict[str, str] | tuple[ErrorCode, str]:
    """The overrides afterwards, or why they stay."""
    asked = ConfigChange(
        TOPIC, "t", [ConfigEntry(name, value, operation) for operation, name, value in entries], replace
    )
    (result,) = plan_alteration([asked], image(t=now), BROKER)
    if result.overrides is not None:
        assert result.error_code == ErrorCode.NONE
        return result.overrides
    return result.error_code, str(result.message)


@pytest.mark.parametrize(
    ("now", "entries", "afterwards"),
    [
        ({}, [(SET, "retention.ms", "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [(SET, "retention.ms", "6")], {"retention.ms": "6"}),
        (
            {"retention.ms": "5", "segment.ms": "7"},
            [(DELETE, "retention.ms", None), (SET, "segment.ms", "8")],
            {"segment.ms": "8"},
        ),
        ({}, [(DELETE, "retention.ms", "whatever")], {}),
        ({"cleanup.policy": "delete"}, [(APPEND, "cleanup.policy", "compact")], {"cleanup.policy": "delete,compact"}),
        ({}, [(APPEND, "cleanup.policy", "delete")], {"cleanup.policy": "compact,delete"}),  # to the broker's default
        ({"cleanup.policy": "delete"}, [(APPEND, "cleanup.policy", "delete")], {"cleanup.policy": "delete"}),
        (
            {"cleanup.policy": "compact,delete"},
            [(SUBTRACT, "cleanup.policy", "compact")],
            {"cleanup.policy": "delete"},
        ),
        ({"cleanup.policy": "delete"}, [(SUBTRACT, "cleanup.policy", "delete,compact")], {"cleanup.policy": ""}),
        ({}, [(SET, "max.message.size", "9")], {"max.message.bytes": "9"}),  # an older name
        ({"max.message.bytes": "9"}, [(DELETE, "max.message.size", None)], {}),
        (
            {},
            [(SET, "message.timestamp.difference.max.ms", "9")],
            {"message.timestamp.before.max.ms": "9", "message.timestamp.after.max.ms": "9"},
        ),
        ({"segment.ms": "7"}, [(SET, "message.format.version", "2.8")], {"segment.ms": "7"}),
        ({"segment.ms": "7"}, [], {"segment.ms": "7"}),
    ],
)
def test_single_settings_change_and_the_others_stay(now, entries, afterwards):
    assert change(now, *entries) == afterwards


def test_a_replacement_leaves_nothing_of_what_was_there():
    assert change({"segment.ms": "7"}, (SET, "retention.ms", "5"), replace=True) == {"retention.ms": "5"}
    assert change({"segment.ms": "7"}, replace=True) == {}


@pytest.mark.parametrize(
    ("entries", "code", "words"),
    [
        ([(SET, "retention.ms", "soon")], ErrorCode.INVALID_CONFIG, "retention.ms.*soon.*at least -1"),
        ([(SET, "retention.mss", "5")], ErrorCode.INVALID_CONFIG, "retention.mss.*retention.ms"),
        ([(DELETE, "nonsense", None)], ErrorCode.INVALID_CONFIG, "nonsense"),
        ([(APPEND, "cleanup.policy", "burn")], ErrorCode.INVALID_CONFIG, "cleanup.policy.*burn"),
        ([(APPEND, "retention.ms", "5")], ErrorCode.INVALID_CONFIG, "only lists"),
        ([(SUBTRACT, "retention.ms", "5")], ErrorCode.INVALID_CONFIG, "only lists"),
        ([(SET, "retention.ms", None)], ErrorCode.INVALID_REQUEST, "retention.ms has no value"),
        ([(SET, "retention.ms", "1"), (DELETE, "retention.ms", None)], ErrorCode.INVALID_REQUEST, "named 2 times"),
        ([(4, "retention.ms", "1")], ErrorCode.INVALID_REQUEST, "no operation 4"),
        ([(-1, "retention.ms", "1")], ErrorCode.INVALID_REQUEST, "no operation -1"),
        ([(SET, "min.compaction.lag.ms", "9")], ErrorCode.INVALID_CONFIG, "must not exceed max.compaction.lag.ms=5"),
        ([(SET, "segment.ms", "5"), (SET, "segment.bytes", "x")], ErrorCode.INVALID_CONFIG, "segment.bytes"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(entries, code, words):
    refused, message = change({"max.compaction.lag.ms": "5"}, *entries)
    assert refused == code
    assert re.search(words, message)


def test_each_topic_is_judged_by_itself():
    entry = [ConfigEntry("retention.ms", "5")]
    asked = [
        ConfigChange(TOPIC, "good", entry),
        ConfigChange(TOPIC, "unknown", entry),
        ConfigChange(TOPIC, "not a name", entry),
        ConfigChange(TOPIC, "twice", entry),
        ConfigChange(TOPIC, "twice", entry),
    ]
    results = list(plan_alteration(asked, image(good={}, twice={}), BROKER))
    assert [(result.name, result.error_code) for result in results] == [
        ("good", ErrorCode.NONE),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("not a name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]


def test_a_value_that_is_too_long_is_refused_in_few_words():
    key, half = "leader.replication.throttled.replicas", ",".join(f"{index}:1" for index in range(1000, 4000))
    assert len(half) < 32767 < 2 * len(half)
    assert change({key: half}, (APPEND, key, "1:1")) == {key: half + ",1:1"}
    refused, message = change({key: half}, (APPEND, key, half.replace(":1", ":2")))
    assert refused == ErrorCode.INVALID_CONFIG
    assert "at most 32767 characters" in message
    assert len(message) < 500


def test_a_key_that_is_too_long_is_refused_in_few_words():
    refused, message = change({}, (SET, "k" * 1_000_000, "1"))
    assert (refused, len(message) < 500) == (ErrorCode.INVALID_CONFIG, True)
