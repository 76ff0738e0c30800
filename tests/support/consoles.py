"""The console tools in a test: what is typed, what is seen; names of topics that no other test uses."""

from __future__ import annotations

import io
import sys
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from ottla.cli import main


def fresh(name: str) -> str:
    """A name that nobody has."""
    return f"{name}-{uuid4().hex[:12]}"


class Consoles:
    """Runs commands in this process, with an input."""

    def __init__(
        self, bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        self.bootstrap = bootstrap
        self._monkeypatch = monkeypatch
        self._captured = capfdbinary
        self.status = 0

    def run(self, name: str, *words: str, typed: bytes = b"") -> tuple[bytes, str]:
        """stdout and stderr of `ottla name …`; `status` has its exit status."""
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
        self._captured.readouterr()
        self.status = main.run([name, *words, "--bootstrap-server", self.bootstrap])
        said = self._captured.readouterr()
        return said.out, said.err.decode()

    def produce(self, topic: str, typed: bytes, *words: str) -> tuple[bytes, str]:
        return self.run("console-producer", "--topic", topic, "--timeout", "0", *words, typed=typed)

    def fill(self, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
        """Keys and values that nobody can type, to partition 0."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value in records:
            producer.produce(topic, value, key, partition=0)
        assert producer.flush(30) == 0

    def consume(self, topic: str, count: int, *words: str) -> bytes:
        """The first records of partition 0, as they are shown."""
        out, _ = self.run(
            "console-consumer", "--topic", topic, "--partition", "0", "--from-beginning",
            "--max-messages", str(count), *words,
        )  # fmt: skip
        return out


@pytest.fixture
def consoles(
    ottla_shared_broker: object, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Consoles:
    return Consoles(ottla_shared_broker.bootstrap, monkeypatch, capfdbinary)  # type: ignore[attr-defined]
