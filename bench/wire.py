"""The admin requests that a run needs, as a client of the protocol's old fixed-width versions.

Metadata v1, CreateTopics v2, DeleteTopics v1, ListOffsets v2: old versions that Kafka 4 still serves, without compact
lengths or tagged fields, so that each message is a few `struct` calls.
Frame: length int32, api key int16, version int16, correlation id int32, client id string, body.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

METADATA, CREATE_TOPICS, DELETE_TOPICS, LIST_OFFSETS = (3, 1), (19, 2), (20, 1), (2, 2)
EARLIEST, LATEST = -2, -1


class AdminError(Exception):
    """A broker answered an admin request of the run with an error code."""


class Reader:
    """Takes values off the front of a reply."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> Any:
        (value,) = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return value

    def string(self) -> str | None:
        length = self.take("h")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def array(self, item: Callable[[], Any]) -> list[Any]:
        return [item() for _ in range(self.take("i"))]


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


class Admin:
    """One connection to a broker. Raises OSError when it is not there (yet)."""

    def __init__(self, port: int, *, timeout: float = 30.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def _ask(self, api: tuple[int, int], body: bytes) -> Reader:
        request = struct.pack(">hhi", *api, 1) + _string("bench") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", self._read(4))
        return Reader(self._read(length)[4:])

    def _read(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            parts += part
        return bytes(parts)

    def live_brokers(self) -> int:
        """How many brokers Metadata lists; 0 while the one asked has not joined its own cluster."""
        reply = self._ask(METADATA, _array([]))
        return len(reply.array(lambda: (reply.take("i"), reply.string(), reply.take("i"), reply.string())))

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        settings = _array([_string(key) + _string(value) for key, value in (configs or {}).items()])
        topic = _string(name) + struct.pack(">ih", partitions, 1) + _array([]) + settings
        reply = self._ask(CREATE_TOPICS, _array([topic]) + struct.pack(">ib", 30_000, 0))
        reply.take("i")
        self._refuse("create", reply.array(lambda: (reply.string(), reply.take("h"), reply.string())))

    def delete_topics(self, names: Sequence[str]) -> None:
        reply = self._ask(DELETE_TOPICS, _array([_string(name) for name in names]) + struct.pack(">i", 30_000))
        reply.take("i")
        self._refuse("delete", reply.array(lambda: (reply.string(), reply.take("h"))))

    @staticmethod
    def _refuse(verb: str, results: list[tuple[Any, ...]]) -> None:
        for name, code, *message in results:
            if code:
                raise AdminError(f"{verb} topic {name}: error {code} {message[0] if message else ''}".rstrip())

    def offsets(
        self, topic: str, partitions: int, timestamp: int = LATEST, *, committed: bool = False
    ) -> list[tuple[int, int]]:
        """(error code, offset) of each partition; the end for readers of what is committed, if asked for."""
        wanted = [struct.pack(">iq", partition, timestamp) for partition in range(partitions)]
        body = struct.pack(">ib", -1, committed) + _array([_string(topic) + _array(wanted)])
        reply = self._ask(LIST_OFFSETS, body)
        reply.take("i")  # how long a quota held it back

        def partition() -> tuple[int, int, int]:
            index, code, _, offset = reply.take("i"), reply.take("h"), reply.take("q"), reply.take("q")
            return index, code, offset

        topics = reply.array(lambda: (reply.string(), reply.array(partition)))
        return [(code, offset) for _, code, offset in sorted(topics[0][1])]

    def wait_until_served(self, topic: str, partitions: int, *, timeout: float = 60.0) -> None:
        """Returns when every partition answers ListOffsets."""
        deadline = time.monotonic() + timeout
        while any(code for code, _ in self.offsets(topic, partitions)):
            if time.monotonic() > deadline:
                raise AdminError(f"topic {topic}: not all of its {partitions} partitions are served after {timeout} s")
            time.sleep(0.002)

    def records(self, topic: str, partitions: int) -> int:
        """How many records the topic holds, by its end offsets."""
        ends = self.offsets(topic, partitions)
        bad = [code for code, _ in ends if code]
        if bad:
            raise AdminError(f"topic {topic}: ListOffsets gives error {bad[0]}")
        return sum(offset for _, offset in ends)
