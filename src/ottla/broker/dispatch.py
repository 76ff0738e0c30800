"""From a frame to its handler and back.

    request  = api key int16 | version int16 | correlation id int32 | client id string? | [tags] | body
    response = correlation id int32 | [tags] | body

A handler registers itself: `@handles("Metadata", 0, 13)`. The ApiVersions answer is made from the same registry, so the
two cannot differ. Two kinds:

- `handles`: gets the decoded message, returns the response message. It may be `async def` where it waits for the disk
  or another part; then it runs as a task, and the connection's later requests wait their turn.
  Or it returns a `Deferred`, which it has given to somebody who will call it with the response.
- `handles_frames`: gets the frame itself and returns ready bytes or a `Parked` request. Produce and Fetch only.

Bytes behind a request are ignored, as Kafka does: librdkafka 2.16 sends three of them when it asks for all topics.
A request that cannot be read (unknown api, unknown version, malformed body) closes its connection, as the client and
the broker no longer agree on what the bytes mean; only ApiVersions has an answer for an unknown version. An exception
out of a handler is a bug: it is logged with the request's header, and the client is told UNKNOWN_SERVER_ERROR if the
response has a place for it.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.net.connection import BadFrame, Connection, Parked, Reply
from ottla.protocol import apis, codec, messages
from ottla.protocol.errors import ErrorCode, MalformedMessage, UnencodableValue
from ottla.protocol.model import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

Handler = TypeVar("Handler", bound=Callable[..., Any])

# (broker, connection, buffer, start, end, version, correlation id) -> reply
FrameReader = Callable[["Broker", Connection, memoryview, int, int, int, int], "Reply | Parked | None"]

API_VERSIONS = 18
LONGEST_WORDS = 1000  # of an error message that is too long for its field


class Request:
    """The header of a request, and who sent it."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self, api_key: int, version: int, correlation_id: int, client_id: str | None, connection: Connection
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection

    @property
    def listener(self) -> str:
        return self.connection.listener.name

    @property
    def peer(self) -> str:
        return self.connection.peer[0]

    @property
    def client_host(self) -> str:
        """The peer as Kafka shows it in descriptions of groups."""
        return "/" + self.connection.peer[0]

    @property
    def local_address(self) -> tuple[str, int]:
        """The address of ours that the client reached."""
        return self.connection.local_address

    def __str__(self) -> str:
        name = apis.API_NAMES.get(self.api_key, self.api_key)
        return f"{name} v{self.version} correlation {self.correlation_id} client {self.client_id!r} from {self.peer}"


class Route(NamedTuple):
    name: str
    api_key: int
    lowest: int
    highest: int
    handler: Callable[..., Any]
    takes_frames: bool


ROUTES: dict[int, Route] = {}


def handles(name: str, lowest: int, highest: int) -> Callable[[Handler], Handler]:
    return _register(name, lowest, highest, takes_frames=False)


def handles_frames(name: str, lowest: int, highest: int) -> Callable[[Handler], Handler]:
    return _register(name, lowest, highest, takes_frames=True)


def _register(name: str, lowest: int, highest: int, *, takes_frames: bool) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        key = apis.API_KEYS[name]
        ROUTES[key] = Route(name, key, lowest, highest, handler, takes_frames)
        return handler

    return register


class Waiting(Parked):
    """A request that a coroutine works on, as a task."""

    __slots__ = ("task",)

    task: asyncio.Task[None]

    def cancel(self) -> None:
        """The work goes on: a topic half made because its client left would be worse than a reply nobody reads."""


class Deferred(Parked):
    """A request that waits for another part of the broker, which calls this with the response: at once, or later."""

    __slots__ = ("is_impossible", "is_parked", "reply", "request")

    def __init__(self, request: Request) -> None:
        self.connection = request.connection
        self.request = request
        self.reply: bytes | None = None
        self.is_parked = False
        self.is_impossible = False

    def __call__(self, message: Any) -> None:
        request = self.request
        try:
            self.reply = framed(message, request.api_key, request.version, request.correlation_id)
        except Exception:
            log.exception("%s has an impossible answer; this is a bug", request)
            self.is_impossible = True
            if self.is_parked:
                self.connection.abandon(self, "internal error")
            return
        if self.is_parked:
            self.connection.answer(self, self.reply)


_running: set[asyncio.Task[None]] = set()  # a task that nobody holds may be collected before it is done


def wait_for(connection: Connection, work: Coroutine[Any, Any, Reply | None]) -> Parked:
    """Park the connection until `work` has its reply. An exception out of it closes the connection."""
    parked = Waiting()
    parked.connection = connection

    async def run() -> None:
        try:
            reply = await work
        except BadFrame as bad:
            connection.abandon(parked, str(bad))
        except Exception:
            log.exception("a request failed; this is a bug")
            connection.abandon(parked, "internal error")
        else:
            connection.answer(parked, reply)

    parked.task = asyncio.get_running_loop().create_task(run())
    _running.add(parked.task)
    parked.task.add_done_callback(_running.discard)
    return parked


class Dispatcher:
    __slots__ = ("_broker", "_frames")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # (api key << 16 | version) -> handler, for the two requests that read their own frames
        self._frames: dict[int, FrameReader] = {
            route.api_key << 16 | version: route.handler
            for route in ROUTES.values()
            if route.takes_frames
            for version in range(route.lowest, route.highest + 1)
        }

    def __call__(self, connection: Connection, buffer: memoryview, start: int, end: int) -> Reply | Parked | None:
        api_and_version, correlation_id = _KEY_AND_CORRELATION.unpack_from(buffer, start)
        handler = self._frames.get(api_and_version)
        if handler is None:
            return self._handle_message(connection, buffer[start:end])
        version = api_and_version & 0xFFFF
        try:
            return handler(self._broker, connection, buffer, start, end, version, correlation_id)
        except MalformedMessage as error:
            raise BadFrame(f"{apis.API_NAMES[api_and_version >> 16]} v{version}: {error}") from None
        except BadFrame:
            raise
        except Exception as error:
            log.exception("%s v%d failed; this is a bug", apis.API_NAMES[api_and_version >> 16], version)
            raise BadFrame("internal error") from error

    def _handle_message(self, connection: Connection, frame: memoryview) -> Reply | Parked | None:
        try:
            api_key, version, correlation_id, client_id, position = apis.decode_request_header(frame)
        except MalformedMessage as error:
            raise BadFrame(f"request header: {error}") from None
        route = ROUTES.get(api_key)
        if route is None:
            raise BadFrame(f"unknown api key {api_key}")
        connection.client_id = client_id
        request = Request(api_key, version, correlation_id, client_id, connection)
        if not route.lowest <= version <= route.highest:
            if api_key != API_VERSIONS:
                raise BadFrame(f"{route.name} v{version} is not served (v{route.lowest} to v{route.highest} are)")
            from ottla.broker.handlers.api_versions import unsupported_version

            return framed(unsupported_version(), api_key, 0, correlation_id)
        try:
            body, _ = codec.decoder(route.name + "Request", version)(frame, position)
        except MalformedMessage as error:
            raise BadFrame(f"{route.name} v{version}: {error}") from None
        try:
            reply = route.handler(self._broker, request, body)
            if isinstance(reply, Deferred):
                if reply.reply is not None:
                    return reply.reply
                if reply.is_impossible:
                    raise BadFrame("internal error")
                reply.is_parked = True
                return reply
            if asyncio.iscoroutine(reply):
                return wait_for(connection, self._finish(request, route, reply))
            return framed(reply, api_key, version, correlation_id)
        except BadFrame:
            raise
        except Exception:
            return self._bug(request, route)

    async def _finish(self, request: Request, route: Route, work: Coroutine[Any, Any, Any]) -> Reply:
        try:
            return framed(await work, request.api_key, request.version, request.correlation_id)
        except Exception:
            return self._bug(request, route)

    def _bug(self, request: Request, route: Route) -> bytes:
        log.exception("%s failed; this is a bug", request)
        response = getattr(messages, route.name + "Response")
        if "error_code" not in response.__slots__:
            raise BadFrame("internal error")
        reply = response(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return framed(reply, request.api_key, request.version, request.correlation_id)


def framed(message: Any, api_key: int, version: int, correlation_id: int) -> bytes:
    """A response as it goes on the wire, with its size."""
    try:
        body = codec.encode(message, version)
    except UnencodableValue:  # words about a name of 32 KB have no room beside it
        _shorten(message)
        body = codec.encode(message, version)
    if apis.response_header_version(api_key, version):
        return _HEADER_WITH_TAGS.pack(len(body) + 5, correlation_id, 0) + body
    return _HEADER.pack(len(body) + 4, correlation_id) + body


def _shorten(message: Any) -> None:
    """Cut the error messages in a response that are too long to be sent."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_message" and value and len(value) > LONGEST_WORDS:
            message.error_message = value[:LONGEST_WORDS] + "…"
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, Message):
                    _shorten(one)


_KEY_AND_CORRELATION = struct.Struct(">Ii")
_HEADER = struct.Struct(">ii")
_HEADER_WITH_TAGS = struct.Struct(">iib")
