from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ottla.pipelines.scratch import Scratch

HOLD = """
import tempfile, time
from ottla.pipelines.scratch import Scratch
scratch = Scratch()
(scratch.path / "left").write_text("over")
print(scratch.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another process with a directory of its own, and that directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_the_directory_of_a_process_that_runs_is_let_alone(holder) -> None:
    _, directory = holder
    own = Scratch()
    assert (directory / "left").exists()
    own.remove()
    assert not own.path.exists()


def test_what_a_killed_process_has_left_is_removed_by_the_next(holder, tmp_path: Path) -> None:
    process, directory = holder
    process.kill()
    process.wait()
    assert directory.exists()
    own = Scratch()
    assert list(tmp_path.iterdir()) == [own.path]
    own.remove()
    assert list(tmp_path.iterdir()) == []
