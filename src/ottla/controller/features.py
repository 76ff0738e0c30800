"""Features with levels (KIP-584): which this release supports, which hold, and what becomes of requests to change them.

Clients read the levels that hold from ApiVersions. What they look at:

    group.version         1: the new consumer groups (KIP-848)
    transaction.version   2: producers' epochs rise with every transaction (KIP-890)

A feature is offered as soon as `SUPPORTED` gives it a level above 0; level 0 is always legal and means "off", so it is
not listed among those that hold. Where nobody has said otherwise the default level holds. `metadata.version` and
`kraft.version` are levels of KRaft's own log, which ottla does not have.

A request changes all of its features or none. Refused, with INVALID_UPDATE_VERSION and Kafka's words, are:

    an unknown feature, or a level that is not supported, or below 0
    a lower level without leave to downgrade, or a higher one with it
    an unknown kind of change

A feature named twice is INVALID_REQUEST. Nothing here loses data when it is downgraded, so a safe downgrade is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode


class Feature(NamedTuple):
    """Levels from 0 to `highest` are supported; `default` holds where nothing else was asked for."""

    highest: int
    default: int


GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"

SUPPORTED: dict[str, Feature] = {
    GROUP_VERSION: Feature(1, 1),
    TRANSACTION_VERSION: Feature(2, 2),
}


class UpgradeType(IntEnum):
    """With the numbers of UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    feature: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


class FeaturesResult(NamedTuple):
    """`levels` is all that was asked for, ever; None if the request was refused."""

    error_code: ErrorCode
    message: str | None = None
    levels: dict[str, int] | None = None


def offered(supported: Mapping[str, Feature]) -> dict[str, Feature]:
    return {name: feature for name, feature in supported.items() if feature.highest > 0}


def finalized(asked_for: Mapping[str, int], supported: Mapping[str, Feature]) -> dict[str, int]:
    """The levels that hold, of features that are on. What another release was asked for is cut to what this one has."""
    levels = {
        name: min(asked_for.get(name, feature.default), feature.highest) for name, feature in offered(supported).items()
    }
    return {name: level for name, level in levels.items() if level > 0}


def plan_update(
    updates: Sequence[FeatureUpdate], asked_for: Mapping[str, int], supported: Mapping[str, Feature]
) -> FeaturesResult:
    """`asked_for`: what earlier requests have set."""
    for name, times in Counter(update.feature for update in updates).items():
        if times > 1:
            return FeaturesResult(ErrorCode.INVALID_REQUEST, f"feature {name} is named {times} times")
    current = finalized(asked_for, supported)
    for update in updates:
        fault = _fault(update, current.get(update.feature, 0), offered(supported).get(update.feature))
        if fault is not None:
            return FeaturesResult(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.feature}. {fault}",
            )
    return FeaturesResult(ErrorCode.NONE, None, {**asked_for, **{one.feature: one.level for one in updates}})


def _fault(update: FeatureUpdate, current: int, feature: Feature | None) -> str | None:
    if update.upgrade_type not in set(UpgradeType):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return "This cluster does not support the feature."
    if update.level > feature.highest:
        return f"This cluster supports versions 0 to {feature.highest}."
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None
