"""No setting is parsed and ignored: each is read by some part, or says that it has no effect."""

import re
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import Setting
from ottla.config.group import GroupConfig
from ottla.config.log_defaults import LogDefaults
from ottla.config.topic import TopicConfig

ROOT = Path(__file__).parents[2] / "src" / "ottla"


@pytest.fixture(scope="module")
def read() -> set[str]:
    """Every attribute that the code reads. Within the config package, only what the
    broker's listeners are made from, and the bounds that groups are held to."""
    found: set[str] = set()
    for file in ROOT.rglob("*.py"):
        if file.parent.name != "config" or file.name in ("broker.py", "group.py"):
            found.update(re.findall(r"\.([a-z]+(?:_[a-z0-9]+)*)\b", file.read_text()))
    return found


SETTINGS = [
    *(known for key, known in BrokerConfig.settings.items() if key not in LogDefaults.settings),
    *TopicConfig.settings.values(),
    *GroupConfig.settings.values(),
]


@pytest.mark.parametrize("known", SETTINGS, ids=lambda known: known.key)
def test_a_setting_is_read_unless_it_says_that_it_has_no_effect(known: Setting, read: set[str]) -> None:
    behind = [group for group in GroupConfig.settings.values() if (known.key, 1) in group.synonyms]
    if not known.no_effect:
        assert known.attribute in read or any(group.attribute in read for group in behind), (
            f"nothing reads {known.key}: give it an effect, or say no_effect"
        )


@pytest.mark.parametrize("known", SETTINGS, ids=lambda known: known.key)
def test_a_setting_that_is_read_does_not_claim_to_have_no_effect(known: Setting, read: set[str]) -> None:
    if known.no_effect:
        assert known.attribute not in read, f"{known.key} is read now: take its no_effect away"


def test_a_brokers_default_has_an_effect_when_the_topics_or_groups_setting_has() -> None:
    for topic in TopicConfig.settings.values():
        for name, _ in topic.synonyms:
            assert bool(LogDefaults.settings[name].no_effect) == bool(topic.no_effect), name
    for group in GroupConfig.settings.values():
        for name, _ in group.synonyms:
            assert bool(BrokerConfig.settings[name].no_effect) == bool(group.no_effect), name
