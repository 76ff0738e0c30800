"""A connection keeps order, bounds its memory, and cuts off what it cannot trust."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.net.connection import KEPT_BUFFER, SMALL_BUFFER, WRITE_HIGH, BadFrame, Connection, Parked
from support.service import Peer, Service, frame, serving


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test

    asyncio.run(bounded())


def echo(connection: Connection, body: bytes) -> bytes:
    return frame(body)


class Held(Parked):
    """A parked request that the test answers."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Bytes:
    """A file part of `size` bytes that counts how much of it has been read."""

    def __init__(self, size: int) -> None:
        self.left, self.read_so_far, self.closed = size, 0, False

    def read(self, limit: int) -> bytes:
        taken = min(limit, self.left)
        self.left -= taken
        self.read_so_far += taken
        return b"f" * taken

    def close(self) -> None:
        self.closed = True


def test_frames_are_answered_in_order_however_they_are_cut() -> None:
    async def story() -> None:
        async with serving(echo) as service:
            peer = await service.connect()
            bodies = [b"request " + str(number).encode() * (number % 50 + 1) for number in range(300)]
            stream = b"".join(frame(body) for body in bodies)
            for at in range(0, len(stream), 37):
                peer.writer.write(stream[at : at + 37])
                await asyncio.sleep(0)
            for body in bodies:
                assert await peer.receive() == body

    run(story())


def test_a_parked_request_holds_back_the_replies_behind_it_and_nobody_else() -> None:
    async def story() -> None:
        held: list[Held] = []

        def handle(connection: Connection, body: bytes) -> bytes | Parked:
            if body.startswith(b"wait"):
                held.append(Held(connection))
                return held[-1]
            return frame(body)

        async with serving(handle) as service:
            one, other = await service.connect(), await service.connect()
            one.send(b"first...", b"wait....", b"third...")
            assert await one.receive() == b"first..."
            await service.until(lambda: held)
            other.send(b"unbothered")
            assert await other.receive() == b"unbothered"
            held[0].connection.answer(held[0], frame(b"second.."))
            assert await one.receive() == b"second.."
            assert await one.receive() == b"third..."

    run(story())


def test_a_parked_request_learns_that_its_client_has_left_and_its_late_answer_goes_nowhere() -> None:
    async def story() -> None:
        held: list[Held] = []

        def handle(connection: Connection, body: bytes) -> Parked:
            held.append(Held(connection))
            return held[-1]

        async with serving(handle) as service:
            peer = await service.connect()
            peer.send(b"wait....")
            await service.until(lambda: held)
            peer.writer.transport.abort()
            await service.until(lambda: held[0].cancelled)
            held[0].connection.answer(held[0], frame(b"late...."))

    run(story())


def test_while_a_request_is_parked_no_more_is_received_than_the_buffer_holds() -> None:
    async def story() -> None:
        held: list[Held] = []

        def handle(connection: Connection, body: bytes) -> Parked | bytes:
            if not held:
                held.append(Held(connection))
                return held[-1]
            return frame(body[:10])

        async with serving(handle) as service:
            peer = await service.connect()
            flood = [b"%08d" % number + b"x" * 1000 for number in range(5000)]
            peer.send(b"wait....", *flood)
            await service.until(lambda: held and not service.connections[0].transport.is_reading())
            assert len(service.connections[0]._buffer) <= 2 * SMALL_BUFFER
            held[0].connection.answer(held[0], frame(b"answered"))
            assert await peer.receive() == b"answered"
            for number in range(5000):
                assert (await peer.receive())[:8] == b"%08d" % number

    run(story())


def test_a_claimed_length_allocates_nothing_until_the_bytes_are_there() -> None:
    async def story() -> None:
        async with serving(echo, request_max_bytes=100_000_000) as service:
            peer = await service.connect()
            peer.writer.write(struct.pack(">i", 90_000_000) + b"only this much")
            other = await service.connect()
            other.send(b"hello there")
            assert await other.receive() == b"hello there"
            assert all(len(connection._buffer) <= 2 * SMALL_BUFFER for connection in service.connections)

    run(story())


def test_a_large_frame_passes_and_its_buffer_is_given_back() -> None:
    async def story() -> None:
        async with serving(echo) as service:
            peer = await service.connect()
            body = os.urandom(KEPT_BUFFER + 12345)
            peer.send(body, b"and on we go")
            assert await peer.receive() == body
            assert await peer.receive() == b"and on we go"
            await service.until(lambda: len(service.connections[0]._buffer) == SMALL_BUFFER)

    run(story())


@pytest.mark.parametrize("size", [-1, 0, 7, 10_000_001, 0x7FFFFFFF])
def test_an_impossible_length_closes_the_connection_after_the_replies_before_it(size: int) -> None:
    async def story() -> None:
        async with serving(echo) as service:
            peer = await service.connect()
            peer.writer.write(frame(b"good one") + struct.pack(">i", size) + b"whatever")
            assert await peer.receive() == b"good one"
            assert await peer.closed()

    run(story())


def test_a_frame_that_its_handler_cannot_read_closes_only_its_own_connection() -> None:
    async def story() -> None:
        def handle(connection: Connection, body: bytes) -> bytes:
            if body == b"nonsense":
                raise BadFrame("nonsense")
            return frame(body)

        async with serving(handle) as service:
            good, bad = await service.connect(), await service.connect()
            bad.send(b"good one", b"nonsense", b"not seen")
            assert await bad.receive() == b"good one"
            assert await bad.closed()
            good.send(b"still on")
            assert await good.receive() == b"still on"
            assert service.listener.census.refused == 1

    run(story())


def test_a_client_that_does_not_read_is_not_served_further_and_file_parts_stay_in_their_file() -> None:
    async def story() -> None:
        parts: list[Bytes] = []

        def handle(connection: Connection, body: bytes) -> list[Any]:
            parts.append(Bytes(40_000_000))
            return [struct.pack(">i", 40_000_000), parts[-1]]

        async with serving(handle, send_buffer=65536) as service:
            peer = await service.connect(limit=1024)
            peer.send(*[b"give me all"] * 10)
            await service.until(lambda: parts and service.connections[0]._paused_by_peer)
            assert len(parts) == 1
            assert parts[0].read_so_far < 20_000_000
            assert service.connections[0].transport.get_write_buffer_size() <= 2 * WRITE_HIGH
            for _ in range(10):
                size = struct.unpack(">i", await peer.reader.readexactly(4))[0]
                while size:
                    size -= len(await peer.reader.read(size))
            assert [part.closed for part in parts] == [True] * 10

    run(story())


def test_small_requests_with_large_replies_are_not_all_answered_into_memory() -> None:
    async def story() -> None:
        answered = 0

        def handle(connection: Connection, body: bytes) -> bytes:
            nonlocal answered
            answered += 1
            return frame(b"r" * 100_000)

        async with serving(handle, send_buffer=65536) as service:
            peer = await service.connect(limit=1024)
            peer.send(*[b"tell me all"] * 1000)
            await service.until(lambda: answered and service.connections[0]._paused_by_peer)
            assert service.connections[0].transport.get_write_buffer_size() <= 3 * WRITE_HIGH
            assert answered < 200

    run(story())


def test_file_parts_are_let_go_when_the_client_leaves_in_the_middle() -> None:
    async def story() -> None:
        part = Bytes(50_000_000)
        async with serving(
            lambda connection, body: [struct.pack(">i", 50_000_000), part], send_buffer=65536
        ) as service:
            peer = await service.connect(limit=1024)
            peer.send(b"give me all")
            await service.until(lambda: part.read_so_far)
            peer.writer.transport.abort()
            await service.until(lambda: part.closed)

    run(story())


def test_small_parts_and_file_parts_of_one_reply_come_in_order() -> None:
    async def story() -> None:
        def handle(connection: Connection, body: bytes) -> list[Any]:
            return [struct.pack(">i", 3_000_010), b"begin", Bytes(3_000_000), b"-end-"]

        async with serving(handle) as service:
            peer = await service.connect()
            peer.send(b"go ahead", b"and again")
            for _ in range(2):
                assert await peer.receive() == b"begin" + b"f" * 3_000_000 + b"-end-"

    run(story())


async def _half_a_frame(service: Service, size: int) -> Peer:
    peer = await service.connect()
    peer.writer.write(struct.pack(">i", size) + b"x" * (size // 2))
    return peer


def test_large_frames_wait_for_each_other_within_the_brokers_budget() -> None:
    async def story() -> None:
        async with serving(lambda connection, body: frame(body[:8]), budget=1_000_000) as service:
            budget = service.listener.budget
            first = await _half_a_frame(service, 800_000)
            await service.until(lambda: budget.used == 800_004)
            second = await _half_a_frame(service, 700_000)
            await service.until(lambda: len(service.connections) == 2 and budget._waiting)
            small = await service.connect()
            small.send(b"small frames are not held up")
            assert await small.receive() == b"small fr"
            first.writer.write(b"x" * 400_000)
            assert await first.receive() == b"x" * 8
            second.writer.write(b"x" * 350_000)
            assert await second.receive() == b"x" * 8
            assert budget.used == 0

    run(story())


def test_a_frame_larger_than_the_whole_budget_passes_alone() -> None:
    async def story() -> None:
        async with serving(echo, budget=100_000) as service:
            peer = await service.connect()
            peer.send(b"x" * 500_000)
            assert len(await peer.receive()) == 500_000

    run(story())


def test_a_client_that_leaves_gives_its_share_of_the_budget_back() -> None:
    async def story() -> None:
        async with serving(lambda connection, body: frame(body[:8]), budget=1_000_000) as service:
            first = await _half_a_frame(service, 900_000)
            await service.until(lambda: service.listener.budget.used)
            second = await service.connect()
            second.send(b"y" * 900_000)
            await service.until(lambda: service.listener.budget._waiting)
            first.writer.transport.abort()
            assert await second.receive() == b"y" * 8

    run(story())


def test_connections_over_the_limits_are_closed_and_places_become_free_again() -> None:
    async def story() -> None:
        async with serving(echo, connections=2) as service:
            kept = [await service.connect() for _ in range(2)]
            await service.until(lambda: len(service.connections) == 2)
            assert await (await service.connect()).closed()
            kept[0].writer.close()
            await service.until(lambda: len(service.connections) == 1)
            again = await service.connect()
            again.send(b"welcome.")
            assert await again.receive() == b"welcome."
        async with serving(echo, connections_per_ip=5, connections_per_ip_overrides={"127.0.0.1": 1}) as service:
            await service.connect()
            await service.until(lambda: len(service.connections) == 1)
            assert await (await service.connect()).closed()

    run(story())


def test_silent_connections_are_closed_and_parked_ones_are_not() -> None:
    async def story() -> None:
        held: list[Held] = []

        def handle(connection: Connection, body: bytes) -> Parked:
            held.append(Held(connection))
            return held[-1]

        async with serving(handle, idle_seconds=0.2) as service:
            waiting, silent = await service.connect(), await service.connect()
            waiting.send(b"wait....")
            assert await silent.closed()
            assert len(service.connections) == 1
            held[0].connection.answer(held[0], frame(b"patience"))
            assert await waiting.receive() == b"patience"
            assert await waiting.closed()

    run(story())


def test_a_client_that_stops_reading_is_cut_off_when_it_stays_so() -> None:
    async def story() -> None:
        part = Bytes(50_000_000)
        async with serving(
            lambda connection, body: [struct.pack(">i", 50_000_000), part], idle_seconds=0.3, send_buffer=65536
        ) as service:
            peer = await service.connect(limit=1024)
            peer.send(b"give me all")
            await service.until(lambda: part.closed)
            assert part.left

    run(story())


def test_quiet_connections_give_their_grown_buffers_back() -> None:
    async def story() -> None:
        async with serving(lambda connection, body: frame(body[:8]), idle_seconds=0.4) as service:
            peer = await service.connect()
            peer.send(b"x" * 1_000_000)
            await peer.receive()
            assert len(service.connections[0]._buffer) >= 1_000_000
            await service.until(lambda: not service.connections or len(service.connections[0]._buffer) == SMALL_BUFFER)
            assert service.connections

    run(story())


def test_every_interface_is_served_in_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(echo) as service:
            listener = service.listener
            listener.stop_accepting()
            listener.host, listener.port = "", 0
            listener.bind()
            await listener.open()
            hosts = ["127.0.0.1", "::1"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
            for host in hosts:
                peer = Peer(*await asyncio.open_connection(host, listener.port))
                peer.send(b"hello there")
                assert await peer.receive() == b"hello there"
                await service.until(lambda host=host: any(one.peer[0] == host for one in service.connections))

    run(story())
