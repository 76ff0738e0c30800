"""The two programs that the README has its reader save and run."""

import re
import signal
import subprocess
import sys
from pathlib import Path

from ottla.testing import BrokerProcess

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


def test_the_reader_gets_what_the_readme_promises(ottla_broker: BrokerProcess, tmp_path: Path) -> None:
    assert all(f"    {line}\n" in README.read_text() for line in EXPECTED)
    send = program("produce.py", ottla_broker, tmp_path)
    subprocess.run(send, check=True, timeout=60)
    with subprocess.Popen(program("consume.py", ottla_broker, tmp_path), stdout=subprocess.PIPE, text=True) as consumer:
        try:
            assert consumer.stdout is not None
            assert [consumer.stdout.readline().rstrip() for _ in range(3)] == EXPECTED
            subprocess.run(send, check=True, timeout=60)
            assert consumer.stdout.readline() == "offset 3: Hello from Oslo\n"
            consumer.send_signal(signal.SIGINT)
            assert consumer.wait(30) == 0
        finally:
            consumer.kill()
