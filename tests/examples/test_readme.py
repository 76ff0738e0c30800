"""The programs that the README has its reader save and run."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from support.example_topics import values
from support.tools import Tool

README = Path(__file__).parents[2] / "README.md"
EXPECTED = ["offset 0: Hello from Oslo", "offset 1: Hello from Lima", "offset 2: Hello from Kyoto"]


def program(name: str, broker: BrokerProcess, directory: Path) -> list[str]:
    """The command that runs the block of code which follows `name`."""
    text = README.read_text()
    block = re.search(r"```python\n(.+?)```", text[text.index(f"`{name}`") :], re.DOTALL)
    assert block is not None
    path = directory / name
    path.write_text(block[1].replace("localhost:9092", broker.bootstrap))
    return [sys.executable, str(path)]


@pytest.fixture
def broker(ottla_broker_factory: Callable[..., BrokerProcess]) -> BrokerProcess:
    return ottla_broker_factory(overrides={"group.initial.rebalance.delay.ms": "0"})


def test_the_reader_gets_what_the_readme_promises(broker: BrokerProcess, tmp_path: Path) -> None:
    assert all(f"    {line}\n" in README.read_text() for line in EXPECTED)
    send, receive = (program(name, broker, tmp_path) for name in ("produce.py", "consume.py"))
    subprocess.run(send, check=True, timeout=60)
    later = [f"offset {number + 3}: {line.partition(': ')[2]}" for number, line in enumerate(EXPECTED)]
    assert read(receive, 3) == EXPECTED
    subprocess.run(send, check=True, timeout=60)
    assert read(receive, 3) == later  # it goes on where it stopped
    (row,) = Tool("ottla consumer-groups", broker.bootstrap)("--describe --group readme --output json").json
    assert (row["topic"], row["current_offset"], row["lag"]) == ("cities", 6, 0)
    other = tmp_path / "consume.py"
    other.write_text(other.read_text().replace('"readme"', '"another"'))
    assert read(receive, 6) == [*EXPECTED, *later]


def read(command: list[str], count: int) -> list[str]:
    """The first lines of a program, which is then stopped with Ctrl-C."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        try:
            assert consumer.stdout is not None
            lines = [consumer.stdout.readline().rstrip() for _ in range(count)]
            consumer.send_signal(signal.SIGINT)
            assert consumer.wait(30) == 0
            return lines
        finally:
            consumer.kill()


def test_a_transaction_counts_as_a_whole_or_not_at_all(broker: BrokerProcess, tmp_path: Path) -> None:
    command = program("transaction.py", broker, tmp_path)
    aborting = tmp_path / "aborting.py"
    aborting.write_text((tmp_path / "transaction.py").read_text().replace("commit_trans", "abort_trans"))
    for one in ([command[0], str(aborting)], command):
        subprocess.run(one, check=True, timeout=60)
    assert values(broker.bootstrap, "accounts") == ["-30", "+30"]
