"""Apache Kafka says to transactional producers what ottla says (support/scenes)."""

from __future__ import annotations

from support.scenes.every import Said


def test_kafka_answers_as_the_scenes_say(transaction_scenes: list[Said]) -> None:
    assert transaction_scenes
    assert [one for one in transaction_scenes if one.heard != one.kafka] == []
