"""Apache Kafka says to transactional producers what ottla says (support/transaction_scenes.py)."""

from __future__ import annotations

from support.transaction_scenes import Said


def test_kafka_answers_as_the_scenes_say(transaction_scenes: list[Said]) -> None:
    assert transaction_scenes
    assert [one for one in transaction_scenes if one.heard != one.kafka] == []
