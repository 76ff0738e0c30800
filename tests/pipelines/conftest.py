from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.testing import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.topic_streams import Place


@pytest.fixture
def place(spark: SparkSession, ottla_shared_broker: BrokerProcess, tmp_path: Path) -> Iterator[Place]:
    from support.topic_streams import Place

    made = Place(spark, ottla_shared_broker, tmp_path)
    yield made
    for query in made.queries:
        query.stop()
