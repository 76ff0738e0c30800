"""The port where Prometheus asks, and what it says to those who ask otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from ottla.broker.metrics import listener as module
from ottla.broker.metrics.figures import Figures
from ottla.broker.metrics.listener import MAX_CONNECTIONS, MetricsListener
from support.prometheus import Page


@contextlib.asynccontextmanager
async def listening(render):
    listener = MetricsListener("127.0.0.1", 0, render)
    listener.bind()
    await listener.open()
    try:
        yield listener
    finally:
        await listener.stop()


async def ask(port: int, *sent: bytes, end: bool = False) -> bytes:
    """Sends these bytes and returns all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for data in sent:
            writer.write(data)
        if end:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  what is waited for has no event of its own
            await asyncio.sleep(0.001)


def answer_to(*sent: bytes, end: bool = False, parts=("a 1\n", "b 2\n")) -> bytes:
    async def run() -> bytes:
        async with listening(lambda: iter(parts)) as listener:
            return await ask(listener.port, *sent, end=end)

    return asyncio.run(run())


def test_figures_are_given_in_chunks_to_http_1_1_and_until_the_end_to_http_1_0():
    head, _, body = answer_to(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
    assert body == b"4\r\na 1\n\r\n4\r\nb 2\n\r\n0\r\n\r\n"
    assert answer_to(b"GET /metrics HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\na 1\nb 2\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics?name=x HTTP/1.1", b"200"),
        (b"GET http://host:1/metrics HTTP/1.1", b"200"),
        (b"GET / HTTP/1.1", b"200"),
        (b"GET /nothing HTTP/1.1", b"404"),
        (b"GET /metrics/../etc/passwd HTTP/1.1", b"404"),
        (b"POST /nothing HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"DELETE / HTTP/1.1", b"405"),
        (b"GET /metrics", b"400"),
        (b"GET /metrics HTTP/2.0", b"400"),
        (b"GET  /metrics HTTP/1.1", b"400"),
        (b"\x00\x00\x00\x10\x00\x12\x00\x03", b"400"),
        (b"\xff\xfe", b"400"),
        (b"", b"400"),
    ],
)
def test_each_request_gets_its_status(request_line, status):
    assert answer_to(request_line + b"\r\nHost: x\r\n\r\n").split(b" ")[1] == status


def test_head_has_no_body():
    for path in (b"/metrics", b"/"):
        assert answer_to(b"HEAD " + path + b" HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")


def test_a_method_that_is_not_served_learns_which_are():
    assert b"\r\nAllow: GET, HEAD\r\n" in answer_to(b"PUT /metrics HTTP/1.1\r\n\r\n")


def test_a_body_that_nobody_asked_for_does_not_take_the_reply_away():
    assert b" 405 " in answer_to(
        b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", b"x" * 1_000_000, end=True
    )


def test_a_head_without_end_is_cut_off():
    assert b" 431 " in answer_to(b"GET /metrics HTTP/1.1\r\nX: ", b"x" * 20_000, end=True)


def test_half_a_request_is_a_bad_one_and_none_at_all_gets_nothing():
    assert b" 400 " in answer_to(b"GET /met", end=True)
    assert answer_to(end=True) == b""


def test_a_head_that_comes_too_slowly_ends(monkeypatch):
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.05)
    assert b" 408 " in answer_to(b"GET /metrics HTTP/1.1\r\n")


def test_a_client_that_does_not_read_is_cut_off(monkeypatch):
    monkeypatch.setattr(module, "BODY_SECONDS", 0.1)

    async def run() -> int:
        given = 0

        def endless():
            nonlocal given
            while True:
                given += 1
                yield "x" * 100_000

        async with listening(endless) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=10)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            await until(lambda: given and not listener._open)
            writer.close()
        return given

    assert asyncio.run(run()) < 1000


def test_only_so_many_are_served_at_once_and_then_others_again():
    async def run() -> None:
        async with listening(lambda: iter(("a 1\n",))) as listener:
            idle = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(MAX_CONNECTIONS)]
            await until(lambda: len(listener._open) == MAX_CONNECTIONS)
            assert b" 503 " in await ask(listener.port, b"GET /metrics HTTP/1.1\r\n\r\n", end=True)
            for _, writer in idle:
                writer.close()
            await until(lambda: not listener._open)
            assert b" 200 " in await ask(listener.port, b"GET /metrics HTTP/1.1\r\n\r\n")

    asyncio.run(run())


def test_a_failing_source_ends_the_connection_and_not_the_server():
    async def run() -> None:
        calls = []

        def render():
            calls.append(1)
            yield "a 1\n"
            if len(calls) == 1:
                raise RuntimeError("a bug")

        async with listening(render) as listener:
            assert not (await ask(listener.port, b"GET /metrics HTTP/1.1\r\n\r\n")).endswith(b"0\r\n\r\n")
            assert (await ask(listener.port, b"GET /metrics HTTP/1.1\r\n\r\n")).endswith(b"0\r\n\r\n")

    asyncio.run(run())


def test_an_address_in_use_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            MetricsListener("127.0.0.1", taken.getsockname()[1], lambda: iter(())).bind()


def test_figures_have_a_type_a_help_and_labels_and_a_failing_one_is_left_out(caplog):
    figures = Figures()
    figures.gauge("ottla_a", "With a \\ and a \n in it.", lambda: 1)
    figures.counter("ottla_b_total", "Twice.", lambda: [({"x": 'say "a\\b"\n'}, 2), ({"x": "two"}, 3.5)])
    figures.gauge("ottla_broken", "Never.", lambda: 1 / 0)
    figures.gauge("ottla_none", "Nothing yet.", list)
    figures.source(lambda: iter(["# TYPE other gauge\nother 7\n"]))
    page = Page("".join(figures.render()))
    assert page.value("ottla_a") == 1
    assert page.value("ottla_b_total", x='say "a\\b"\n') == 2
    assert page.types["ottla_b_total"] == "counter"
    assert page.value("other") == 7
    assert not page.of("ottla_broken")
    assert "ottla_broken failed" in caplog.text
    with pytest.raises(ValueError, match="twice"):
        figures.gauge("ottla_a", "Again.", lambda: 2)
