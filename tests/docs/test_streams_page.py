"""The programs on the page about streams are what the DSL takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "streams.md").read_text()
PROGRAMS = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def test_" not in block]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_page_is_a_topology_that_can_be_planned(program: str) -> None:
    names: dict[str, object] = {}
    exec(program, names)
    app = names["app"]
    assert app.plan().queries  # type: ignore[attr-defined]
    assert app.describe("mermaid").startswith("flowchart")  # type: ignore[attr-defined]
