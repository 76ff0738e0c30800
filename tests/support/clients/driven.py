"""Clients that cannot live in this process: another program drives each, told what to do in lines of JSON.

    > {"do": "write", "to": 1, "topic": "t", "partition": 0, "codec": "gzip", "records": [...]}
    < {"ok": null}      or {"error": "words", "code": 10}

A record is [offset, timestamp, key, value, headers], with bytes in base64. `to` names a connection, made by "connect".
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.records import Record
from support.clients.client import CODECS, LARGEST, PATIENCE, ClientError

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "tests/clients"
JS, LEGACY = ROOT / "build/js/node_modules", ROOT / "build/legacy-client"


class Program:
    """The process that drives a client; started when it is first told something."""

    def __init__(self, words: list[str], needs: Path, environment: dict[str, str]) -> None:
        self.words, self.needs = words, needs
        self.environment = {**os.environ, **environment}
        self.process: subprocess.Popen[bytes] | None = None

    def tell(self, wait: float, **what: Any) -> Any:
        if self.process is None:
            if not self.needs.exists():
                pytest.fail(f"{self.needs} is missing: make build/.clients installs it")
            self.process = subprocess.Popen(
                self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment
            )
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(what).encode() + b"\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], wait)[0]:
            raise ClientError(f"no answer to {what['do']}")
        line = process.stdout.readline()
        assert line, f"{self.words} ended with status {process.wait()}"
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"], answer.get("code"))
        return answer["ok"]

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


class DrivenClient:
    finds_times = True

    def __init__(self, name: str, program: Program, **settings: Any) -> None:
        self.name = name
        self.settings = settings
        self._program = program

    def connect(self, bootstrap: str, *, patience: float = PATIENCE) -> ConnectedDriven:
        return ConnectedDriven(self._program, bootstrap, patience, self.settings)

    def close(self) -> None:
        self._program.close()


class KafkaJsClient(DrivenClient):
    codecs = CODECS
    has_headers = True
    sets_timestamps = True
    sees_timestamps = True

    def __init__(self) -> None:
        super().__init__("kafkajs", Program(["node", str(PROGRAMS / "js/driver.js")], JS, {"NODE_PATH": str(JS)}))


class LegacyClient(DrivenClient):
    """kafka-python 1.4.7 as it spoke to brokers of its time: no ApiVersions, message formats 0 and 1."""

    codecs = CODECS[:4]
    has_headers = False

    def __init__(self, version: str) -> None:
        program = Program([sys.executable, str(PROGRAMS / "legacy/driver.py")], LEGACY, {"PYTHONPATH": str(LEGACY)})
        super().__init__(f"kafka-python 1.4 for {version}", program, version=[int(part) for part in version.split(".")])
        self.sets_timestamps = self.sees_timestamps = self.finds_times = self.settings["version"] >= [0, 10, 1]


class ConnectedDriven:
    def __init__(self, program: Program, bootstrap: str, patience: float, settings: dict[str, Any]) -> None:
        self._program, self._patience = program, patience
        self._number = self._tell("connect", bootstrap=bootstrap, patience=patience, largest=LARGEST, **settings)

    def _tell(self, do: str, **what: Any) -> Any:
        return self._program.tell(self._patience + 10, do=do, **what)

    def ask(self, do: str, **what: Any) -> Any:
        """Something that only this client can do."""
        return self._tell(do, to=self._number, **what)

    def write(self, topic: str, records: list[Record], *, partition: int = 0, codec: str = "none") -> None:
        packed = [_pack(record) for record in records]
        self.ask("write", topic=topic, partition=partition, codec=codec, records=packed)

    def read(self, topic: str, *, partition: int = 0, since: int | None = None) -> list[Record]:
        return [_unpack(record) for record in self.ask("read", topic=topic, partition=partition, since=since)]

    def close(self) -> None:
        self.ask("close")


def _pack(record: Record) -> list[Any]:
    headers = [(name, _text(value)) for name, value in record.headers]
    return [record.offset, record.timestamp, _text(record.key), _text(record.value), headers]


def _unpack(packed: list[Any]) -> Record:
    offset, timestamp, key, value, headers = packed
    return Record(offset, timestamp, _bytes(key), _bytes(value), tuple((name, _bytes(text)) for name, text in headers))


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
