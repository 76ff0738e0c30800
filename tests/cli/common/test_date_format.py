import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click
import pytest

from ottla.cli.common.date_format import DEFAULT, formatter

AT = datetime(2016, 3, 5, 13, 7, 9, 42_000, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (DEFAULT, "2016-03-05 13:07:09:042"),
        ("yyyy/MM/dd HH-mm-ss", "2016/03/05 13-07-09"),
        ("d.M.yy h:m:s a", "5.3.16 1:7:9 PM"),
        ("EEE, dd MMM yyyy", "Sat, 05 Mar 2016"),
        ("EEEE MMMM D", "Saturday March 65"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", "2016-03-05T13:07:09.042+0000"),
        ("HH 'o''clock' ''z''", "13 o'clock 'UTC'"),
    ],
)
def test_patterns_of_java_are_understood(pattern: str, written: str) -> None:
    assert formatter(pattern)(AT) == written


@pytest.mark.parametrize(("pattern", "told"), [("yyyy-QQ", "'Q' in the date format"), ("HH 'oh", "without its end")])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str, told: str) -> None:
    with pytest.raises(click.UsageError, match=told):
        formatter(pattern)
