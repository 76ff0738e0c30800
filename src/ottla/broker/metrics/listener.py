"""The port where Prometheus asks: a server of HTTP that knows GET /metrics and little else.

    GET /metrics   200, all figures as text
    GET /          200, one line that says where the figures are
    other paths    404      other methods  405      not HTTP/1.0 or 1.1, or not HTTP at all  400
    a head of more than 8 KiB  431      a head that takes more than 5 s to come  408      too many at once  503

HEAD is GET without the body. Every reply closes its connection. A body goes out in parts, as the client takes them, and
other work goes on between them; a client that does not take it within 30 s is cut off. So neither bad input nor a slow
reader holds more than one connection of MAX_CONNECTIONS and the text of one part.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Iterator

from ottla.broker.metrics.text import CONTENT_TYPE
from ottla.net.listener import bind_to

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 32
MAX_HEAD = 8192
HEAD_SECONDS = 5.0
BODY_SECONDS = 30.0

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_REQUEST_LINE = re.compile(rb"([!-~]+) ([!-~]+) HTTP/1\.([01])\r?\n")
_ABSOLUTE = re.compile(rb"[a-z]+://[^/]*", re.IGNORECASE)


class MetricsListener:
    def __init__(self, host: str, port: int, render: Callable[[], Iterator[str]]) -> None:
        self.host = host  # "" is every interface
        self.port = port
        self._render = render
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.Task[None]] = set()

    def bind(self) -> None:
        self.port = bind_to(self._sockets, self.host, self.port)

    async def open(self) -> None:
        for sock in self._sockets:
            self._servers.append(await asyncio.start_server(self._accept, sock=sock, limit=MAX_HEAD))
        self._sockets.clear()

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for sock in self._sockets:
            sock.close()
        self._servers.clear()
        self._sockets.clear()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._open) > MAX_CONNECTIONS:
                writer.write(_short(503, "too many connections\n"))
            else:
                await self._answer(reader, writer)
            async with asyncio.timeout(BODY_SECONDS):
                await writer.drain()
                writer.write_eof()
                while await reader.read(65536):  # what it still sends; a reset would take the reply from it
                    pass
        except (OSError, TimeoutError):
            pass
        except Exception:
            log.exception("a request for metrics failed")
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            writer.write(_short(408, f"no whole request came within {HEAD_SECONDS:g} s\n"))
            return
        except asyncio.LimitOverrunError:
            writer.write(_short(431, f"the head of a request may have {MAX_HEAD} bytes\n"))
            return
        except asyncio.IncompleteReadError as cut:
            if cut.partial:
                writer.write(_short(400, "not a whole request\n"))
            return
        found = _REQUEST_LINE.match(head)
        if found is None:
            writer.write(_short(400, "not a request of HTTP/1.0 or HTTP/1.1\n"))
            return
        method, target, minor = found.groups()
        path = _ABSOLUTE.sub(b"", target, count=1).partition(b"?")[0]
        if path not in (b"/metrics", b"/"):
            writer.write(_short(404, "there is only /metrics\n"))
        elif method not in (b"GET", b"HEAD"):
            writer.write(_short(405, "only GET and HEAD are served\n", "Allow: GET, HEAD\r\n"))
        elif path == b"/":
            writer.write(_short(200, "ottla's figures are at /metrics\n", with_body=method == b"GET"))
        else:
            await self._send_figures(writer, chunked=minor == b"1", with_body=method == b"GET")

    async def _send_figures(self, writer: asyncio.StreamWriter, *, chunked: bool, with_body: bool) -> None:
        coding = "Transfer-Encoding: chunked\r\n" if chunked else ""
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\n{coding}Connection: close\r\n\r\n".encode())
        if not with_body:
            return
        async with asyncio.timeout(BODY_SECONDS):
            for part in self._render():
                data = part.encode(errors="replace")
                writer.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
                await writer.drain()
                await asyncio.sleep(0)
        if chunked:
            writer.write(b"0\r\n\r\n")


def _short(status: int, text: str, headers: str = "", *, with_body: bool = True) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n{headers}Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
