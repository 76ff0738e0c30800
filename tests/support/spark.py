"""The Spark session of a test run: one for each process of pytest, started when the first test asks for it.

Tests are skipped where there is no Java, or no Maven to fetch Spark's connector; with CI set they fail instead. What
goes wrong after that is an error always: classes of ours that do not compile, a session that does not start. Nothing of
Spark is imported before a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams.testing import Driver

Streams = Callable[..., "Driver"]
PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, with two slots and two partitions after a shuffle. What a test sets in its `conf` it sets back."""
    from ottla.pipelines.session import Settings, close, session

    _check_machine()
    yield session(Settings(master="local[2]", name="tests", quick=True, extra={PARTITIONS: "2"}))
    close()


@pytest.fixture
def ottla_streams(spark: SparkSession, ottla_streams: Streams) -> Iterator[Streams]:
    """ottla's own fixture, on the session of all others; it has one partition there, which is set back."""
    before = str(spark.conf.get(PARTITIONS))
    yield ottla_streams
    spark.conf.set(PARTITIONS, before)


@pytest.fixture(scope="session")
def spark_can_start() -> None:
    """For tests that start Spark in a process of their own."""
    from ottla.pipelines import jars

    _check_machine()
    jars.own()  # else they would each wait for the compiler


def _check_machine() -> None:
    from ottla.pipelines import jars
    from ottla.pipelines.errors import PipelineError
    from ottla.pipelines.requirements import java

    try:
        java()
        jars.connector()
    except PipelineError as error:
        if os.environ.get("CI"):
            pytest.fail(f"in CI the tests with Spark must run: {error}")
        pytest.skip(str(error))
