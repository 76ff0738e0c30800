import time
from pathlib import Path

import click
import pytest

from ottla.cli.common.invocation import Misconfigured
from ottla.cli.groups.offsets import Partition
from ottla.cli.groups.reset import before_now, exported, moment, plans_of


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T00:01", 60_000),
    ],
)
def test_a_time_is_read_in_utc_unless_it_names_a_zone(text: str, milliseconds: int) -> None:
    assert moment(text) == milliseconds


@pytest.mark.parametrize("text", ["", "1970-01-01", "1970-01-01 00:00:00", "yesterday", "1970-13-01T00:00:00.000"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"must be YYYY-MM-DDThh:mm:ss\.sss"):
        moment(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("P1D", 86400), ("PT1H30M", 5400), ("P2DT3S", 172803), ("pt0.5s", 0.5), ("-PT1M", -60)]
)
def test_a_duration_is_taken_off_the_time_of_day(text: str, seconds: float) -> None:
    assert abs(before_now(text) / 1000 - (time.time() - seconds)) < 5


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "PT1D", "P1Y", f"P{'9' * 30}D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="--by-duration"):
        before_now(text)


def test_a_plan_goes_into_a_file_and_back(tmp_path: Path) -> None:
    plans = {"a": {Partition("t", 0): 5}, "b,c": {Partition("u", 1): 6, Partition("u", 2): 7}}
    file = tmp_path / "plan.csv"
    file.write_text("\n".join(exported(plans, list(plans))) + "\n")
    assert file.read_text() == 'a,t,0,5\n"b,c",u,1,6\n"b,c",u,2,7\n'
    assert plans_of(str(file), list(plans)) == plans
    file.write_text("\n".join(exported({"a": plans["a"]}, ["a"])) + "\n\n")
    assert file.read_text() == "t,0,5\n\n"
    assert plans_of(str(file), ["a"]) == {"a": plans["a"]}


@pytest.mark.parametrize("line", ["t,0", "t,0,x", "t,-1,5", "a,t,0,5,6", ",0,5", "t,0,99999999999999999999"])
def test_a_line_that_is_no_plan_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(f"t,0,5\n{line}\n")
    with pytest.raises(Misconfigured, match=r"plan.csv, line 2: .* must be topic,partition,offset"):
        plans_of(str(file), ["g"])
    with pytest.raises(Misconfigured, match=r"plan.csv, line 1: .* must be group,topic,partition,offset"):
        plans_of(str(file), ["g", "h"])


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(Misconfigured, match="it is no text in UTF-8"):
        plans_of(str(tmp_path / "binary"), ["g"])
    with pytest.raises(Misconfigured, match="No such file"):
        plans_of(str(tmp_path / "nowhere"), ["g"])
