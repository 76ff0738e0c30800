"""`ottla streams run` as its users start it: a process of its own, with a Spark of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE = 240.0
APPLICATION = """
    from greeting import greet  # a file beside this one
    from ottla.streams import App, Text

    app = App("greeter", bootstrap="127.0.0.1:1")
    app.stream("gr-names", value=Text).map_values(lambda name: greet(name), value=Text).to("gr-greetings")

    if __name__ == "__main__":
        app.run()
"""


@contextmanager
def running(tmp_path: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    place = tmp_path / "scratch"
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "ottla.cli", "streams", "run", *words]
    environment = {**os.environ, "TMPDIR": str(place)}
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=stderr
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "greeting.py").write_text("def greet(name):\n    return f'Hello {name}'\n")
    path = tmp_path / "files" / "application.py"
    path.write_text(textwrap.dedent(APPLICATION))
    return path


def await_record(bootstrap: str, topic: str, process: subprocess.Popen[str], tmp_path: Path) -> str:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                return str(message.value(), "utf-8")
        raise AssertionError(f"no record came; status {process.poll()}\n{(tmp_path / 'stderr').read_text()}")
    finally:
        consumer.close()


@pytest.mark.slow
@pytest.mark.usefixtures("spark_can_start")
def test_an_application_runs_until_ctrl_c(file: Path, tmp_path: Path, ottla_shared_broker) -> None:
    bootstrap = ottla_shared_broker.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("gr-names", 1)])["gr-names"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("gr-names", "Anna")
    assert producer.flush(30) == 0
    words = ["--bootstrap-server", bootstrap, "--master", "local[1]", "--set", "spark.sql.shuffle.partitions=1"]
    words += ["--application-id", "greeter-v2", "--output-suffix", "-v2", "--state-dir", "state"]
    with running(tmp_path, str(file), *words) as process:
        assert await_record(bootstrap, "gr-greetings-v2", process, tmp_path) == "Hello Anna"
        # a second one is told so, before it starts Spark
        again = [sys.executable, "-m", "ottla.cli", "streams", "run", str(file), *words]
        second = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        assert second.returncode == 1
        assert "ottla: application greeter-v2 runs already, with its state in state/greeter-v2" in second.stderr
        until = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < until:  # an impatient user
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        assert process.returncode == 0
    said = (tmp_path / "stderr").read_text().splitlines()
    assert "greeter-v2 runs; Ctrl-C stops it" in said
    assert [line for line in said if not line.startswith("greeter-v2 ")] == []  # the others tell its progress
    assert sorted(path.name for path in (tmp_path / "state" / "greeter-v2").iterdir()) == ["checkpoints", "lock"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_broker_that_is_not_there_is_one_line(file: Path, tmp_path: Path) -> None:
    with running(tmp_path, str(file)) as process:
        process.wait(PATIENCE)
    said = (tmp_path / "stderr").read_text()
    assert process.returncode == 1
    assert said.count("\n") == 1
    assert said.startswith("ottla: no broker answers at 127.0.0.1:1")


def test_a_topic_that_is_not_there_is_one_line(file: Path, tmp_path: Path, ottla_shared_broker) -> None:
    file.write_text(file.read_text().replace("gr-names", "gr-nobodys"))
    with running(tmp_path, str(file), "--bootstrap-server", ottla_shared_broker.bootstrap) as process:
        process.wait(PATIENCE)
    said = (tmp_path / "stderr").read_text()
    assert process.returncode == 1
    assert said.count("\n") == 1
    assert said.startswith("ottla: there is no topic gr-nobodys at ")


def test_a_column_that_is_not_there_is_one_line(file: Path, tmp_path: Path, ottla_shared_broker) -> None:
    file.write_text(
        "from ottla.streams import App\napp = App('columns')\napp.stream('gr-in').filter('nonsense').to('o')\n"
    )
    admin = AdminClient({"bootstrap.servers": ottla_shared_broker.bootstrap})
    admin.create_topics([NewTopic("gr-in", 1)])["gr-in"].result(30)
    with running(tmp_path, str(file), "--bootstrap-server", ottla_shared_broker.bootstrap) as process:
        process.wait(PATIENCE)
    said = (tmp_path / "stderr").read_text()
    assert process.returncode == 1
    assert said == "ottla: filter-1: there is no column nonsense; there are offset, headers, key, topic, value\n"
