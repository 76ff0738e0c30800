import io

import pytest
from rich.console import Console

from ottla.cli.streaming.demo import code
from ottla.cli.streaming.demo_screen import Lines, Terminal


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=90, height=40, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_lines_as_they_are_typed_and_counts_as_they_change(console: Console) -> None:
    screen = Terminal(console)
    screen.explain(code(), "localhost:1")
    assert '.count("CountStore")' in shown(console)
    with screen.waiting("Starting Spark", "Spark runs the application"):
        pass
    assert "✓ Spark runs the application" in shown(console)
    screen.typing("hello w")
    assert "> hello w▏" in shown(console)
    screen.typed("hello world")
    screen.counted({"hello": "1", "world": "1"}, {"hello", "world"})
    screen.counted({"hello": "2", "world": "1"}, {"hello"})
    screen.settled({"hello": "2", "world": "1"}, {"hello"})
    last = shown(console).rpartition("typed into wordcount-input")[2]
    assert "> hello world" in last
    assert last.index("world") < last.index("hello  2")  # what came last stands last
    before = shown(console)
    screen.still()
    for _ in range(30):
        screen.counted({"hello": "2", "world": "1"}, set())
    screen.summary({})
    assert "▏" in shown(console)[len(before) :]  # a mark fades; then nothing is drawn any more
    before = shown(console)
    screen.counted({"hello": "2", "world": "1"}, set())
    assert shown(console) == before


def test_lines_tell_the_same_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Lines()
    screen.typed("hello world")
    screen.settled({"hello": "1", "world": "1", "other": "12"}, {"world", "hello"})
    screen.summary({"hello": "1", "world": "1", "other": "12"})
    assert capsys.readouterr().out == (
        "> hello world\n    hello 1, world 1\n\nAll counts:\n    other   12\n    hello    1\n    world    1\n"
    )
