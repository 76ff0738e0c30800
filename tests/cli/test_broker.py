"""`ottla broker` and `ottla up` as processes."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OTTLA = [sys.executable, "-m", "ottla.cli"]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are gone after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def start(started: list[subprocess.Popen[str]], cwd: Path, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*OTTLA, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    started.append(process)
    return process


def ready_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if " ready on " in line:
            return line
    raise AssertionError(process.communicate()[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_says_when_it_is_ready_and_stops_cleanly_when_told(
    started: list[subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nnum.io.threads=8\n")
    process = start(started, tmp_path, "broker", str(file), "--override", "log.dirs=there")
    assert ready_line(process).startswith("ottla broker 7 ready on 127.0.0.1:")
    assert (tmp_path / "there").is_dir()
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert "WARNING ottla.cli.broker: num.io.threads has no effect in ottla: one event loop" in errors
    assert "Traceback" not in errors


def test_a_broker_runs_without_spark(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    words = ["broker", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", f"log.dirs={tmp_path / 'data'}"]
    pipelines = {"ottla.pipelines", "ottla.streams", "pandas", "pyarrow", "pyspark"}
    code = f"import sys; from ottla.cli.main import run; run({words}); print(*{pipelines} & set(sys.modules))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started.append(process)
    ready_line(process)
    process.terminate()
    said, errors = process.communicate(timeout=30)
    assert said == "\n", errors


def test_a_second_broker_on_the_same_data_is_refused(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    words = ("broker", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs=d")
    ready_line(start(started, tmp_path, *words))
    second = start(started, tmp_path, *words)
    _, errors = second.communicate(timeout=30)
    assert second.returncode == 1
    assert errors.splitlines()[-1].startswith("ottla: ")
    assert "Traceback" not in errors


def test_a_port_that_is_taken_is_one_line_and_status_1(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(started, tmp_path, "broker", "--override", f"listeners=PLAINTEXT://127.0.0.1:{port}")
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("ottla: ")
    assert str(port) in errors.splitlines()[-1]
    assert "Traceback" not in errors


def test_up_says_what_runs_where_and_what_to_try_next(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    words = ("--override", "listeners=PLAINTEXT://localhost:0", "--override", "metrics.listener=localhost:0")
    process = start(started, tmp_path, "up", *words)
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if " ready on " in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert "broker   localhost:" in said
    assert "kcat -b localhost:" in said
    assert "metrics  http://localhost:0/metrics, for Prometheus" in said
    assert re.search(r"metrics are at http://localhost:\d+/metrics", errors)
    assert (tmp_path / "data").is_dir()


def test_a_metrics_port_that_is_taken_is_named(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ("--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", f"metrics.listener={where}")
        process = start(started, tmp_path, "broker", *words)
        _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert errors.splitlines()[-1] == f"ottla: cannot listen on {where} (metrics.listener): Address already in use"


@pytest.mark.parametrize("address", ["9404", "localhost:99999", "::1:9404", "http://localhost:9404"])
def test_a_metrics_address_that_is_none_is_refused(
    started: list[subprocess.Popen[str]], tmp_path: Path, address: str
) -> None:
    process = start(started, tmp_path, "broker", "--override", f"metrics.listener={address}")
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert errors.splitlines()[-1].endswith(
        f"metrics.listener={address} is illegal: must be HOST:PORT (an IPv6 host in brackets)"
    )
