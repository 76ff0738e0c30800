"""Transactions on raw frames: its requests and versions, right and wrong (support/scenes)."""

from __future__ import annotations

from typing import Any

import pytest

from support.scenes.every import SCENES, Scene, play


@pytest.mark.parametrize("scene", SCENES, ids=[scene.__name__ for scene in SCENES])
def test_the_broker_answers_as_kafka_does(served_transactions: Any, scene: Scene) -> None:
    said = play(scene, served_transactions.wire())
    assert said
    assert [(one.line, one.heard) for one in said if one.heard != one.ottla] == []
