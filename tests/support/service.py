"""A listener whose frames are handled by the test, and peers that speak to it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

from ottla.net.budget import Budget
from ottla.net.connection import Connection
from ottla.net.listener import Census, Limits, Listener


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(struct.pack(">i", len(body)) + body for body in bodies))

    async def receive(self) -> bytes:
        (size,) = struct.unpack(">i", await asyncio.wait_for(self.reader.readexactly(4), 10))
        return await asyncio.wait_for(self.reader.readexactly(size), 10)

    async def closed(self) -> bool:
        """Waits until the other side has closed."""
        with contextlib.suppress(ConnectionError):
            while await asyncio.wait_for(self.reader.read(65536), 10):
                pass
        return True


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


Handle = Callable[[Connection, bytes], Any]


class Service:
    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    async def connect(self, **options: Any) -> Peer:
        return Peer(*await asyncio.open_connection("127.0.0.1", self.listener.port, **options))

    @property
    def connections(self) -> list[Connection]:
        return list(self.listener.census.connections)

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110  what is waited for has no event of its own
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def serving(handle: Handle, **changes: Any) -> AsyncIterator[Service]:
    budget = Budget(changes.pop("budget", -1))
    limits = {
        "request_max_bytes": 10_000_000,
        "connections": 1000,
        "connections_per_ip": 1000,
        "connections_per_ip_overrides": {},
        "idle_seconds": 600.0,
        "send_buffer": -1,
        "receive_buffer": -1,
        "backlog": 50,
    } | changes
    listener = Listener(
        "TEST",
        "127.0.0.1",
        0,
        limits=Limits(**limits),
        budget=budget,
        census=Census(),
        handle=lambda connection, view, start, end: handle(connection, bytes(view[start:end])),
    )
    listener.bind()
    await listener.open()
    try:
        yield Service(listener)
    finally:
        listener.stop_accepting()
        for connection in list(listener.census.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
