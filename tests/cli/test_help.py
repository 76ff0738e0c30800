"""What holds for the help of every command."""

import subprocess
import sys

import click
import pytest

from ottla.cli import main

# What a tool has no use for before it works: it starts quickly because it does not import them.
HEAVY = (
    "confluent_kafka",
    "kazoo",
    "ottla.broker",
    "ottla.pipelines",
    "ottla.streams",
    "pandas",
    "pyarrow",
    "pyspark",
    "rich",
    "starlette",
    "uvicorn",
    "uvloop",
)


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_option_of_a_command_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([name, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: ottla {name} ")
    command = main.ottla.get_command(click.Context(main.ottla), name)
    assert command is not None
    assert command.help
    unexplained = [
        param.name for param in command.params if isinstance(param, click.Option) and not (param.help or param.hidden)
    ]
    assert unexplained == []


def test_no_command_imports_what_it_does_not_need_yet() -> None:
    code = f"""
import sys
from ottla.cli import main
for name in main.COMMANDS:
    main.run([name, "--help"])
    found = sorted(set({HEAVY!r}) & set(sys.modules))
    if found:
        print(name, "imports", *found, file=sys.stderr)
        sys.exit(1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
