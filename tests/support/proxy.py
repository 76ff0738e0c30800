"""A way between clients and a broker on which replies can get lost."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class Proxy:
    """Forwards bytes between clients and a broker's port. While `loses_replies`, what the broker says is dropped."""

    def __init__(self) -> None:
        self.loses_replies = False
        self.requested = 0  # bytes that clients sent
        self.port = 0  # where clients come
        self.broker_port = 0  # where the broker is; clients are turned away before that is known
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await stop.wait()

    async def close(self) -> None:
        """Cut all connections; returns when they are gone."""
        while self._writers:
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", self.broker_port)
            self._writers.add(ours)
            try:
                await asyncio.gather(self._requests(reader, ours), self._replies(theirs, writer))
            finally:
                ours.close()
                self._writers.discard(ours)
        except OSError:
            pass
        finally:
            writer.close()
            self._writers.discard(writer)

    async def _requests(self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.requested += len(data)
            broker.write(data)
            await broker.drain()
        broker.close()

    async def _replies(self, broker: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await broker.read(1 << 16):
            if not self.loses_replies:
                writer.write(data)
                await writer.drain()
        writer.close()


@contextlib.contextmanager
def proxy() -> Iterator[Proxy]:
    """A proxy on a thread of its own."""
    made, ready, loop = Proxy(), threading.Event(), asyncio.new_event_loop()
    stop: Any = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(made.serve(ready, stop)), name="proxy")
    thread.start()
    ready.wait()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.run_until_complete(made.close())
        loop.close()
