import json
import logging
import re
from collections.abc import Iterator

import pytest

from ottla.cli import logs


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def say(form: str, level: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    logs.set_up(form, level)
    log = logging.getLogger("ottla.some.place")
    log.debug("quiet")
    log.info("topic %s", "a\nb\r")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("it failed")
    log.warning("half a pair: %s", "\ud83d")
    return capsys.readouterr().err.splitlines()


def test_text_has_one_line_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    lines = say("text", "info", capsys)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO ottla\.some\.place: topic a\\nb\\r", lines[0])
    assert " ERROR ottla.some.place: it failed\\nTraceback" in lines[1]
    assert lines[1].endswith("ValueError: broken")
    assert lines[2].endswith(" WARNING ottla.some.place: half a pair: ?")
    assert len(lines) == 3


def test_json_has_one_object_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    events = [json.loads(line) for line in say("json", "info", capsys)]
    assert [event["level"] for event in events] == ["INFO", "ERROR", "WARNING"]
    assert events[0]["message"] == "topic a\nb\r"
    assert events[0]["logger"] == "ottla.some.place"
    assert events[1]["exception"].endswith("ValueError: broken")
    assert events[2]["message"] == "half a pair: ?"


def test_the_level_is_the_least_that_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(say("json", "debug", capsys)) == 4
    assert len(say("json", "error", capsys)) == 1
