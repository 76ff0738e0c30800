"""docs/tools.md lists the commands that there are, under all their names."""

import re
from pathlib import Path

from ottla.cli.common.kafka_names import SCRIPTS
from ottla.cli.main import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()


def _row(name: str, line: str) -> str:
    scripts = ", ".join(f"`{script}`" for script, command in SCRIPTS.items() if command.split()[0] == name)
    return f"| `ottla {name}` | {scripts} | {line} |"


def test_the_table_has_every_command_with_kafkas_names_for_it() -> None:
    expected = [_row(name, line) for name, line in COMMANDS.items()]
    assert re.findall(r"^\| `ottla .*", PAGE, re.MULTILINE) == expected, "\n" + "\n".join(expected)
