"""kcat, the command; on Debian's librdkafka."""

from __future__ import annotations

import re
import subprocess
from itertools import groupby

from confluent_kafka import KafkaError

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record
from support.clients.client import CODECS, LARGEST, PATIENCE, ClientError

BETWEEN_RECORDS, AFTER_KEY = b"<record>", b"<key>"
FORMAT = "%o %T %K %S %h\n%k%s\n"
# the words that librdkafka has for a broker's error
WORDS = {KafkaError(code).str().encode(): code for code in ErrorCode if code > 0}
SAID = re.compile(rb"Broker: [\w ,'()-]+")


class KcatClient:
    name = "kcat"
    codecs = CODECS
    has_headers = True
    sets_timestamps = False
    sees_timestamps = True
    finds_times = True

    def connect(self, bootstrap: str, *, patience: float = PATIENCE) -> ConnectedKcat:
        return ConnectedKcat(bootstrap, patience)

    def close(self) -> None:
        pass


class ConnectedKcat:
    def __init__(self, bootstrap: str, patience: float) -> None:
        self.bootstrap, self.patience = bootstrap, patience

    def run(self, *words: str, stdin: bytes = b"") -> bytes:
        try:
            done = subprocess.run(
                ["kcat", "-b", self.bootstrap, "-E", *words],
                input=stdin,
                capture_output=True,
                timeout=self.patience + 10,
            )
        except subprocess.TimeoutExpired as late:
            raise ClientError(f"kcat was not done in time: {late.stderr!r}") from late
        if done.returncode:
            said = SAID.search(done.stderr)
            raise ClientError(done.stderr.decode(), WORDS.get(said[0].strip()) if said else None)
        return done.stdout

    def write(self, topic: str, records: list[Record], *, partition: int = 0, codec: str = "none") -> None:
        for (headers, is_tombstone), alike in groupby(records, key=lambda one: (one.headers, one.value is None)):
            lines = [(b"" if one.key is None else one.key + AFTER_KEY) + (one.value or b"") for one in alike]
            self.run(
                *("-P", "-t", topic, "-p", str(partition), "-z", codec),
                *("-D", BETWEEN_RECORDS.decode(), "-K", AFTER_KEY.decode()),
                *(word for name, value in headers for word in ("-H", f"{name}={(value or b'').decode()}")),
                *(["-Z"] if is_tombstone else []),
                *("-X", f"message.max.bytes={LARGEST}", "-X", f"message.timeout.ms={int(self.patience * 1000)}"),
                *("-X", f"topic.metadata.propagation.max.ms={int(self.patience * 500)}"),
                stdin=BETWEEN_RECORDS.join(lines),
            )

    def read(self, topic: str, *, partition: int = 0, since: int | None = None) -> list[Record]:
        said = self.run(
            *("-C", "-t", topic, "-p", str(partition), "-e", "-q", "-f", FORMAT),
            *("-o", "beginning" if since is None else f"s@{since}"),
            *(
                "-X",
                f"fetch.message.max.bytes={LARGEST}",
                "-X",
                f"fetch.max.bytes={LARGEST}",
                "-X",
                "fetch.wait.max.ms=10",
            ),
            *("-X", f"topic.metadata.propagation.max.ms={int(self.patience * 500)}"),
        )
        records = []
        while said:
            line, _, said = said.partition(b"\n")
            offset, timestamp, key_size, value_size, headers = line.split(b" ", 4)
            key, said = _take(said, int(key_size))
            value, said = _take(said, int(value_size))
            said = said[1:]
            records.append(Record(int(offset), int(timestamp), key, value, _headers(headers)))
        return records

    def close(self) -> None:
        pass


def _take(said: bytes, size: int) -> tuple[bytes | None, bytes]:
    return (None, said) if size < 0 else (said[:size], said[size:])


def _headers(said: bytes) -> tuple[tuple[str, bytes], ...]:
    pairs = [pair.partition(b"=") for pair in said.split(b",")] if said else []
    return tuple((name.decode(), value) for name, _, value in pairs)
