"""One story of a real Apache Kafka (support/kafka_story.py), told once for all tests here, whichever worker asks first.

Where there is no Java or the jars cannot be fetched, the tests are skipped; with CI set they fail instead.
"""

from __future__ import annotations

import fcntl
import os
import pickle

import pytest

from support.apache_kafka import reason_to_skip
from support.kafka_story import Story, tell


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    reason = reason_to_skip()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(f"in CI the tests with Apache Kafka must run: {reason}")
        pytest.skip(reason)
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    told = shared / "kafka-story"
    with (shared / "kafka-story.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            told.write_bytes(pickle.dumps(tell(tmp_path_factory.mktemp("kafka"))))
    story: Story = pickle.loads(told.read_bytes())
    return story
