import subprocess
import sys
from pathlib import Path

import pytest

from ottla import __version__
from ottla.cli import main


def run(*words: str) -> int:
    return main.run(list(words))


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("version") == 0
    assert capsys.readouterr().out == f"ottla {__version__}\n"


def test_help_lists_every_command_with_the_line_that_its_own_help_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    listed = capsys.readouterr().out
    for name, line in main.COMMANDS.items():
        assert name in listed
        assert main.ottla.get_command(None, name).get_short_help_str(100) == line  # type: ignore[arg-type, union-attr]


def test_help_imports_no_command() -> None:
    code = "import sys; from ottla.cli.main import run; run(['--help']); print('ottla.cli.broker' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.endswith("False\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["brokr"], "no command 'brokr'; did you mean broker? (ottla --help says more)"),
        (["frobnicate"], "no command 'frobnicate' (ottla --help says more)"),
        (["broker", "--overide", "a=b"], "--overide"),
        (["broker", "--override", "num.partitions"], "--override 'num.partitions' must be KEY=VALUE"),
        (["broker", "--override", "=1"], "--override '=1' must be KEY=VALUE"),
        (["broker", "--log-format", "xml"], "'xml' is not one of 'text', 'json'"),
        (["broker", "--override", "num.partitions=0"], "num.partitions=0 is illegal: must be a whole number"),
        (["broker", "--override", "listeners=SSL://:1"], "only PLAINTEXT is served so far"),
        (["broker", "a", "b"], "b"),
        (["broker", "/nonexistent/server.properties"], "cannot read /nonexistent/server.properties: No such file"),
        (["up", "--override", "node.id=x"], "node.id=x is illegal"),
    ],
)
def test_what_is_asked_for_wrongly_gets_one_line_and_status_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith("ottla: ")
    assert error.count("\n") == 1
    assert told in error


def test_an_error_in_a_file_names_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nlog.dirs=\\u12\n")
    assert run("broker", str(file)) == 2
    assert capsys.readouterr().err == f"ottla: {file}, line 2: \\u needs four hexadecimal digits, not '12'\n"


def test_no_command_at_all_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    assert "Commands:" in capsys.readouterr().err
