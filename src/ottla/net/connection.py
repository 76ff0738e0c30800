"""One client connection: frames in, replies out in the same order.

    frame = int32 size | size bytes          (both directions)

Bytes are received straight into the connection's own buffer and handed on as a memoryview into it; whoever handles a
frame is done with the view when it returns. Rules that hold here:

- Requests are answered in the order they came. While one is parked (a long poll, a wait for replicas) the frames behind
  it stay unread in the buffer.
- A length field allocates nothing: the buffer doubles as bytes arrive, up to the frame's size.
- A client that does not read is not served further: while replies wait for its socket, no more of its frames are
  handled. What waits is bounded by one reply's small parts and one chunk of a file, since file parts are read as the
  socket drains.
- All replies to one receive go out in one write, or in several when they come to more than a megabyte.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from ottla.net.listener import Listener

log = logging.getLogger(__name__)

SMALL_BUFFER = 16 * 1024
KEPT_BUFFER = 2 * 1024 * 1024  # a buffer grown past this is given back as soon as it is empty
RESERVED_FROM = 64 * 1024  # frames larger than this count against the broker's budget
FILE_CHUNK = 1024 * 1024
WRITE_HIGH, WRITE_LOW = 1024 * 1024, 256 * 1024
SMALLEST_FRAME = 8  # api key, version, correlation id

_SIZE = struct.Struct(">i")

Buffer: TypeAlias = bytes | bytearray | memoryview


class FilePart(Protocol):
    """Part of a reply that lies in a file: read in chunks, when the socket can take them."""

    def read(self, limit: int) -> bytes:
        """The next bytes, at most `limit`; empty when the part is finished. OSError when the file let us down."""

    def close(self) -> None:
        """Called once the part is sent, or will never be."""


Reply: TypeAlias = Buffer | Sequence[Buffer | FilePart]


class Parked:
    """A request that waits for something. Its owner calls `connection.answer(self, reply)` when it is there."""

    __slots__ = ("connection",)

    connection: Connection

    def cancel(self) -> None:
        """The connection is gone: forget the request."""


# What the layer above does with a frame: (connection, buffer, start, end) -> reply, None (no reply), or Parked.
FrameHandler: TypeAlias = Callable[["Connection", memoryview, int, int], "Reply | Parked | None"]


class BadFrame(Exception):
    """The stream cannot be trusted any more; the connection is closed after the replies already made."""


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_buffer",
        "_end",
        "_files",
        "_handle",
        "_out",
        "_parked",
        "_paused_by_peer",
        "_processing",
        "_reading_paused",
        "_reserved",
        "_start",
        "_view",
        "client_id",
        "closing",
        "data",
        "last_active",
        "listener",
        "local_address",
        "peer",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, listener: Listener, handle: FrameHandler) -> None:
        # for the life of the connection
        self.listener = listener
        self._handle = handle
        self.peer: tuple[str, int] = ("?", 0)
        self.local_address: tuple[str, int] = ("?", 0)
        self.closing = False
        self.last_active = monotonic()
        self.data: dict[str, object] = {}  # what the layers above keep per connection
        self.client_id: str | None = None
        # receiving
        self._buffer = bytearray(SMALL_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._reserved = 0
        self._reading_paused = False
        # answering
        self._parked: Parked | None = None
        self._processing = False
        self._out: list[Buffer] = []
        self._files: deque[Buffer | FilePart] = deque()
        self._paused_by_peer = False

    # -- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peer = _address(transport.get_extra_info("peername") or self.peer)
        self.local_address = _address(transport.get_extra_info("sockname") or self.local_address)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        self.listener.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        parked, self._parked = self._parked, None
        if parked is not None:
            parked.cancel()
        self._drop_output()
        self._release()
        self.listener.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._end == len(self._buffer):
            self._make_room()
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if self._parked is None and not self._files and not self._paused_by_peer:
            self.process()
        elif self._end == len(self._buffer):
            self._pause_reading()

    def eof_received(self) -> bool:
        return False  # the transport closes itself once what is written is sent

    def pause_writing(self) -> None:
        self._paused_by_peer = True

    def resume_writing(self) -> None:
        self._paused_by_peer = False
        self.last_active = monotonic()
        if self._files:
            self._pump()
        if not self._files and not self._paused_by_peer and self._parked is None:
            self.process()

    # -- frames --------------------------------------------------------------------------------------------------

    def process(self) -> None:
        """Handle every whole frame in the buffer, then send all the replies at once."""
        if self._processing or self.closing:
            return
        self._processing = True
        view, start, end, out = self._view, self._start, self._end, self._out
        handle, largest = self._handle, self.listener.limits.request_max_bytes
        queued = 0
        try:
            while end - start >= 4:
                size = _SIZE.unpack_from(view, start)[0]
                if size < SMALLEST_FRAME or size > largest:
                    raise BadFrame(f"frame of {size} bytes")
                frame = start + 4
                start_of_next = frame + size
                if start_of_next > end:
                    self._start = start
                    self._expect(4 + size)
                    break
                reply = handle(self, view, frame, start_of_next)
                self._start = start = start_of_next
                if self._reserved:
                    self._release()
                if isinstance(reply, (bytes, bytearray)):
                    out.append(reply)
                    queued += len(reply)
                elif reply is None:
                    continue
                elif isinstance(reply, Parked):
                    self._parked = reply
                    break
                else:
                    queued += self._queue(reply)
                    if self._files:
                        break
                if queued > WRITE_HIGH:
                    queued = 0
                    self._send()
                    if self._paused_by_peer:
                        break
        except BadFrame as bad:
            self._start = self._end = 0
            self._give_up(str(bad))
        finally:
            self._processing = False
            self.last_active = monotonic()
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > KEPT_BUFFER:
                self._replace_buffer(SMALL_BUFFER)
        if out:
            self._send()
        if self._files:
            self._pump()
        if self._reading_paused and not (
            self._parked or self._files or self._paused_by_peer or self.closing or self.listener.budget.waits(self)
        ):
            self._reading_paused = False
            self.transport.resume_reading()

    def answer(self, parked: Parked, reply: Reply | None) -> None:
        """The parked request has its reply; the frames behind it have their turn soon."""
        if self._parked is not parked:
            return
        self._parked = None
        if isinstance(reply, (bytes, bytearray)):
            self._out.append(reply)
        elif reply is not None:
            self._queue(reply)
        if self._out:
            self._send()
        if self._files:
            self._pump()
        if self._end > self._start or self._reading_paused:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._parked is None and not self._files and not self._paused_by_peer:
            self.process()

    def exchange(self, parked: Parked, successor: Parked) -> None:
        """What the parked request waited for is there, and now it waits for something else."""
        if self._parked is parked:
            self._parked = successor

    def abandon(self, parked: Parked, why: str) -> None:
        """The parked request cannot be answered: close, since a later reply would be taken for its."""
        if self._parked is parked:
            self._parked = None
            self._give_up(why)

    @property
    def waits_for_peer(self) -> bool:
        """Whether replies wait for a client that does not read."""
        return bool(self._files) or self._paused_by_peer

    @property
    def is_parked(self) -> bool:
        return self._parked is not None

    # -- sending -------------------------------------------------------------------------------------------------

    def _queue(self, reply: Reply) -> int:
        """Take the parts of a reply; returns the bytes of those that can be sent at once."""
        assert not isinstance(reply, (bytes, bytearray, memoryview))
        files, size = self._files, 0
        for part in reply:
            if files or not isinstance(part, (bytes, bytearray, memoryview)):
                files.append(part)
            else:
                self._out.append(part)
                size += len(part)
        return size

    def _send(self) -> None:
        out = self._out
        if len(out) == 1:
            self.transport.write(out[0])
        else:
            self.transport.writelines(out)
        self._out.clear()

    def _pump(self) -> None:
        """Send file parts, a chunk at a time, as long as the socket takes them."""
        files, transport = self._files, self.transport
        try:
            while files and not self._paused_by_peer and not self.closing:
                part = files[0]
                if isinstance(part, (bytes, bytearray, memoryview)):
                    transport.write(part)
                    files.popleft()
                    continue
                chunk = part.read(FILE_CHUNK)
                if chunk:
                    transport.write(chunk)
                else:
                    files.popleft()
                    part.close()
        except OSError as error:
            self._give_up(f"could not read the log: {error}")
            return
        if not files and (self._end > self._start or self._reading_paused):
            asyncio.get_running_loop().call_soon(self._go_on)

    def _drop_output(self) -> None:
        for part in self._files:
            if not isinstance(part, (bytes, bytearray, memoryview)):
                part.close()
        self._files.clear()
        self._out.clear()

    def _give_up(self, why: str) -> None:
        if not self.closing:
            self.listener.refused(self, why)
            self.closing = True
            if self._out:
                self._send()
            if self._files:  # half a reply cannot be finished
                self._drop_output()
                self.transport.abort()
            else:
                self.transport.close()

    def close(self) -> None:
        """Close once what is written has been sent."""
        if not self.closing:
            self.closing = True
            self.transport.close()

    # -- the receive buffer --------------------------------------------------------------------------------------

    def _expect(self, frame_size: int) -> None:
        """A frame is on its way: see that there is room for it, and that the broker can afford it."""
        if frame_size > RESERVED_FROM and not self._reserved:
            if not self.listener.budget.reserve(self, frame_size):
                self._pause_reading()
                return
            self._reserved = frame_size
        if self._end == len(self._buffer):
            self._make_room()

    def granted(self) -> None:
        """The budget has room for the frame that we waited for."""
        if not self.closing:
            self.process()

    def _make_room(self) -> None:
        if self._start:
            waiting = self._end - self._start
            self._buffer[:waiting] = self._buffer[self._start : self._end]
            self._start, self._end = 0, waiting
        if self._end * 2 > len(self._buffer):
            self._replace_buffer(len(self._buffer) * 2)

    def _replace_buffer(self, size: int) -> None:
        buffer = bytearray(size)
        held = self._end - self._start
        buffer[:held] = self._view[self._start : self._end]
        self._buffer, self._view = buffer, memoryview(buffer)
        self._start, self._end = 0, held

    def shrink(self) -> None:
        """Give back a grown buffer that nothing uses; the listener's sweep calls this on quiet connections."""
        if self._start == self._end and len(self._buffer) > SMALL_BUFFER and not self._processing:
            self._start = self._end = 0
            self._replace_buffer(SMALL_BUFFER)

    def _release(self) -> None:
        self._reserved = 0
        self.listener.budget.release(self)

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self.closing:
            self._reading_paused = True
            self.transport.pause_reading()


def _address(name: tuple[str, int]) -> tuple[str, int]:
    """Host and port; an IPv4 peer of a socket for both families is shown as what it is."""
    return name[0].removeprefix("::ffff:"), name[1]
