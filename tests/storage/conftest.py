"""Logs in a temporary directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.log import Log
from support.scribe import Scribe, topic_config


@pytest.fixture
def config_of() -> Callable[..., TopicConfig]:
    return topic_config


@pytest.fixture
def new_log(tmp_path: Path) -> Iterator[Callable[..., Scribe]]:
    """Makes a log `t-0`; called again, opens it again (`clean=…`), after a proper close or not."""
    made: list[Log] = []

    def make(*, clean: bool = True, recovery_point: int = 0, start_offset: int = 0, **overrides: object) -> Scribe:
        log = Log(tmp_path / "t-0", topic_config(**overrides))
        if (tmp_path / "t-0").exists():
            log.open(clean=clean, recovery_point=recovery_point, start_offset=start_offset)
        else:
            log.create()
        made.append(log)
        return Scribe(log)

    yield make
    for log in made:
        log.abandon()
