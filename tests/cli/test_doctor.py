"""`ottla doctor` on the host that runs the tests, whatever it is like."""

import json
import re
from pathlib import Path

import pytest

from ottla.cli import main


def test_this_host_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main.run(["doctor", "--log-dirs", str(tmp_path), "--output", "json"])
    found = json.loads(capsys.readouterr().out)
    assert status == (1 if any(one["level"] == "problem" for one in found) else 0)
    assert {one["level"] for one in found} <= {"ok", "advice", "problem"}
    assert f"{tmp_path} free space" in [one["check"] for one in found]
    assert list(found[0]) == ["level", "check", "found", "advised", "why", "change"]


def test_a_problem_is_told_by_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["doctor", "--log-dirs", "/proc/data"]) == 1
    assert "problem  /proc/data free space: 0 B of 0 B (0%)" in capsys.readouterr().out


def test_the_lines_end_with_a_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["doctor", "--log-dirs", str(tmp_path)])
    assert re.fullmatch(r"\d+ ok, \d+ advice, \d+ problem", capsys.readouterr().out.splitlines()[-1])


def test_on_a_terminal_there_is_a_table_and_the_commands_follow(tmp_path: Path, capsys) -> None:
    main.run(["doctor", "--log-dirs", str(tmp_path), "--output", "table"])
    assert "advised" in capsys.readouterr().out


def test_the_brokers_file_names_directories_and_listeners(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=a, b\nadvertised.listeners=PLAINTEXT://localhost:9092\n")
    main.run(["doctor", "server.properties"])
    said = capsys.readouterr().out
    for line in ("b disk: the same file system as", "advice   advertised listener: PLAINTEXT://localhost:9092"):
        assert line in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--log-dirs", ","], "--log-dirs names no directory"),
        (["/nonexistent/server.properties"], "cannot read /nonexistent/server.properties"),
    ],
)
def test_what_cannot_be_looked_at_is_told(words: list[str], told: str, capsys) -> None:
    assert main.run(["doctor", *words]) == 2
    assert told in capsys.readouterr().err
