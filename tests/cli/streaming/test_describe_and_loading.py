"""`ottla streams describe`, and what every action says of a file that has no application for it. No Spark starts."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli import main
from support.tools import Said
from support.transcripts import run_here

EXAMPLE = Path(__file__).parents[3] / "examples" / "streams" / "word_count.py"
GOOD = """
    from ottla.streams import App

    app = App("shout")
    app.stream("lines").map_values(lambda value: value.upper()).to("shouts")
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str, name: str = "application.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip())
        return path

    return write


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda *words: Said(*run_here(["ottla", "streams", *map(str, words)], "", tmp_path))


def test_a_topology_is_shown(streams, file) -> None:
    said = streams("describe", file(GOOD))
    assert (said.status, said.err) == (0, [])
    assert said.out[:2] == ["Topology of shout", "  Query 0: to-2"]
    assert "    Step: map-values-1 (lambda value: value.upper())" in said.out
    assert streams("describe", file(GOOD), "--application-id", "other").out[0] == "Topology of other"


def test_a_picture_goes_to_a_file(streams, file, tmp_path) -> None:
    said = streams("describe", file(GOOD), "--format", "svg", "--output", "a.svg")
    assert (said.status, said.out, said.err) == (0, [], [])
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")
    assert streams("describe", file(GOOD), "--format", "mermaid").out[0] == "flowchart TD"
    said = streams("describe", file(GOOD), "--output", "none/a.svg")
    assert (said.status, said.err) == (2, ["ottla: cannot write none/a.svg: No such file or directory"])


def test_it_takes_neither_java_nor_a_broker_and_little_time(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": "", "JAVA_HOME": "/nowhere"}
    words = [sys.executable, "-m", "ottla.cli", "streams", "describe", str(EXAMPLE)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "State: CountStore (count), to topic wordcount-CountStore-changelog" in done.stdout


def test_of_several_applications_one_is_chosen(streams, file) -> None:
    text = GOOD + '\n    again = app\n    other = App("other")\n    other.stream("a").to("b")\n'
    said = streams("describe", file(text))
    assert (said.status, said.out) == (1, [])
    assert said.err == [
        f"ottla: {file(text)} makes several applications: choose one of app, again, other by --app",
    ]
    assert streams("describe", file(text), "--app", "other").out[0] == "Topology of other"
    assert streams("describe", file(text), "--app", "again").out[0] == "Topology of shout"
    said = streams("describe", file(text), "--app", "nobody")
    assert said.err == [f"ottla: {file(text)} has no application nobody; there are app, again, other"]


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ("x = 1\n", 1, ["makes no application: app = App(…) at its top level is wanted"]),
        (
            "from ottla.streams import App\n\napp = App('a b')\n",
            1,
            [", line 3: 'a b' is no application id: use letters, digits, '.', '_' and '-', at most 150"],
        ),
        ("from ottla.streams import App\napp = App('a')\n", 1, ["application a writes nothing"]),
        (
            "def f():\n    return 1 / 0\n\nf()\n",
            1,
            [" cannot be imported", "line 4, in <module>", "line 2, in f", "ZeroDivisionError: division by zero"],
        ),
        ("import this_is_nowhere\n", 1, ["line 1, in <module>", "No module named 'this_is_nowhere'"]),
        ("def f(:\n", 1, ["line 1", "SyntaxError"]),
        ("import json\njson.loads('{')\n", 1, ["line 2, in <module>", "json.loads('{')", "JSONDecodeError"]),
        ("raise SystemExit(3)\n", 1, ["ends Python when it is imported (status 3)"]),
        (
            "from ottla.streams import App\napp = App('a')\napp.stream('in').to('out')\napp.run()\n",
            1,
            [", line 4: it runs when its file is imported: put that under if __name__ == '__main__':"],
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(streams, file, text: str, status: int, told: list[str]) -> None:
    path = file(text)
    said = streams("describe", path)
    assert (said.status, said.out) == (status, [])
    error = "\n".join(said.err)
    assert error.startswith("ottla: ")
    for words in told:
        assert words in error
    frames = [line for line in said.err if line.startswith('  File "')]
    assert all(str(path) in line for line in frames), error  # nothing of Python's, ottla's or other packages' own


def test_a_column_that_is_made_before_spark_is_there_is_explained(file) -> None:
    path = file("from pyspark.sql import functions as F\nF.upper('value')\n")
    words = [sys.executable, "-m", "ottla.cli", "streams", "describe", str(path)]  # here, there may be one
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "line 2" in done.stderr
    assert "There is no Spark yet: write the column as text, or as native(lambda" in done.stderr


def test_a_file_that_is_not_there_is_named(streams, tmp_path) -> None:
    assert streams("run", "nobody.py").err == ["ottla: there is no file nobody.py"]
    assert streams("run", tmp_path).err == [f"ottla: {tmp_path} is no file"]
    (tmp_path / "a.txt").write_text("")
    assert streams("describe", "a.txt").err == ["ottla: a.txt is no file of Python: its name does not end with .py"]


def test_a_file_finds_others_beside_it_and_may_have_the_name_of_a_module(streams, file) -> None:
    file("name = 'beside'\n", "ottla_beside_it.py")
    text = "    import ottla_beside_it\n" + GOOD.replace('App("shout")', "App(ottla_beside_it.name)")
    assert streams("describe", file(text, "json.py")).out[0] == "Topology of beside"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rnu", "x.py"], "streams does not 'rnu'; it does run, describe, reset, compare"),
        (["run"], "Missing argument 'FILE.py'"),
        (["run", "x.py", "--delivery", "twice"], "'twice' is not one of 'at_least_once', 'exactly_once'"),
        (["run", "x.py", "--set", "a=b"], "--set a: a setting begins with spark. or kafka."),
        (["run", "x.py", "--set", "spark.x"], "--set 'spark.x' must be KEY=VALUE"),
        (["run", "x.py", "--output-suffix", "-2"], "--output-suffix needs --application-id"),
        (["describe", "x.py", "--format", "png"], "'png' is not one of 'text', 'mermaid', 'svg'"),
    ],
)
def test_what_is_asked_for_wrongly_is_told_in_one_line(streams, words: list[str], told: str) -> None:
    said = streams(*words)
    assert said.status == 2
    assert len(said.err) == 1
    assert told in said.err[0]


def test_without_pyspark_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; from ottla.cli.main import run;"
        f"sys.exit(run(['streams', 'describe', {str(EXAMPLE)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install 'ottla[spark]'" in done.stderr


@pytest.mark.parametrize("action", ["run", "describe", "reset", "compare"])
def test_every_option_of_an_action_is_explained(action: str, capsys) -> None:
    import click

    assert main.run(["streams", action, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: ottla streams {action} ")
    options = [one for one in main.command_of(f"streams {action}").params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help] == []
    assert main.run(["streams", "--help"]) == 0
    shown = capsys.readouterr().out
    assert main.command_of(f"streams {action}").get_short_help_str(100) in shown
