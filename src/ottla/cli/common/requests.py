"""Requests to brokers, straight through `ottla.protocol`: for what confluent-kafka has no call.

A `Connection` is one socket on which requests are answered in turn; it asks the broker once which versions it serves
and picks the newest that both know. `Cluster` finds its way from the bootstrap servers to a certain broker.
Speaks PLAINTEXT.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import Any

from ottla import __version__
from ottla.cli.common.invocation import Failure
from ottla.protocol import apis, codec
from ottla.protocol.errors import ErrorCode, ProtocolError, UnencodableValue
from ottla.protocol.messages import ApiVersionsRequest, MetadataRequest, MetadataResponse

CLIENT_ID = "ottla-cli"
TIMEOUT_SECONDS = 30.0
_SIZE = struct.Struct(">i")


class Unreachable(Failure):
    """No broker answers."""


def parse_servers(text: str) -> list[tuple[str, int]]:
    """`HOST:PORT,HOST:PORT` as pairs; a path behind the port (A3 G3) does not count."""
    found = []
    for one in text.split(","):
        host, colon, port = one.strip().partition("/")[0].rpartition(":")
        if not colon:
            host, port = port, "9092"
        host = host.removeprefix("PLAINTEXT://").strip("[]")
        if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
            raise Failure(f"{one.strip()!r} is no address of a broker: HOST:PORT is")
        found.append((host, int(port)))
    return found


class Connection:
    """One connection to one broker."""

    def __init__(self, host: str, port: int, timeout: float = TIMEOUT_SECONDS) -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout)
        except (OSError, UnicodeError) as error:  # a name that IDNA does not allow
            words = getattr(error, "strerror", None) or error
            raise Unreachable(f"no broker answers at {self.address}: {words}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self.served: dict[int, tuple[int, int]] = {}
        self.api_versions = self._learn_versions()

    def _learn_versions(self) -> Any:
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=__version__)
        for version in (apis.version_range("ApiVersions")[1], 0):
            reply = self.call(request, version)
            if reply.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        if reply.error_code:
            raise Failure(f"{self.address}: {error_text(reply.error_code)}")
        self.served = {one.api_key: (one.min_version, one.max_version) for one in reply.api_keys}
        return reply

    def version_of(self, name: str) -> int:
        """The newest version of a request that both sides know."""
        lowest, highest = apis.version_range(name)
        served = self.served.get(apis.API_KEYS[name])
        if served is None or served[0] > highest or served[1] < lowest:
            raise Failure(f"the broker at {self.address} does not serve {name}")
        return min(highest, served[1])

    def call(self, request: Any, version: int | None = None) -> Any:
        name = type(request).__name__.removesuffix("Request")
        if version is None:
            version = self.version_of(name)
        self._correlation_id += 1
        key = apis.API_KEYS[name]
        header = apis.encode_request_header(key, version, self._correlation_id, CLIENT_ID)
        try:
            body = codec.encode(request, version)
        except UnencodableValue as error:
            raise Failure(str(error)) from error
        try:
            self._socket.sendall(_SIZE.pack(len(header) + len(body)) + header + body)
            frame = self._exactly(_SIZE.unpack(self._exactly(4))[0])
        except OSError as error:
            raise Failure(f"{name} to {self.address}: {error.strerror or error}") from error
        if name == "ApiVersions" and version and frame[4:6] == _UNSUPPORTED:
            version = 0  # a broker that does not know the version answers so
        start = 5 if apis.response_header_version(key, version) else 4
        try:
            return codec.decode(name + "Response", version, memoryview(frame)[start:])
        except ProtocolError as error:
            raise Failure(f"{self.address} answers {name} with what is no {name} response: {error}") from error

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionResetError(None, "the broker has closed the connection")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self._socket.close()


_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class Cluster:
    """The brokers behind a list of servers; a context manager that closes its connections."""

    def __init__(self, servers: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        self._by_id: dict[int, Connection] = {}
        self.seed = self._any(parse_servers(servers))
        self.metadata: MetadataResponse = self.seed.call(MetadataRequest(topics=[]))

    def _any(self, servers: list[tuple[str, int]]) -> Connection:
        refusals = []
        for host, port in servers:
            try:
                return Connection(host, port, self._timeout)
            except Unreachable as error:
                refusals.append(error.message)
        raise Unreachable("; ".join(refusals))

    def topics(self, names: Iterable[str] | None = None) -> list[MetadataResponse.Topic]:
        """Metadata of the named topics, or of all; never creates one."""
        asked = None if names is None else [MetadataRequest.Topic(name=name) for name in names]
        reply: MetadataResponse = self.seed.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        return reply.topics or []

    def broker(self, node_id: int) -> Connection:
        if node_id not in self._by_id:
            found = [one for one in self.metadata.brokers if one.node_id == node_id]
            if not found:
                raise Failure(f"there is no broker {node_id}")
            self._by_id[node_id] = Connection(found[0].host, found[0].port, self._timeout)
        return self._by_id[node_id]

    def forget(self, node_id: int) -> None:
        """Close the connection to a broker; the next use makes a new one."""
        gone = self._by_id.pop(node_id, None)
        if gone is not None:
            gone.close()

    def brokers(self) -> dict[int, Connection]:
        """A connection to every broker, by id."""
        return {one.node_id: self.broker(one.node_id) for one in sorted(self.metadata.brokers, key=lambda b: b.node_id)}

    def controller(self) -> Connection:
        return self.broker(self.metadata.controller_id)

    def close(self) -> None:
        for connection in (self.seed, *self._by_id.values()):
            connection.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def error_text(code: int, message: str | None = None) -> str:
    """An error of the protocol in words; of a code that is not known here, the number."""
    known = _BY_CODE.get(code)
    return (
        f"{known.name}: {message or known.message}" if known else f"error {code}" + (f": {message}" if message else "")
    )


def error_name(code: int) -> str | None:
    """Kafka's name of an error of the protocol; librdkafka has others for some."""
    known = _BY_CODE.get(code)
    return known.name if known else None


_BY_CODE = {int(known): known for known in ErrorCode}
