"""One face for many Kafka clients, so that the same test runs with each of them.

A `Client` says what the client can do and connects; a `Connected` writes and reads whole lists of records and keeps its
connections open between calls, over restarts of the broker too. `write` returns when every record is acknowledged.
`read` takes one partition from its start, or from a time on, up to its end. Both raise ClientError.
"""

from __future__ import annotations

from typing import Protocol

from ottla.protocol.compression import NAMES as CODECS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record

LARGEST = 20_000_000  # bytes that the clients let through, so that it is the broker who refuses
PATIENCE = 30.0  # seconds that a client tries before it gives up


class ClientError(Exception):
    """What a client told its user. `code` is the broker's, where the client passes it on."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = ErrorCode(code) if code is not None and code > 0 else None


class Connected(Protocol):
    def write(self, topic: str, records: list[Record], *, partition: int = 0, codec: str = "none") -> None: ...

    def read(self, topic: str, *, partition: int = 0, since: int | None = None) -> list[Record]: ...

    def close(self) -> None: ...


class Client(Protocol):
    name: str
    codecs: tuple[str, ...]
    has_headers: bool
    sets_timestamps: bool
    sees_timestamps: bool
    finds_times: bool

    def connect(self, bootstrap: str, *, patience: float = PATIENCE) -> Connected: ...

    def close(self) -> None: ...


class Modern:
    """A client that can do all of it."""

    codecs = CODECS
    has_headers = True
    sets_timestamps = True
    sees_timestamps = True
    finds_times = True

    def close(self) -> None:
        pass
