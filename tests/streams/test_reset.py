"""Reprocessing: an application begins anew (A3 DP18), or a new version runs beside the old one (A3 DP17)."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli.streaming.loading import loaded
from ottla.streams import App, PipelineError, Text, native
from ottla.streams.reset import belongings
from ottla.streams.testing import Driver
from ottla.streams.versions import divert
from support.tools import Said, Tool

COUNTS = """
    from ottla.streams import App, Long, Text

    app = App("recount")
    words = app.stream("rc-lines", value=Text).flat_map_values("split(value, ' ')", value=Text)
    counts = words.group_by("value", key=Text).count("Counts")
    counts.to("rc-counts")
"""
ROUND = """
    from ottla.streams import App, Text

    app = App("around")
    names = app.table("ar-names", value=Text)
    upper = app.stream("ar-in", value=Text).map_values("upper(value)").through("ar-middle")
    upper.left_join(names, "concat(left, ' ', coalesce(right, '?'))", value=Text).to("ar-out")
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "application.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


def reset(driver: Driver, path: Path, words: str = "") -> Said:
    settings = driver.app.settings
    tool = Tool("ottla streams reset", settings.bootstrap, path.parent)
    return tool(f"{path} --state-dir {settings.state_dir} {words}")


def test_all_is_counted_again_as_if_it_had_never_run(ottla_streams, file) -> None:
    path = file(COUNTS)
    driver = ottla_streams(loaded(str(path)))
    driver.send("rc-lines", "a b a")
    assert driver.read("rc-counts") == [("a", 2), ("b", 1)]
    driver.restart()
    driver.send("rc-lines", "b")
    assert driver.read("rc-counts") == [("b", 2)]  # it went on where it was
    driver.restart()
    said = reset(driver, path, "--yes")
    assert (said.status, said.err) == (0, [])
    assert said.out == [
        "Reset of application recount",
        "  read from rc-lines, partitions and offsets 0: 0",
        "  delete    internal topic recount-Counts-changelog",
        "  keep      output topic rc-counts",
        f"  delete    checkpoints and stores in {driver.app.state.path}",
        "Application recount begins anew when it is started.",
    ]
    driver.send("rc-lines", "a")
    assert sorted(driver.read("rc-counts")) == [("a", 3), ("b", 2)]
    assert dict(driver.store("Counts").all()) == {"a": 3, "b": 2}
    driver.restart()
    driver.send("rc-lines", "a")
    assert driver.read("rc-counts") == [("a", 4)]  # only the first start begins where the reset said


def test_it_begins_where_the_reset_says(ottla_streams, file) -> None:
    path = file(COUNTS)
    driver = ottla_streams(loaded(str(path)))
    for line in ("a", "b", "c"):
        driver.send("rc-lines", line)
    driver.run()
    driver.restart()
    assert reset(driver, path, "--shift-by -1 --delete-output-topics --yes").status == 0
    driver._read.clear()
    assert driver.read("rc-counts") == [("c", 1)]
    driver.restart()
    assert reset(driver, path, "--to-latest --yes").status == 0
    driver.send("rc-lines", "d")
    assert driver.read("rc-counts") == [("d", 1)]


def test_tables_are_read_whole_and_topics_of_its_own_not_again(ottla_streams, file) -> None:
    path = file(ROUND)
    driver = ottla_streams(loaded(str(path)))
    driver.send("ar-names", "Anna", key="a")
    driver.run()
    driver.send("ar-in", "x", key="a")
    assert driver.read("ar-out") == [("a", "X Anna")]
    driver.restart()
    said = reset(driver, path, "--to-latest --yes")
    assert said.status == 0
    assert "  read from ar-names, partitions and offsets 0: 0 (a table, from its first record)" in said.out
    assert "  skip to   ar-middle, partitions and offsets 0: 1" in said.out
    driver.send("ar-in", "y", key="a")
    assert driver.read("ar-out") == [("a", "Y Anna")]


def test_while_it_runs_it_is_neither_reset_nor_started_again(ottla_streams, file) -> None:
    path = file(COUNTS)
    driver = ottla_streams(loaded(str(path)))
    driver.run()
    said = reset(driver, path, "--yes")
    assert said.status == 1
    assert said.err[0].startswith("ottla: application recount runs already, with its state in ")
    second = loaded(str(path))
    second.settings = driver.app.settings
    with pytest.raises(PipelineError, match="application recount runs already"):
        second.start(driver.session)
    driver.app.stop()
    second.start(driver.session)
    second.stop()


def test_a_new_version_beside_the_old_one_reads_all_and_writes_apart(ottla_streams, file) -> None:
    path = file(COUNTS)
    old = ottla_streams(loaded(str(path)))
    for line in ("a b", "a"):
        old.send("rc-lines", line)
    old.run()
    new = loaded(str(path), application_id="recount-v2")
    divert(new, "-v2")
    driver = ottla_streams(new)
    assert sorted(driver.read("rc-counts-v2")) == [("a", 2), ("b", 1)]
    compare = Tool("ottla streams compare", old.app.settings.bootstrap)
    assert compare("rc-counts rc-counts-v2").out == [
        "2 keys the same, 0 different, 0 only in rc-counts, 0 only in rc-counts-v2"
    ]
    driver.restart()
    old.send("rc-lines", "a c")
    old.run()
    assert compare("rc-counts rc-counts-v2").status == 1
    driver.run()
    assert compare("rc-counts rc-counts-v2").status == 0


def test_every_way_to_name_a_topic_is_diverted(ottla_streams) -> None:
    app = App("divert")
    lines = app.stream("dv-in", value=Text, start="latest")
    lines.to("dv-plain")
    lines.filter(lambda value: value == "x").to(lambda key, value: f"dv-{value}")
    lines.filter("value = 'y'").to(native(lambda value: value))
    lines.through("dv-through").to("dv-last")
    divert(app, "-2")
    driver = ottla_streams(app, extra_topics=["dv-x-2", "y-2", "dv-through-2"])
    for line in ("x", "y"):
        driver.send("dv-in", line)
    assert driver.read("dv-plain-2") == [(None, "x"), (None, "y")]
    assert driver.read("dv-last-2") == [(None, "x"), (None, "y")]
    assert driver.records("dv-x-2", key=Text, value=Text)[0].value == "x"
    assert driver.records("y-2", key=Text, value=Text)[0].value == "y"


def test_what_belongs_to_an_application() -> None:
    app = App("owner")
    app.table("shared")
    app.stream("shared", "other").through("mine").group_by_key().count("Counts").to("out")
    app.stream(pattern="log-.*").to(lambda key, value: "anywhere")
    owned = belongings(app, ["shared", "log-a", "blog-b", "log-c"])
    assert owned.inputs == ["shared", "other", "log-a", "log-c"]
    assert owned.tables == []  # what a stream reads, too, is read from where the streams are
    assert owned.intermediate == ["mine"]
    assert owned.internal == ["owner-Counts-changelog"]
    assert owned.outputs == ["out"]
