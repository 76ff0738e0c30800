"""docs/left-out.md is kept true: what it says is not there, is not there."""

import re
from pathlib import Path

from ottla.broker import handlers  # noqa: F401  every handler registers itself
from ottla.broker.dispatch import ROUTES
from ottla.protocol.apis import API_KEYS

PAGE = (Path(__file__).parents[2] / "docs" / "left-out.md").read_text()
WHAT = " ".join(re.findall(r"^\| (.+?) \|", PAGE, re.MULTILINE))  # the first columns


def test_requests_that_are_left_out_are_not_served() -> None:
    named = [word for word in re.findall(r"\w+", WHAT) if word in API_KEYS]
    assert "KRaft" in WHAT
    assert [name for name in named if API_KEYS[name] in ROUTES] == []
