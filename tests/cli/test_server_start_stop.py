"""`server-start` and `server-stop` with real brokers, told apart from others on this machine by their ids."""

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.cli.common.processes import running_brokers

OTTLA = [sys.executable, "-m", "ottla.cli"]
SERVER_START = [*OTTLA, "server-start"]
SAMPLE = Path(__file__).parents[2] / "config/server.properties"


@pytest.fixture
def node_id() -> Iterator[int]:
    """An id that no other broker on this machine has; its broker is gone after the test."""
    number = random.SystemRandom().randrange(10**6, 10**9)
    yield number
    for one in running_brokers():
        if one.node_id == number:
            os.kill(one.pid, signal.SIGKILL)


@pytest.fixture
def properties(tmp_path: Path, node_id: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id={node_id}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    return file


def test_a_daemon_is_started_told_of_and_stopped(properties: Path, node_id: int, tmp_path: Path, capsys) -> None:
    started = subprocess.run([*SERVER_START, "-daemon", "server.properties"], capture_output=True, text=True)
    match = re.fullmatch(
        rf"ottla broker {node_id} ready on 127\.0\.0\.1:\d+ \(pid (\d+)\); its log is (.*)\n", started.stdout
    )
    assert match, started
    assert match[2] == str(tmp_path / "logs/kafkaServer.out")
    assert "broker" in Path(match[2]).read_text()
    assert os.getsid(int(match[1])) == int(match[1])

    again = subprocess.run([*SERVER_START, "-daemon", "server.properties"], capture_output=True, text=True)
    assert again.returncode == 1
    assert re.fullmatch(r"ottla: the broker did not start: .* in use by another broker.*\n", again.stderr)

    assert main.run_by_kafka_name("kafka-server-stop.sh", [f"--node-id={node_id}"]) == 0
    assert capsys.readouterr() == ("", "")
    assert node_id not in [one.node_id for one in running_brokers()]
    assert main.run_by_kafka_name("kafka-server-stop.sh", ["--node-id", str(node_id)]) == 1
    assert capsys.readouterr().out == "No kafka server to stop\n"


def test_in_the_foreground_it_is_the_broker_itself(properties: Path, node_id: int, capsys) -> None:
    words = [*SERVER_START, str(properties), "--override", "log.dirs=elsewhere"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"ottla broker {node_id} ready on ")
        assert main.run(["server-stop", "--node-id", str(node_id)]) == 0
        assert capsys.readouterr().err == f"stopped broker {node_id} (pid {process.pid})\n"
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_sample_of_a_property_file_is_one(properties: Path, node_id: int, tmp_path: Path) -> None:
    theirs = f"broker.id={node_id}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
    properties.write_text(re.sub(r"^(broker\.id|listeners)=.*\n", "", SAMPLE.read_text(), flags=re.MULTILINE) + theirs)
    started = subprocess.run([*SERVER_START, "-daemon", "server.properties"], capture_output=True, text=True)
    assert started.returncode == 0, started
    assert "WARNING" not in (tmp_path / "logs/kafkaServer.out").read_text()
    assert (tmp_path / "data/meta.properties").exists()


def test_the_log_of_a_daemon_goes_where_log_dir_says(
    properties: Path, node_id: int, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "there"))
    by_class = [*OTTLA, "run-class", "-daemon", "kafka.Kafka", "server.properties"]
    subprocess.run(by_class, check=True, capture_output=True)
    assert (tmp_path / "there/kafkaServer.out").exists()
    monkeypatch.setenv("SIGNAL", "KILL")
    assert main.run(["server-stop", "--node-id", str(node_id)]) == 0
    monkeypatch.setenv("LOG_DIR", str(properties))
    failed = subprocess.run([*SERVER_START, "-daemon", "server.properties"], capture_output=True, text=True)
    assert failed.returncode == 1
    assert "LOG_DIR names another directory" in failed.stderr


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["server-start"], 2, "FILE.properties"),
        (["server-start", "-daemon", "missing.properties"], 2, "cannot read missing.properties: No such file"),
        (["server-start", "-daemon", "server.properties", "--override", "x"], 2, "must be KEY=VALUE"),
        (["server-start", "-daemon", "server.properties", "--override", "num.partitions=0"], 2, "num.partitions=0"),
        (["server-stop", "--node-id", "one"], 2, "'one' is not a valid integer"),
    ],
)
def test_what_cannot_be_started_is_told_at_once(
    properties: Path, words: list[str], status: int, told: str, capsys
) -> None:
    assert main.run(words) == status
    assert told in capsys.readouterr().err


def test_a_role_that_no_process_has_stops_none(capsys) -> None:
    assert main.run_by_kafka_name("kafka-server-stop", ["--process-role=controller"]) == 1
    assert capsys.readouterr().out == "No kafka server to stop\n"


def test_a_signal_that_is_none_is_refused(monkeypatch, capsys) -> None:
    monkeypatch.setenv("SIGNAL", "NONSENSE")
    assert main.run(["server-stop", "--node-id", "1"]) == 2
    assert "SIGNAL=NONSENSE" in capsys.readouterr().err
