"""From frames to handlers: what cannot be read, what fails, and what comes in which order."""

import asyncio
import struct

import pytest

from ottla.broker import dispatch
from ottla.broker.dispatch import ROUTES, Deferred, Route
from ottla.protocol import apis
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    UpdateFeaturesRequest,
)
from support.requests import batch, fetch_request, frame_of, produce_request


def send_raw(wire, frame):
    wire.socket.sendall(struct.pack(">i", len(frame)) + frame)


def is_served(served):
    wire = served.wire()
    return wire.call(ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", apis.API_KEYS["Metadata"], 99, 1, -1) + b"\0",
        struct.pack(">hhih", apis.API_KEYS["Metadata"], -1, 1, -1),
        struct.pack(">hhih", apis.API_KEYS["Produce"], 14, 1, -1) + b"\0",
        struct.pack(">hhih", apis.API_KEYS["Fetch"], 19, 1, -1) + b"\0",
        struct.pack(">hhi", apis.API_KEYS["Metadata"], 0, 1),
        struct.pack(">hhih", apis.API_KEYS["Metadata"], 0, 1, 500) + b"short",
        struct.pack(">hhih", apis.API_KEYS["Metadata"], 0, 1, 2) + b"\xff\xfe" + bytes(4),
        struct.pack(">hhihi", apis.API_KEYS["Metadata"], 0, 1, -1, 1_000_000),
        struct.pack(">hhi", apis.API_KEYS["Produce"], 9, 1),
        struct.pack(">hhi", apis.API_KEYS["Fetch"], 12, 1),
        struct.pack(">hhih", apis.API_KEYS["Fetch"], 4, 1, 32767),
    ],
    ids=[
        "unknown api",
        "negative api",
        "version too new",
        "negative version",
        "Produce too new",
        "Fetch too new",
        "no client id",
        "short client id",
        "client id not UTF-8",
        "huge array",
        "Produce header only",
        "Fetch header only",
        "Fetch client id beyond its end",
    ],
)
def test_what_cannot_be_read_closes_its_connection_and_no_other(served, frame):
    wire = served.wire()
    send_raw(wire, frame)
    with pytest.raises(ConnectionError):
        wire.frame()
    assert is_served(served)


def test_replies_made_before_a_bad_frame_are_sent(served):
    wire = served.wire()
    first = wire.send(ApiVersionsRequest(), 0)
    send_raw(wire, struct.pack(">hhih", 999, 0, 1, -1))
    wire.receive("ApiVersions", 0, first)
    with pytest.raises(ConnectionError):
        wire.frame()


def test_what_follows_a_request_in_its_frame_is_ignored(wire):
    send_raw(wire, frame_of(MetadataRequest(topics=None), 12, "librdkafka") + b"\1\2\3")
    assert wire.frame()
    assert wire.call(ApiVersionsRequest(), 0).error_code == 0


def test_requests_of_one_connection_are_answered_in_order_whatever_they_are(wire):
    wire.create("t")
    requests = [
        ("Produce", produce_request(("t", 0, batch("a"))), 9),
        ("CreateTopics", CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name="u", num_partitions=1)]), 5),
        ("Fetch", fetch_request(("t", 0, 0)), 12),
        ("Fetch", fetch_request(("t", 0, 1), max_wait_ms=10), 12),
        ("Metadata", MetadataRequest(topics=[]), 12),
        ("Fetch", fetch_request(("t", 0, 0)), 1),
        ("ApiVersions", ApiVersionsRequest(), 0),
    ] * 5
    sent = [(name, version, wire.send(request, version)) for name, request, version in requests]
    for name, version, correlation_id in sent:
        wire.receive(name, version, correlation_id)


@pytest.fixture
def handle_with(monkeypatch):
    """Put another handler in the place of an api's own."""

    def put(name, handler):
        key = apis.API_KEYS[name]
        monkeypatch.setitem(ROUTES, key, ROUTES[key]._replace(handler=handler))

    return put


def test_a_handler_that_fails_is_told_where_the_reply_has_a_place_for_it(served, wire, handle_with, caplog):
    def fail(broker, request, body):
        raise ZeroDivisionError("oops")

    async def fail_later(broker, request, body):
        await asyncio.sleep(0)
        raise ZeroDivisionError("oops")

    for handler in (fail, fail_later):
        caplog.clear()
        handle_with("DescribeCluster", handler)
        assert wire.call(DescribeClusterRequest(), 0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        (record,) = [one for one in caplog.records if "bug" in one.message]
        assert "DescribeCluster v0" in record.message
        assert "oops" in str(record.exc_info)
    assert wire.call(ApiVersionsRequest(), 0).error_code == 0


def test_a_handler_that_fails_closes_the_connection_where_the_reply_has_none(served, handle_with, caplog):
    def fail(broker, request, body):
        raise ZeroDivisionError("oops")

    async def fail_later(broker, request, body):
        raise ZeroDivisionError("oops")

    for handler in (fail, fail_later):
        handle_with("ListOffsets", handler)
        wire = served.wire()
        wire.send(ListOffsetsRequest(), 1)
        with pytest.raises(ConnectionError):
            wire.frame()
    assert is_served(served)


def test_a_reply_that_cannot_be_written_is_a_bug_like_any_other(served, wire, handle_with, caplog):
    def too_long(broker, request, body):
        return DescribeClusterResponse(cluster_id="x" * 40_000)

    async def too_long_later(broker, request, body):
        return DescribeClusterResponse(cluster_id="x" * 40_000)

    for handler in (too_long, too_long_later):
        handle_with("DescribeCluster", handler)
        assert wire.call(DescribeClusterRequest(), 0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    handle_with("ListOffsets", lambda *_: ListOffsetsResponse(throttle_time_ms="no number"))
    wire.send(ListOffsetsRequest(), 2)
    with pytest.raises(ConnectionError):
        wire.frame()
    assert is_served(served)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_a_reply_of_somebody_else_that_cannot_be_written_leaves_nobody_waiting(served, handle_with, at_once):
    def defer(broker, request, body):
        deferred = Deferred(request)
        answer = DescribeClusterResponse(cluster_id="x" * 40_000)
        if at_once:
            deferred(answer)
        else:
            broker.loop.call_soon(deferred, answer)
        return deferred

    handle_with("DescribeCluster", defer)
    wire = served.wire()
    wire.send(DescribeClusterRequest(), 0)
    with pytest.raises(ConnectionError):
        wire.frame()
    assert is_served(served)


def test_words_about_a_very_long_name_are_cut(wire, handle_with):
    updates = [UpdateFeaturesRequest.FeatureUpdate(feature="f" * 32_767, max_version_level=1, upgrade_type=1)]
    reply = wire.call(UpdateFeaturesRequest(feature_updates=updates, timeout_ms=1000), 2)
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "fff" in reply.error_message

    name = "g" * 32_767
    group = DescribeGroupsResponse.Group(group_id=name, error_code=69, error_message=f"there is no group {name}")
    handle_with("DescribeGroups", lambda *_: DescribeGroupsResponse(groups=[group]))
    (seen,) = wire.call(DescribeGroupsRequest(groups=[name]), 6).groups
    assert (seen.group_id, seen.error_code) == (name, 69)
    assert seen.error_message.startswith("there is no group ggg")


def test_a_frame_handler_that_fails_closes_its_connection(serve, handle_with, caplog):
    def fail(*arguments):
        raise ZeroDivisionError("oops")

    handle_with("Produce", fail)  # a dispatcher takes those when it is made
    served = serve()
    wire = served.wire()
    wire.send(produce_request(("t", 0, batch("a"))), 9)
    with pytest.raises(ConnectionError):
        wire.frame()
    assert "Produce v9 failed; this is a bug" in caplog.text
    assert is_served(served)


def test_an_async_handler_goes_on_when_its_client_has_left(served, handle_with, until):
    events = []
    gate = asyncio.Event()

    async def slow(broker, request, body):
        events.append("begun")
        await gate.wait()
        events.append("done")
        return DescribeClusterResponse()

    handle_with("DescribeCluster", slow)
    wire = served.wire()
    wire.send(DescribeClusterRequest(), 0)
    until(lambda: events == ["begun"])
    wire.close()
    served.loop.call_soon_threadsafe(gate.set)
    until(lambda: events == ["begun", "done"])
    assert is_served(served)
    until(lambda: not dispatch._running)


def test_a_handler_knows_who_asks(served, handle_with):
    asked = []

    def note(broker, request, body):
        asked.append((request.client_id, request.peer, request.listener, request.local_address, str(request)))
        return DescribeClusterResponse()

    handle_with("DescribeCluster", note)
    wire = served.wire(client_id="me")
    wire.call(DescribeClusterRequest(), 1)
    ((client_id, peer, listener, local_address, text),) = asked
    assert (client_id, peer, listener) == ("me", "127.0.0.1", "PLAINTEXT")
    assert local_address == ("127.0.0.1", served.port())
    assert text == "DescribeCluster v1 correlation 1 client 'me' from 127.0.0.1"


def test_every_route_has_its_place():
    for key, route in ROUTES.items():
        assert isinstance(route, Route)
        assert apis.API_KEYS[route.name] == key == route.api_key
