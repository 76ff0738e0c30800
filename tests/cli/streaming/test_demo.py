import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ottla.cli.streaming.demo import LINES

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark_can_start")]

PATIENCE = 240


def demo(tmp_path: Path) -> subprocess.Popen[str]:
    """The demo without a terminal; what it leaves behind would lie in `tmp_path`."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "demo"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    )


def test_words_are_counted_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    words = Counter(word for line in LINES for word in re.findall(r"\w+", line.lower()) if word != "the")
    shown = dict(re.findall(r"^    (\w+) +(\d+)$", out.partition("All counts:")[2], re.MULTILINE))
    assert {word: int(count) for word, count in shown.items()} == words
    assert '.count("CountStore")' in out  # the application, as it is written
    for line in LINES:
        assert f"> {line}\n" in out
    assert list(tmp_path.iterdir()) == []


def test_it_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout is not None
        while "Starting Spark" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert list(tmp_path.iterdir()) == []
