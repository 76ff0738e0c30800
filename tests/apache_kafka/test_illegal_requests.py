"""Apache Kafka refuses what ottla refuses, with the same errors (support/illegal_requests.py)."""

from __future__ import annotations

from support.illegal_requests import ROWS


def test_kafka_gives_the_errors_that_ottla_gives(refusals: list[set[int]]) -> None:
    expected = [row for row in ROWS if row.ask_kafka]
    differing = [
        (row, codes)
        for row, codes in zip(expected, refusals, strict=True)
        if codes != ({row.code} if row.kafka is None else {row.kafka} - {0})
    ]
    assert not differing
