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
from support.apache_kafka import ApacheKafka, reason_to_skip
from support.illegal_requests import ROWS, faults, prepare
from support.illegal_requests import directory as data_directory
from support.kafka_story import Story, tell
from support.scenes.every import SCENES, Said
from support.scenes.every import play as play_scene
from support.wire import Wire

T = TypeVar("T")


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """One story of a real Apache Kafka (support/kafka_story.py)."""
    return _once(tmp_path_factory, "kafka-story", tell)


@pytest.fixture(scope="session")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """What Kafka's AdminClient saw of an ottla broker (support/admin_scenario.py)."""
    return _once(tmp_path_factory, "admin-scenario", play)


@pytest.fixture(scope="session")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> list[set[int]]:
    """What a real Kafka says to requests that ask for what cannot be (support/illegal_requests.py): codes by row."""
    return _once(tmp_path_factory, "kafka-refusals", _ask_kafka)


def _ask_kafka(directory: Path) -> list[set[int]]:
    kafka = ApacheKafka(directory)
    try:
        kafka.start()
        wire = Wire("127.0.0.1", kafka.port)
        prepare(wire)
        where = data_directory(wire)
        asked = [row for row in ROWS if row.ask_kafka]
        codes = [{int(code) for code, _ in faults(wire.call(row.on(where), row.version))} for row in asked]
        wire.close()
    finally:
        kafka.kill()
    return codes


@pytest.fixture(scope="session")
def transaction_scenes(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """What a real Kafka says to transactional producers (support/scenes)."""
    return _once(tmp_path_factory, "kafka-transactions", _play_to_kafka)


def _play_to_kafka(directory: Path) -> list[Said]:
    kafka = ApacheKafka(directory)
    said: list[Said] = []
    try:
        kafka.start()
        for scene in SCENES:
            wire = Wire("127.0.0.1", kafka.port)
            said += play_scene(scene, wire)
            wire.close()
    finally:
        kafka.kill()
    return said


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
