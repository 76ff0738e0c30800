"""examples/README.md lists the programs that there are."""

import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARED = {"arguments.py", "running.py"}  # parts of the others


def test_every_example_has_its_row_and_every_row_its_example() -> None:
    listed = re.findall(r"^\| \[(\S+)\]\((\S+)\) \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert all(name == Path(link).name for name, link in listed)
    programs = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    assert sorted(link for _, link in listed) == sorted(programs - SHARED)
