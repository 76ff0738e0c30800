"""What is kept of clients' pushes, and how Prometheus sees it."""

from __future__ import annotations

import pytest

from ottla.broker.telemetry.otlp import read_metrics
from ottla.broker.telemetry.series import KEPT_PUSHES, MAX_POINTS, ClientSeries, ready
from support import otlp
from support.prometheus import Page

ME, OTHER = b"m" * 16, b"o" * 16
JAVA = {
    "client_id": 'the "first"\\one\n',
    "client_instance_id": "bW1tbW1tbW1tbW1tbW1tbQ",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.3.1",
}
C = {**JAVA, "client_id": "second", "client_software_name": "librdkafka"}


class Broker:
    def __init__(self, **limits):
        self.series = ClientSeries(**limits)

    def push(self, *metrics, who=ME, attributes=JAVA, **resource):
        self.series.take(who, attributes, *ready(read_metrics(otlp.metrics(*metrics, **resource))))

    @property
    def page(self):
        return Page("".join(self.series.render()))


@pytest.fixture
def broker():
    return Broker()


def test_a_series_has_the_labels_of_its_client_its_resource_and_its_point(broker):
    broker.push(otlp.gauge("org.apache.kafka.x-y.z", otlp.number(1.5, **{"node.id": 3})), group_id="g")
    (sample,) = broker.page.samples
    assert sample.name == "org_apache_kafka_x_y_z"
    assert sample.labels == {**JAVA, "group_id": "g", "node_id": "3"}
    assert sample.value == 1.5


def test_a_clients_own_words_for_its_identity_do_not_count(broker):
    broker.push(otlp.gauge("g", otlp.number(1, client_id="somebody else")), client_instance_id="mine")
    assert broker.page.value("g", client_id=JAVA["client_id"], client_instance_id=JAVA["client_instance_id"]) == 1


def test_deltas_add_up_to_a_counter_per_client(broker):
    broker.push(otlp.total("sent.total", otlp.number(3)))
    broker.push(otlp.total("sent.total", otlp.number(4)))
    broker.push(otlp.total("sent.total", otlp.number(100)), who=OTHER, attributes=C)
    assert broker.page.types["sent_total"] == "counter"
    assert broker.page.value("sent_total", client_software_name="apache-kafka-java") == 7
    assert broker.page.value("sent_total", client_software_name="librdkafka") == 100


def test_totals_replace_each_other(broker):
    broker.push(otlp.total("sent", otlp.number(3), delta=False))
    broker.push(otlp.total("sent", otlp.number(5), delta=False))
    assert broker.page.value("sent_total") == 5


def test_a_sum_that_may_fall_is_a_gauge_of_all_changes(broker):
    broker.push(otlp.total("level", otlp.number(3), monotonic=False))
    broker.push(otlp.total("level", otlp.number(-1), monotonic=False))
    assert broker.page.types["level"] == "gauge"
    assert broker.page.value("level") == 2


def test_histograms_add_up_and_their_buckets_are_cumulative(broker):
    broker.push(otlp.histogram("time", [1, 2, 3], [0.5, 1.0], 4.5))
    broker.push(otlp.histogram("time", [1, 0, 0], [0.5, 1.0], 0.5))
    page = broker.page
    assert page.types["time_bucket"] == "histogram"
    assert [page.value("time_bucket", le=le) for le in ("0.5", "1", "+Inf")] == [2, 4, 7]
    assert (page.value("time_count"), page.value("time_sum")) == (7, 5.0)
    broker.push(otlp.histogram("time", [5, 5], [2.0], 9.0))
    assert broker.page.value("time_bucket", le="2") == 5  # other bounds: begun anew


def test_summaries_show_their_quantiles(broker):
    broker.push(otlp.summary("size", 4, 10.0, {0.5: 2.0, 0.99: 8.0}))
    assert broker.page.value("size", quantile="0.99") == 8
    assert (broker.page.value("size_count"), broker.page.value("size_sum")) == (4, 10)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300, -0.0, 2.5e-7])
def test_odd_numbers_are_shown_as_prometheus_reads_them(broker, value):
    broker.push(otlp.gauge("odd", otlp.number(value)))
    shown = broker.page.value("odd")
    assert shown == value or (shown != shown and value != value)


def test_a_gauge_that_is_no_longer_pushed_goes_and_a_counter_stays(broker):
    broker.push(otlp.gauge("old", otlp.number(1)), otlp.total("sent", otlp.number(1)))
    for _ in range(KEPT_PUSHES - 1):
        broker.push()
    assert broker.page.of("old")
    broker.push()
    assert not broker.page.of("old")
    assert broker.page.value("sent_total") == 1


def test_a_client_that_is_forgotten_leaves_nothing(broker):
    broker.push(otlp.gauge("a", otlp.number(1)), otlp.histogram("h", [1, 2], [0.5], 1.0))
    broker.push(otlp.gauge("a", otlp.number(2)), who=OTHER, attributes=C)
    broker.series.forget(ME)
    assert [sample.value for sample in broker.page.samples] == [2]
    broker.series.forget(OTHER)
    broker.series.forget(OTHER)
    assert (broker.page.samples, broker.series.weight, broker.series.instances) == ([], 0, [])
    broker.push(otlp.gauge("h_count", otlp.number(1)))  # the name is free again
    assert broker.page.value("h_count") == 1


def test_the_first_type_of_a_name_holds_and_others_are_left_out(broker):
    broker.push(otlp.gauge("a.b", otlp.number(1)), otlp.summary("a-b", 1, 1.0, {}), otlp.histogram("h", [1], [], 1.0))
    broker.push(otlp.gauge("h_count", otlp.number(9)), otlp.gauge("h", otlp.number(9)))
    assert broker.page.value("a_b") == 1
    assert broker.page.value("h_count") == 1
    assert broker.series.dropped == 3


def test_a_client_cannot_pass_for_the_broker(broker):
    broker.push(otlp.gauge("ottla.connections", otlp.number(1)), otlp.gauge("process_open_fds", otlp.number(1)))
    assert broker.page.samples == []
    assert broker.series.dropped == 2


def test_so_many_series_are_kept_of_a_client_and_so_many_of_all():
    broker = Broker(most=12, most_of_instance=10)
    broker.push(*(otlp.gauge(f"g{at}", otlp.number(at)) for at in range(20)))
    assert (len(broker.page.samples), broker.series.dropped) == (10, 10)
    broker.push(*(otlp.gauge(f"g{at}", otlp.number(at)) for at in range(20)), who=OTHER, attributes=C)
    assert (len(broker.page.samples), broker.series.dropped) == (12, 28)
    broker.push(otlp.gauge("g3", otlp.number(99)))  # those that are kept go on
    assert broker.page.value("g3", client_id=JAVA["client_id"]) == 99
    broker.series.forget(ME)
    broker.push(otlp.histogram("h", [1] * 10, [float(at) for at in range(9)], 1.0), who=OTHER, attributes=C)
    assert broker.series.dropped == 29, "the buckets of a histogram count"


@pytest.mark.parametrize(
    "metric", [otlp.gauge("g" * 256, otlp.number(1)), otlp.gauge("g", otlp.number(1, x="y" * 600))]
)
def test_endless_names_and_labels_are_left_out(broker, metric):
    broker.push(metric)
    assert (broker.page.samples, broker.series.dropped) == ([], 1)


def test_a_page_of_many_series_comes_in_parts(broker):
    for at in range(30):
        gauges = (otlp.gauge("g", *(otlp.number(n, n=n) for n in range(100))), otlp.gauge("x", otlp.number(1)))
        broker.push(*gauges, who=bytes([at]) * 16, attributes={**JAVA, "client_instance_id": str(at)})
    parts = list(broker.series.render())
    assert max(map(len, parts)) < 200_000
    assert len(Page("".join(parts)).samples) == 30 * 101


def test_what_follows_the_first_thousands_of_points_of_a_push_is_not_read():
    def endless():
        (point,) = read_metrics(otlp.metrics(otlp.gauge("g", otlp.number(1))))
        while True:
            yield point

    taken, dropped = ready(endless())
    assert (len(taken), dropped) == (MAX_POINTS, 1)
