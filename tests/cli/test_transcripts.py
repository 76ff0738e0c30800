"""The transcripts beside this file (support/transcripts.py): the texts' command lines, and what they print."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from support import zookeeper
from support.transcripts import Session, agree, read

SCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[zookeeper.ZooKeeper]:
    server = zookeeper.start()
    yield server
    server.close()


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.stem)
def test_the_tools_answer_as_written(
    file: Path,
    request: pytest.FixtureRequest,
    ottla_broker_factory: Callable[..., BrokerProcess],
    tmp_path: Path,
) -> None:
    script = read(file.read_text())
    # the offsets topic of one node in a test: fewer partitions are made sooner
    broker = ottla_broker_factory(overrides={"offsets.topic.num.partitions": "3", **script.properties})
    address = None
    if script.needs_zookeeper:
        server = request.getfixturevalue("zookeeper_server")
        address = server.register(0, "127.0.0.1", broker.port, f"/{file.stem}")
    Session(tmp_path, broker.bootstrap, address).play(script, file.name)


def test_lines_agree_with_wild_cards_blanks_and_order() -> None:
    assert agree(["a …d", "", "b"], ["a\tb c  d", "", "b", "", ""])
    assert agree(["a", "…", "z"], ["a", "z"])
    assert agree(["…", "z", "…"], ["a", "z", "z"])
    assert not agree(["a"], ["a", "b"])
    assert not agree(["a", "…", "z"], ["a", "z", "b"])
    assert not agree(["a", ""], ["", "a"])
    assert agree(["b", "a…"], ["a1", "b"], any_order=True)
    assert not agree(["b", "b"], ["a", "b"], any_order=True)


def test_a_script_is_read_as_its_head_says() -> None:
    script = read(
        "#% a.b = c\n# remark\n@ f.json\n{\n}\n\n"
        "$ x --zookeeper h:2181/p \\\n    -y\n< in\n\\! out\n\n! err\n? 1\n\n$~ y\n$+ z\n"
    )
    assert script.properties == {"a.b": "c"}
    assert script.needs_zookeeper
    file, first, second, third = script.steps
    assert (file.words, file.out) == ("f.json", ["{", "}"])
    assert (first.words, first.typed, first.err, first.status) == ("x --zookeeper h:2181/p -y", ["in"], ["err"], 1)
    assert [line for line in first.out if line] == ["! out"]
    assert (second.any_order, third.repeated) == (True, True)
    with pytest.raises(ValueError, match="line 1 belongs to no command"):
        read("text\n")


def test_a_command_is_interrupted_when_it_has_said_its_lines(tmp_path: Path) -> None:
    script = read(
        "$ ottla broker --override listeners=PLAINTEXT://127.0.0.1:0 --override log.dirs=data\n"
        "ottla broker 0 ready on …\n^C\n! …\n"
    )
    session = Session(tmp_path, "", None)
    session.play(script, "broker")
    script.steps[0].out.append("never said")
    with pytest.raises(AssertionError, match="never said"):
        session.play(script, "broker")
