"""GetTelemetrySubscriptions and PushTelemetry over the wire, and the page where their metrics are shown."""

from __future__ import annotations

import socket

import pytest

from ottla.protocol import compression, messages
from ottla.protocol.errors import ErrorCode as E
from support import otlp
from support.prometheus import scrape

ZERO = bytes(16)


@pytest.fixture
def watched(serve):
    """A broker with a page of metrics."""
    return serve(metrics_listener="127.0.0.1:0")


def subscribe(wire, name="s", **configs):
    settings = {"metrics": "*", "interval.ms": "100", **{key.replace("_ms", ".ms"): v for key, v in configs.items()}}
    Config = messages.IncrementalAlterConfigsRequest.Config
    resource = messages.IncrementalAlterConfigsRequest.Resource(
        resource_type=16,
        resource_name=name,
        configs=[Config(name=key, config_operation=0 if v else 1, value=v) for key, v in settings.items()],
    )
    (done,) = wire.call(messages.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert done.error_code == 0, done


def get(wire, instance_id=ZERO):
    return wire.call(messages.GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


def push(wire, asked, metrics=b"", codec=0, **changes):
    fields = {
        "client_instance_id": asked.client_instance_id,
        "subscription_id": asked.subscription_id,
        "terminating": False,
        "compression_type": codec,
        "metrics": compression.compress(codec, metrics) if codec in range(5) else metrics,
    } | changes
    return wire.call(messages.PushTelemetryRequest(**fields), 0).error_code


def page(served):
    return scrape(served.broker.metrics.port)


SENT = otlp.metrics(otlp.total("org.apache.kafka.sent.total", otlp.number(3, topic="t")))


def test_a_client_without_a_subscription_gets_an_id_and_nothing_to_do(served):
    first, second = get(served.wire()), get(served.wire())
    assert (first.error_code, first.requested_metrics, first.push_interval_ms) == (0, [], 300_000)
    assert first.client_instance_id not in (ZERO, second.client_instance_id)
    assert first.accepted_compression_types == [4, 3, 1, 2]
    assert (first.telemetry_max_bytes, first.delta_temporality) == (1_048_576, True)


def test_a_client_keeps_its_id_over_connections(served):
    asked = get(served.wire())
    again = get(served.wire(), asked.client_instance_id)
    assert again.error_code == E.THROTTLING_QUOTA_EXCEEDED
    assert get(served.wire(), b"i" * 16).client_instance_id == b"i" * 16


@pytest.mark.parametrize("codec", range(5))
def test_metrics_in_any_codec_are_shown_with_who_sent_them(watched, codec):
    wire = watched.wire(client_id="me")
    wire.call(messages.ApiVersionsRequest(client_software_name="my-client", client_software_version="1.2"), 3)
    subscribe(wire)
    asked = get(wire)
    assert asked.requested_metrics == ["*"]
    assert asked.push_interval_ms == 100
    assert push(wire, asked, SENT, codec) == 0
    (sample,) = page(watched).of("org_apache_kafka_sent_total")
    assert sample.value == 3
    assert sample.labels.keys() == {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "topic",
    }
    assert (sample.labels["client_id"], sample.labels["client_software_name"]) == ("me", "my-client")
    assert sample.labels["client_software_version"] == "1.2"


def test_a_client_that_says_nothing_of_itself_is_served(watched):
    wire = watched.wire(client_id=None)
    subscribe(wire)
    assert push(wire, get(wire), SENT) == 0
    assert page(watched).value("org_apache_kafka_sent_total", client_id="", client_software_name="") == 3


def test_subscriptions_are_matched_against_the_software_that_the_connection_told(served):
    wire, other = served.wire(), served.wire()
    wire.call(messages.ApiVersionsRequest(client_software_name="my-client", client_software_version="1.2"), 3)
    subscribe(wire, match="client_software_name=my-.*,client_software_version=1\\..*,client_source_address=127.0.0.1")
    assert get(wire).requested_metrics == ["*"]
    assert get(other).requested_metrics == []


def test_a_changed_subscription_makes_the_old_id_unknown_and_a_removed_one_asks_for_nothing(served):
    wire = served.wire()
    subscribe(wire, interval_ms="60000")
    asked = get(wire)
    subscribe(wire, interval_ms="50000")
    assert push(wire, asked) == E.UNKNOWN_SUBSCRIPTION_ID
    assert get(wire, asked.client_instance_id).push_interval_ms == 50_000
    subscribe(wire, metrics=None, interval_ms=None)
    assert get(wire, asked.client_instance_id).requested_metrics == []


def test_subscriptions_outlive_a_restart_and_clients_go_on(served):
    wire = served.wire()
    subscribe(wire, interval_ms="60000")
    asked = get(wire)
    served.restart()
    assert push(served.wire(), asked, SENT) == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"client_instance_id": ZERO}, E.INVALID_REQUEST),
        ({"client_instance_id": bytes(15) + b"\1"}, E.INVALID_REQUEST),
        ({"subscription_id": 1}, E.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 5}, E.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": -1}, E.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": b"x" * 5001}, E.TELEMETRY_TOO_LARGE),
        ({"metrics": compression.compress(4, bytes(50_000)), "compression_type": 4}, E.TELEMETRY_TOO_LARGE),
        ({"metrics": b"nothing of the kind"}, E.INVALID_RECORD),
        ({"metrics": SENT, "compression_type": 1}, E.INVALID_RECORD),
        ({"metrics": SENT, "compression_type": 2}, E.INVALID_RECORD),
        ({"metrics": SENT, "compression_type": 3}, E.INVALID_RECORD),
        ({"metrics": SENT, "compression_type": 4}, E.INVALID_RECORD),
        ({"metrics": SENT[:-1]}, E.INVALID_RECORD),
    ],
)
def test_a_bad_push_is_refused_and_leaves_no_trace(serve, changes, error):
    served = serve(metrics_listener="127.0.0.1:0", telemetry_max_bytes=5000)
    wire = served.wire()
    subscribe(wire)
    assert push(wire, get(wire), **changes) == error
    shown = page(served)
    assert not shown.of("org_apache_kafka_sent_total")
    assert shown.value("ottla_client_metrics_refused_total") == 1


def test_a_push_too_early_is_throttled_and_counted(watched):
    wire = watched.wire()
    subscribe(wire, interval_ms="600000")
    asked = get(wire)
    assert push(wire, asked, SENT) == 0
    assert push(wire, asked, SENT) == E.THROTTLING_QUOTA_EXCEEDED
    assert page(watched).value("org_apache_kafka_sent_total") == 3
    assert page(watched).value("ottla_client_metrics_throttled_total") == 1
    assert push(wire, asked, SENT, terminating=True) == 0
    assert page(watched).value("org_apache_kafka_sent_total") == 6
    assert push(wire, asked, SENT) == E.INVALID_REQUEST


def test_clients_that_are_gone_are_no_longer_shown(watched):
    wire = watched.wire()
    subscribe(wire)
    push(wire, get(wire), SENT)
    telemetry = watched.broker.telemetry

    async def long_after() -> None:
        telemetry.instances.expire(10**15)
        telemetry.sweep()

    watched.run(long_after())
    shown = page(watched)
    assert not shown.of("org_apache_kafka_sent_total")
    assert (shown.value("ottla_client_instances"), shown.value("ottla_client_metrics_series")) == (0, 0)


def test_the_brokers_own_figures_are_shown(watched):
    wire = watched.wire()
    wire.create("t", 3)
    shown = page(watched)
    (info,) = shown.of("ottla_broker_info")
    assert info.labels["node_id"] == "0"
    assert shown.value("ottla_topics") == 1
    assert shown.value("ottla_partitions") == 3
    assert shown.value("ottla_connections") == 1
    assert shown.value("ottla_offline_partitions") == shown.value("ottla_uncleanable_partitions") == 0
    assert shown.value("process_resident_memory_bytes") > 1_000_000
    assert shown.value("process_cpu_seconds_total") > 0


def test_without_the_setting_no_port_is_opened(served):
    assert served.broker.metrics is None


def test_the_port_is_closed_when_the_broker_stops(serve):
    served = serve(metrics_listener="127.0.0.1:0")
    port = served.broker.metrics.port
    served.settings["metrics_listener"] = f"127.0.0.1:{port}"
    idle = socket.create_connection(("127.0.0.1", port))
    served.restart()
    assert page(served).value("ottla_topics") == 0
    idle.close()
