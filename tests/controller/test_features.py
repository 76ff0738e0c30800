"""Decisions about levels of features."""

from __future__ import annotations

import pytest

from ottla.controller.features import Feature, FeatureUpdate, finalized, plan_update
from ottla.protocol.errors import ErrorCode

SUPPORTED = {"on": Feature(3, 2), "off": Feature(1, 0), "not.yet": Feature(0, 0)}
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def test_defaults_hold_until_something_else_is_asked_for_and_level_0_is_not_listed():
    assert finalized({}, SUPPORTED) == {"on": 2}
    assert finalized({"on": 0, "off": 1}, SUPPORTED) == {"off": 1}
    assert finalized({"on": 9, "of.another.release": 1}, SUPPORTED) == {"on": 3}


@pytest.mark.parametrize(
    ("update", "level"),
    [
        (FeatureUpdate("on", 3), 3),
        (FeatureUpdate("on", 2), 2),  # as it is
        (FeatureUpdate("on", 2, SAFE), 2),
        (FeatureUpdate("on", 1, SAFE), 1),
        (FeatureUpdate("on", 0, UNSAFE), 0),
        (FeatureUpdate("off", 1), 1),
    ],
)
def test_what_is_granted(update, level):
    result = plan_update([update], {"off": 0}, SUPPORTED)
    assert (result.error_code, result.message) == (ErrorCode.NONE, None)
    assert result.levels == {"off": 0, update.feature: level}


@pytest.mark.parametrize(
    ("update", "says"),
    [
        (FeatureUpdate("on", 4), "0 to 3"),
        (FeatureUpdate("on", -1), "less than 0"),
        (FeatureUpdate("on", 1), "Can't downgrade the version of this feature without"),
        (FeatureUpdate("on", 3, SAFE), "Can't downgrade to a newer version."),
        (FeatureUpdate("on", 3, UNSAFE), "Can't downgrade to a newer version."),
        (FeatureUpdate("on", 3, 0), "does not support the given upgrade type"),
        (FeatureUpdate("on", 3, 4), "does not support the given upgrade type"),
        (FeatureUpdate("not.yet", 1), "does not support the feature"),
        (FeatureUpdate("metadata.version", 25), "does not support the feature"),
        (FeatureUpdate("", 0), "does not support the feature"),
    ],
)
def test_one_bad_update_refuses_all(update, says):
    result = plan_update([FeatureUpdate("off", 1), update], {}, SUPPORTED)
    assert (result.error_code, result.levels) == (ErrorCode.INVALID_UPDATE_VERSION, None)
    assert f"Invalid update version {update.level} for feature {update.feature}." in result.message
    assert says in result.message


def test_a_feature_named_twice_is_refused():
    result = plan_update([FeatureUpdate("on", 3), FeatureUpdate("on", 2)], {}, SUPPORTED)
    assert (result.error_code, result.levels) == (ErrorCode.INVALID_REQUEST, None)
