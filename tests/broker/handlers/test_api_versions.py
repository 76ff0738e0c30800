"""ApiVersions: the first thing that every client asks."""

import struct

import pytest

from ottla.broker.dispatch import ROUTES
from ottla.broker.handlers.api_versions import TELEMETRY
from ottla.protocol import apis, codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import ApiVersionsRequest, IncrementalAlterConfigsRequest
from support.requests import frame_of


def ask(name="client", version="1.0"):
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
def test_the_answer_is_what_is_served(wire, version):
    reply = wire.call(ask(), version)
    assert reply.error_code == 0
    served = {one.api_key: (one.min_version, one.max_version) for one in reply.api_keys}
    assert served == {
        route.api_key: (route.lowest, route.highest) for route in ROUTES.values() if route.name not in TELEMETRY
    }
    assert list(served) == sorted(served)


def test_requests_about_clients_metrics_are_listed_while_somebody_wants_these(wire):
    def listed():
        return {71, 72} & {one.api_key for one in wire.call(ask(), 4).api_keys}

    def subscribe(operation):
        config = IncrementalAlterConfigsRequest.Config(name="interval.ms", config_operation=operation, value="1000")
        resource = IncrementalAlterConfigsRequest.Resource(
            resource_type=16, resource_name="all-clients", configs=[config]
        )
        (answer,) = wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert answer.error_code == 0

    assert listed() == set()
    subscribe(0)
    assert listed() == {71, 72}
    subscribe(1)
    assert listed() == set()


def test_all_that_is_served_can_be_read_and_written():
    for route in ROUTES.values():
        first, last = apis.version_range(route.name)
        assert first <= route.lowest <= route.highest <= last, route.name


def test_clients_find_the_versions_that_they_look_for():
    """What clients infer a broker's age from, or cannot live without."""
    wanted = {"Produce": (0, 13), "Fetch": (0, 18), "Metadata": (0, 13), "ApiVersions": (0, 4), "ListOffsets": (0, 11)}
    for name, versions in wanted.items():
        route = ROUTES[apis.API_KEYS[name]]
        assert (route.lowest, route.highest) == versions, name
    assert ROUTES[apis.API_KEYS["FindCoordinator"]].highest >= 1  # transactions of librdkafka


@pytest.mark.parametrize("version", [5, 9, 32767, -1])
def test_a_version_that_is_not_served_is_answered_in_version_0(wire, version):
    frame = frame_of(ask(), 3, "client")
    frame = frame[:2] + struct.pack(">h", version) + frame[4:]
    wire.socket.sendall(struct.pack(">i", len(frame)) + frame)
    reply = wire.frame()
    assert reply[:4] == struct.pack(">i", 7)
    body = codec.decode("ApiVersionsResponse", 0, reply[4:])
    assert body.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in body.api_keys] == [(18, 0, 4)]
    assert wire.call(ask(), 4).error_code == 0


@pytest.mark.parametrize("version", [3, 4])
def test_the_header_of_the_reply_has_no_tags_in_any_version(wire, version):
    wire.send(ask(), version)
    reply = wire.frame()
    assert codec.decode("ApiVersionsResponse", version, reply[4:]).api_keys


@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", "1.0"), ("client", ""), ("-client", "1"), ("client", "1.0-"), ("two words", "1"), ("é", "1"), ("c\n", "1")],
)
def test_software_that_is_oddly_spelled_is_refused_from_version_3_on(wire, name, software_version):
    assert wire.call(ask(name, software_version), 3).error_code == ErrorCode.INVALID_REQUEST
    assert wire.call(ask(name, software_version), 2).error_code == 0
    assert wire.call(ask("a", "0"), 3).error_code == 0
