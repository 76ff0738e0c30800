"""UpdateFeatures and what ApiVersions shows of it, through the wire."""

from __future__ import annotations

import pytest

from ottla.controller.features import SUPPORTED, Feature
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

Update = messages.UpdateFeaturesRequest.FeatureUpdate


@pytest.fixture(autouse=True)
def release(monkeypatch):
    """A release with two features, one of them on."""
    for name in list(SUPPORTED):
        monkeypatch.delitem(SUPPORTED, name)
    monkeypatch.setitem(SUPPORTED, "group.version", Feature(1, 1))
    monkeypatch.setitem(SUPPORTED, "transaction.version", Feature(2, 0))


def shown(wire, version=4):
    asked = messages.ApiVersionsRequest(client_software_name="c", client_software_version="1")
    reply = wire.call(asked, version)
    return (
        {one.name: (one.min_version, one.max_version) for one in reply.supported_features},
        {one.name: (one.min_version_level, one.max_version_level) for one in reply.finalized_features},
        reply.finalized_features_epoch,
    )


def update(wire, *updates, version=2, **options):
    return wire.call(messages.UpdateFeaturesRequest(feature_updates=list(updates), **options), version)


def test_clients_are_told_what_is_supported_and_what_holds(wire):
    assert shown(wire) == ({"group.version": (0, 1), "transaction.version": (0, 2)}, {"group.version": (1, 1)}, 0)
    assert shown(wire, 3) == ({}, {"group.version": (1, 1)}, 0)  # a range from 0 is beyond clients of that version


@pytest.mark.parametrize("version", range(3))
def test_levels_that_are_set_hold_at_once_and_after_a_restart(served, wire, version):
    reply = update(wire, Update(feature="transaction.version", max_version_level=2), version=version)
    assert (reply.error_code, reply.error_message) == (0, None)
    assert [(one.feature, one.error_code) for one in reply.results] == [("transaction.version", 0)] * (version < 2)
    assert shown(wire)[1:] == ({"group.version": (1, 1), "transaction.version": (2, 2)}, 1)
    down = (
        Update(feature="group.version", max_version_level=0, allow_downgrade=True)
        if version == 0
        else Update(feature="group.version", max_version_level=0, upgrade_type=2)
    )
    assert update(wire, down, version=version).error_code == 0
    served.restart()
    assert shown(served.wire())[1:] == ({"transaction.version": (2, 2)}, 2)


@pytest.mark.parametrize("version", range(3))
def test_one_bad_update_changes_nothing(wire, version):
    before = shown(wire)
    good = Update(feature="transaction.version", max_version_level=2)
    reply = update(wire, good, Update(feature="metadata.version", max_version_level=25), version=version)
    assert (ErrorCode(reply.error_code), reply.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert "metadata.version" in reply.error_message
    lower = Update(feature="group.version", max_version_level=0)
    assert update(wire, lower, version=version).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert shown(wire) == before


@pytest.mark.parametrize("version", [1, 2])
def test_validate_only_answers_and_changes_nothing(wire, version):
    before = shown(wire)
    good = Update(feature="transaction.version", max_version_level=2)
    assert update(wire, good, version=version, validate_only=True).error_code == 0
    assert shown(wire) == before


def test_an_update_past_its_timeout_says_so(wire, until):
    reply = update(wire, Update(feature="transaction.version", max_version_level=2), timeout_ms=0)
    assert reply.error_code == ErrorCode.REQUEST_TIMED_OUT
    until(lambda: shown(wire)[2] == 1)
