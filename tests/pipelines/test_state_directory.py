import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.state_directory import StateDirectory


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "streams", "app")


def test_one_process_has_the_directory_for_itself(state: StateDirectory) -> None:
    code = "import sys; from ottla.pipelines.state_directory import StateDirectory as S; S(*sys.argv[1:]).lock()"
    words = [sys.executable, "-c", code, str(state.path.parent), "app"]
    with state.lock():
        refused = subprocess.run(words, capture_output=True, text=True)
        assert f"application app runs already, with its state in {state.path} (process " in refused.stderr
        with pytest.raises(PipelineError, match="runs already"):
            state.lock()
    assert subprocess.run(words).returncode == 0


def test_a_process_that_dies_gives_it_up(state: StateDirectory) -> None:
    code = (
        "import sys, os; from ottla.pipelines.state_directory import StateDirectory as S;"
        "S(*sys.argv[1:]).lock(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(state.path.parent), "app"]).returncode == -9
    state.lock().release()


def test_all_is_forgotten_but_where_to_begin(state: StateDirectory) -> None:
    assert state.starts() == {}
    state.checkpoints.mkdir(parents=True)
    (state.checkpoints / "q").write_text("x")
    state.stores.mkdir()
    with state.lock():
        state.forget({"in": {0: 5, 10: 7, 2: 0}})
        assert [entry.name for entry in state.contents()] == ["start.json"]
        assert state.starts() == {"in": {0: 5, 10: 7, 2: 0}}
        state.forget({})
        assert state.contents() == []
    assert state.starts() == {}


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"x": 1}}', '{"a": {"0": null}}'])
def test_a_file_that_says_nothing_sensible_is_named(state: StateDirectory, text: str) -> None:
    state.path.mkdir(parents=True)
    (state.path / "start.json").write_text(text)
    with pytest.raises(PipelineError, match=r"start\.json does not say where to start"):
        state.starts()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot write to the state directory"):
        StateDirectory(tmp_path / "file", "app").lock()
