"""Peers that speak nonsense, half sentences, or nothing at all: the broker goes on, and so do its other clients."""

import asyncio
import os
import socket
import struct
from pathlib import Path

import pytest

from ottla.broker.dispatch import ROUTES
from ottla.protocol.apis import API_KEYS, encode_request_header
from ottla.protocol.batch import check
from ottla.protocol.messages import ApiVersionsRequest
from ottla.protocol.records import iter_batches
from support.mutants import Mutants
from support.requests import batch, fetch, frame_of, produce, values_in
from support.waiting import wait_until
from support.wire import Wire

FRAMES = 10_000
WARM = 2_000
AT_ONCE = 40
SEED = int(os.environ.get("OTTLA_SEED", "1"))
GROWTH = 6 * 1024 * 1024


def resident(broker):
    """Bytes of memory that the broker holds."""
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(broker):
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


@pytest.fixture
def broker(ottla_broker_factory):
    # Topics are not made by mistake; nothing else than the frames decides what the broker holds.
    return ottla_broker_factory(overrides={"auto.create.topics.enable": "false", "socket.listen.backlog.size": "1000"})


@pytest.fixture
def wire(broker):
    wire = Wire("127.0.0.1", broker.port)
    yield wire
    wire.close()


def all_bytes(wire, topic):
    answer = fetch(wire, topic, 0, partition_max_bytes=1 << 30)
    assert answer.error_code == 0
    return bytes(answer.records), answer.high_watermark


def test_ten_thousand_mutated_frames_leave_the_broker_as_it_was(broker, wire):
    wire.create("kept")
    target_id = wire.create("target", 2)
    for number in range(50):
        produce(wire, "kept", batch(f"value {number}"))
    before = all_bytes(wire, "kept")
    files = open_files(broker)
    mutants = Mutants(SEED, ["target"], [target_id], ["kept"])
    assert {struct.unpack_from(">hh", frame) for frame in mutants.valid} == {
        (route.api_key, version) for route in ROUTES.values() for version in range(route.lowest, route.highest + 1)
    }
    asyncio.run(send_all(broker.port, mutants, WARM))
    warm = resident(broker)
    asyncio.run(send_all(broker.port, mutants, FRAMES - WARM))
    story = f"seed {SEED}\n{broker.stderr[-3000:]}"
    assert broker.is_running, story
    assert resident(broker) - warm < GROWTH, f"{warm} -> {resident(broker)} bytes, {story}"
    assert "bug" not in broker.stderr, story
    assert "Traceback" not in broker.stderr, story
    assert all_bytes(Wire("127.0.0.1", broker.port), "kept") == before, story
    assert produce(wire, "kept", batch("more")).base_offset == 50, story
    assert open_files(broker) <= files + 8, story  # segments and partitions of a few topics more
    for partition in range(2):
        data = bytes(fetch(wire, "target", 0, partition, partition_max_bytes=1 << 30).records or b"")
        for position, _ in iter_batches(data):
            check(data, position)
    assert broker.stop() == 0
    broker.start()
    assert all_bytes(Wire("127.0.0.1", broker.port), "kept")[1] == 51


async def send_all(port, mutants, count):
    """Send so many frames, over many connections at once, a few on each."""
    left = count

    async def peer():
        nonlocal left
        while left > 0:
            burst = min(left, mutants.chance.choice((1, 1, 1, 1, 6)))
            left -= burst
            await send_some(port, b"".join(mutants.next() for _ in range(burst)))

    await asyncio.gather(*(peer() for _ in range(AT_ONCE)))


PING = bytes(encode_request_header(API_KEYS["ApiVersions"], 0, 0x5EC0DE55, None))
PONG = struct.pack(">i", 0x5EC0DE55)


async def send_some(port, data):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data + struct.pack(">i", len(PING)) + PING)
        try:
            # Until the frame behind the bad ones is answered, or the broker has had enough. It may also wait for the
            # rest of a frame that was longer in words than in deeds: then it is told that there is none.
            await asyncio.wait_for(until_answered(reader), 0.3)
        except TimeoutError:
            writer.write_eof()
            await asyncio.wait_for(until_closed(reader), 20)
    except ConnectionError:
        pass
    finally:
        writer.close()


async def until_answered(reader):
    tail = b""
    while data := await reader.read(65536):
        tail = (tail + data)[-100_000:]
        if PONG in tail:
            return


async def until_closed(reader):
    while await reader.read(65536):
        pass


def test_five_hundred_slow_peers_keep_nobody_from_being_served(broker, wire):
    wire.create("t")
    question = frame_of(ApiVersionsRequest(client_software_name="slow", client_software_version="1" * 300), 3, None)
    frame = struct.pack(">i", len(question)) + question
    assert produce(wire, "t", batch("first")).base_offset == 0  # from here on the log keeps its file open
    before, files = resident(broker), open_files(broker)
    peers = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(500)]
    try:
        for at, peer in enumerate(peers):
            match at % 5:
                case 0:
                    pass  # says nothing
                case 1:
                    peer.sendall(frame[:3])  # part of a size
                case 2:
                    peer.sendall(frame[:100])  # part of a frame
                case 3:
                    peer.sendall(struct.pack(">i", 100_000_000) + bytes(1000))  # a promise of 100 MB
                case _:
                    peer.sendall(frame * 20)  # asks, and does not read
        for number in range(20):
            assert produce(wire, "t", batch(f"{number}")).base_offset == number + 1
            for peer in peers[2::5]:
                peer.sendall(frame[100 + number : 101 + number])  # a byte now and then
        assert len(values_in(fetch(wire, "t", 0).records)) == 21
        assert resident(broker) - before < 500 * 64 * 1024
        peers[2].sendall(frame[120:])  # who finishes the sentence is answered
        assert peers[2].recv(4)
    finally:
        for at, peer in enumerate(peers):
            if at % 2:  # some go with a bang
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
    wait_until(lambda: open_files(broker) <= files)
    assert produce(wire, "t", batch("x")).base_offset == 21
    assert "Traceback" not in broker.stderr
