"""docs/streams.md shows what the tools show."""

import re
from pathlib import Path

from ottla.cli.streaming.loading import loaded

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "streams.md").read_text()


def test_the_picture_of_the_word_count_is_what_describe_draws() -> None:
    (drawn,) = re.findall(r"^```mermaid\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    assert drawn == loaded(str(ROOT / "examples" / "streams" / "word_count.py")).describe("mermaid")
