import os
from pathlib import Path

import pytest

from ottla.cli.common.processes import RunningBroker, running_brokers, serving_words, still_serves


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("python3 -P -m ottla.cli broker s.properties", "broker s.properties"),
        ("/v/bin/python /v/bin/ottla broker --override a=b", "broker --override a=b"),
        ("/v/bin/ottla up", "up"),
        ("python3.11 /v/bin/kafka-server-start.sh s.properties", "server-start s.properties"),
        ("/v/bin/python /v/bin/ottla server-start s.properties", "server-start s.properties"),
        ("/v/bin/python /v/bin/ottla server-start -daemon s.properties", None),
        ("/v/bin/python /v/bin/ottla server-stop", None),
        ("/v/bin/python /v/bin/ottla topics --topic broker", None),
        ("python -m http.server broker", None),
        ("vi ottla broker", None),
        ("grep ottla broker", None),
        ("python work.py", None),
        ("", None),
    ],
)
def test_a_broker_is_known_by_its_command_line(line: str, words: str | None) -> None:
    assert serving_words(line.split()) == (words.split() if words else None)


@pytest.fixture
def proc(tmp_path: Path):
    """A directory like /proc, to which processes are added."""

    def add(pid: int, line: str, directory: Path) -> Path:
        entry = tmp_path / "proc" / str(pid)
        entry.mkdir(parents=True)
        entry.joinpath("cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in line.split()))
        entry.joinpath("cwd").symlink_to(directory)
        return tmp_path / "proc"

    return add


def test_a_brokers_id_comes_from_its_file_its_overrides_or_its_data(proc, tmp_path: Path) -> None:
    here = tmp_path / "work"
    (here / "d").mkdir(parents=True)
    here.joinpath("s.properties").write_text("broker.id=5\n")
    here.joinpath("other.properties").write_text("log.dirs=d\n")
    here.joinpath("d/meta.properties").write_text("version=0\nbroker.id=8\n")
    proc(30, "ottla broker other.properties --log-level error", here)
    proc(4, "ottla broker --log-level error s.properties", here)
    proc(5, "ottla broker s.properties --override node.id=6 --override broker.id=6", here)
    proc(6, "ottla broker s.properties --override=broker.id=7", here)
    proc(31, "ottla up --override listeners=PLAINTEXT://:1", here)
    proc(32, "ottla broker missing.properties", here)
    root = proc(33, "sleep 5", here)
    root.joinpath("self").mkdir()
    root.joinpath("34").mkdir()  # ended meanwhile
    found = running_brokers(root)
    assert found == [
        RunningBroker(4, 5),
        RunningBroker(5, 6),
        RunningBroker(6, 7),
        RunningBroker(30, 8),
        RunningBroker(31, 0),
        RunningBroker(32, None),
    ]
    assert running_brokers(root, os.getuid() + 1) == []
    assert still_serves(4, root)
    assert not still_serves(33, root)
    assert not still_serves(99, root)
