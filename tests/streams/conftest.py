"""Queries of Spark that a test feeds by hand: for operators and state, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.frames import Feed, Run, Running


@pytest.fixture
def feed(spark: SparkSession) -> Feed:
    return Feed(spark)


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Run]:
    """Starts queries. They end with the test."""
    running: list[Running] = []

    def start(frame: Callable[[], DataFrame], mode: str = "append") -> Running:
        running.append(Running(frame, tmp_path / f"checkpoint{len(running)}", mode))
        return running[-1]

    yield start
    for query in running:
        query.query.stop()
