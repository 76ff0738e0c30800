"""librdkafka pushes its metrics when a subscription asks for them, and Prometheus sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.protocol import messages
from ottla.testing import BrokerProcess
from support.prometheus import Page, scrape
from support.wire import Wire

PATIENCE = 60.0
ASKED = "ottla_client_metrics_asked_total"
CONSUMED = "org_apache_kafka_consumer_connection_creation_total"
PRODUCED = "org_apache_kafka_producer_connection_creation_total"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(overrides={"metrics.listener": "127.0.0.1:0"}) as broker:
        yield broker


def subscribe(broker: BrokerProcess, name: str, **settings: str) -> None:
    configs = [
        messages.IncrementalAlterConfigsRequest.Config(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in settings.items()
    ]
    resource = messages.IncrementalAlterConfigsRequest.Resource(resource_type=16, resource_name=name, configs=configs)
    wire = Wire("127.0.0.1", broker.port)
    (done,) = wire.call(messages.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert done.error_code == 0, done
    wire.close()


def seen(broker: BrokerProcess, condition: Callable[[Page], object], poll: Callable[[], object]) -> Page:
    """The first page that the condition holds for."""
    deadline = monotonic() + PATIENCE
    while True:
        page = scrape(broker.metrics_port)
        if condition(page):
            return page
        assert monotonic() < deadline, page.text
        poll()


def test_metrics_of_a_producer_and_a_consumer_reach_prometheus(broker: BrokerProcess) -> None:
    subscribe(broker, "all-of-the", metrics="*", interval_ms="100", match="client_id=the-.*")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "the-producer"})
    producer.produce("t", "hello")
    assert producer.flush(PATIENCE) == 0
    page = seen(broker, lambda page: page.of(PRODUCED, client_id="the-producer"), lambda: producer.poll(0.05))
    (sample,) = page.of(PRODUCED, client_id="the-producer")
    assert sample.labels["client_software_name"] == "confluent-kafka-python"
    assert len(sample.labels["client_instance_id"]) == 22
    assert page.types[PRODUCED] == "counter"
    (level,) = page.of("org_apache_kafka_producer_connection_creation_rate", client_id="the-producer")
    assert level.labels == sample.labels

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "client.id": "the-consumer", "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    page = seen(broker, lambda page: page.of(CONSUMED, client_id="the-consumer"), lambda: consumer.poll(0.05))
    taken = page.value("ottla_client_metrics_pushes_total")
    page = seen(
        broker,
        lambda page: page.value("ottla_client_metrics_pushes_total") >= taken + 4,
        lambda: consumer.poll(0.05),
    )
    assert page.value("ottla_client_metrics_dropped_total") == 0
    assert page.value("ottla_client_metrics_refused_total") == page.value("ottla_client_metrics_throttled_total")
    consumer.close()


def test_only_clients_that_match_push_only_what_they_are_asked_for(broker: BrokerProcess) -> None:
    subscribe(
        broker,
        "some",
        metrics="org.apache.kafka.producer.connection.creation.total",
        interval_ms="100",
        match="client_id=wanted-.*,client_software_name=confluent.*",
    )
    asked = scrape(broker.metrics_port).value(ASKED)
    names = {"wanted-1": {}, "other": {}, "wanted-2": {"enable.metrics.push": False}}
    clients = [
        Producer({"bootstrap.servers": broker.bootstrap, "client.id": name, **more}) for name, more in names.items()
    ]
    page = seen(
        broker,
        lambda page: page.of(PRODUCED, client_id="wanted-1") and page.value(ASKED) == asked + 2,
        lambda: [client.poll(0.02) for client in clients],
    )
    found = [sample for sample in page.samples if sample.labels.get("client_id") in names]
    assert {(sample.name, sample.labels["client_id"]) for sample in found} == {(PRODUCED, "wanted-1")}


def test_a_client_that_leaves_pushes_a_last_time(broker: BrokerProcess) -> None:
    subscribe(broker, "rarely", metrics="*", interval_ms="3600000", match="client_id=short")
    asked = scrape(broker.metrics_port).value(ASKED)
    clients = [Producer({"bootstrap.servers": broker.bootstrap, "client.id": "short"})]
    seen(broker, lambda page: page.value(ASKED) > asked, lambda: clients[0].poll(0.05))
    clients.clear()
    seen(broker, lambda page: page.of(PRODUCED, client_id="short"), lambda: None)
