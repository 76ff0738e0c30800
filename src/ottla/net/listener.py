"""A port that clients reach: accepting, limits on connections, the sweep of idle ones, closing down.

A listener has a name (`PLAINTEXT`, `INTERNAL`, …) and a security protocol. Only plain text is spoken today; TLS is the
`ssl` argument of `open()`, and SASL is a state of the connection before its frames reach the broker's handler.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

from ottla.net.budget import Budget
from ottla.net.connection import Connection, FrameHandler

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger(__name__)


class Limits:
    """What the configuration allows a client to do."""

    __slots__ = (
        "backlog",
        "connections",
        "connections_per_ip",
        "connections_per_ip_overrides",
        "idle_seconds",
        "receive_buffer",
        "request_max_bytes",
        "send_buffer",
    )

    def __init__(
        self,
        *,
        request_max_bytes: int,
        connections: int,
        connections_per_ip: int,
        connections_per_ip_overrides: Mapping[str, int],
        idle_seconds: float,
        send_buffer: int,
        receive_buffer: int,
        backlog: int,
    ) -> None:
        self.request_max_bytes = request_max_bytes
        self.connections = connections
        self.connections_per_ip = connections_per_ip
        self.connections_per_ip_overrides = connections_per_ip_overrides
        self.idle_seconds = idle_seconds
        self.send_buffer = send_buffer
        self.receive_buffer = receive_buffer
        self.backlog = backlog


class Census:
    """Who is connected, over all listeners of a broker."""

    __slots__ = ("by_ip", "connections", "empty", "refused", "total_accepted")

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.empty = asyncio.Event()
        self.empty.set()
        self.by_ip: Counter[str] = Counter()
        self.total_accepted = 0
        self.refused = 0


class Listener:
    def __init__(
        self, name: str, host: str, port: int, *, limits: Limits, budget: Budget, census: Census, handle: FrameHandler
    ) -> None:
        self.name = name
        self.host = host  # "" is every interface
        self.port = port
        self.limits = limits
        self.budget = budget
        self.census = census
        self._handle = handle
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._last_complaint = 0.0

    def bind(self) -> None:
        """Take the address, so that the port is known (and nobody else's) before anything is served."""
        self.port = bind_to(self._sockets, self.host, self.port)

    async def open(self, ssl: SSLContext | None = None) -> None:
        """Begin to serve."""
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            self._servers.append(
                await loop.create_server(
                    lambda: Connection(self, self._handle), sock=sock, backlog=self.limits.backlog, ssl=ssl
                )
            )
        self._sockets.clear()
        self._sweep = loop.call_later(self._sweep_interval, self._sweep_idle)

    def stop_accepting(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    # -- called by connections -----------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        census, limits, ip = self.census, self.limits, connection.peer[0]
        census.connections.add(connection)
        census.empty.clear()
        census.by_ip[ip] += 1
        census.total_accepted += 1
        per_ip = limits.connections_per_ip_overrides.get(ip, limits.connections_per_ip)
        if len(census.connections) > limits.connections:
            self.refused(connection, f"max.connections={limits.connections} are open")
            connection.close()
        elif census.by_ip[ip] > per_ip:
            self.refused(connection, f"max.connections.per.ip={per_ip} are open from it")
            connection.close()
        else:
            self._tune(connection)

    def closed(self, connection: Connection) -> None:
        census, ip = self.census, connection.peer[0]
        census.connections.discard(connection)
        if not census.connections:
            census.empty.set()
        census.by_ip[ip] -= 1
        if census.by_ip[ip] <= 0:
            del census.by_ip[ip]

    def refused(self, connection: Connection, why: str) -> None:
        """Say why a client is cut off, though not more than once a second: a flood of them must not flood the log."""
        self.census.refused += 1
        now = monotonic()
        if now - self._last_complaint >= 1:
            self._last_complaint = now
            log.warning(
                "closing connection of %s:%s (client id %s): %s", *connection.peer, connection.client_id or "-", why
            )

    # -- the inside ----------------------------------------------------------------------------------------------

    def _tune(self, connection: Connection) -> None:
        sock = connection.transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.limits.send_buffer > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer)
        if self.limits.receive_buffer > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.receive_buffer)

    @property
    def _sweep_interval(self) -> float:
        return min(10.0, max(0.05, self.limits.idle_seconds / 4))

    def _sweep_idle(self) -> None:
        now, interval = monotonic(), self._sweep_interval
        for connection in [one for one in self.census.connections if one.listener is self]:
            quiet = now - connection.last_active
            if quiet > interval:
                connection.shrink()
            if quiet > self.limits.idle_seconds and not connection.is_parked:
                if connection.waits_for_peer or connection.closing:
                    connection.transport.abort()  # it will never drain by itself
                else:
                    connection.close()
        self._sweep = asyncio.get_running_loop().call_later(interval, self._sweep_idle)


def bind_to(sockets: list[socket.socket], host: str, port: int) -> int:
    """Add sockets that hold the address; returns the port, which the system has chosen where 0 was asked for.

    Where one cannot be bound, those before it are in the list, to be closed.
    """
    for family, address in _addresses(host):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sockets.append(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
        sock.bind((address, port))
        port = sock.getsockname()[1]
    return port


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """What to bind for a host as configured; every interface is one socket that speaks both families."""
    if not host:
        return [(socket.AF_INET6, "::")] if socket.has_dualstack_ipv6() else [(socket.AF_INET, "0.0.0.0")]
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))
