"""What takes a Java program long, done once for all tests here, whichever worker asks first.

Where there is no Java or the jars cannot be fetched, the tests are skipped; with CI set they fail instead.
"""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from support.admin_scenario import Scenario, play
from support.apache_kafka import reason_to_skip
from support.kafka_story import Story, tell

T = TypeVar("T")


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """One story of a real Apache Kafka (support/kafka_story.py)."""
    return _once(tmp_path_factory, "kafka-story", tell)


@pytest.fixture(scope="session")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """What Kafka's AdminClient saw of an ottla broker (support/admin_scenario.py)."""
    return _once(tmp_path_factory, "admin-scenario", play)


def _once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], T]) -> T:
    reason = reason_to_skip()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(f"in CI the tests with Apache Kafka must run: {reason}")
        pytest.skip(reason)
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    made = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_bytes(pickle.dumps(make(tmp_path_factory.mktemp("kafka"))))
    found: T = pickle.loads(made.read_bytes())
    return found
