"""The Spark session of a test run: one for each process of pytest, started when the first test asks for it.

A test that uses it says `@pytest.mark.xdist_group("spark")`, or `pytestmark = pytest.mark.xdist_group("spark")` for its
module: such tests share one worker, and so one session. Where Spark cannot be had they are skipped; with CI set they
fail instead. Nothing of Spark is imported before a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = 2


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, with two slots and two partitions after a shuffle. What a test sets in its `conf` it sets back."""
    try:
        from ottla.pipelines.errors import PipelineError
        from ottla.pipelines.session import Settings, close, session
    except ImportError as error:
        _without(str(error))
    try:
        extra = {"spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS)}
        made = session(Settings(master="local[2]", name="tests", quick=True, extra=extra))
    except PipelineError as error:
        _without(str(error))
    yield made
    close()


@pytest.fixture(scope="session")
def spark_can_start() -> None:
    """For tests that start Spark in a process of their own."""
    try:
        from ottla.pipelines import jars
        from ottla.pipelines.errors import PipelineError
        from ottla.pipelines.requirements import java, spark_home
    except ImportError as error:
        _without(str(error))
    try:
        java()
        spark_home()
        jars.all_jars()
    except PipelineError as error:
        _without(str(error))


def _without(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"in CI the tests with Spark must run: {reason}")
    pytest.skip(reason)
