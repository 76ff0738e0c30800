"""What tests of applications rely on."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from ottla.streams import App, tumbling
from ottla.streams.testing import Driver
from ottla.testing import BrokerProcess
from support.consoles import fresh
from support.waiting import wait_until

EAGER = {"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "100"}


def wait_for_retention(bootstrap: str) -> None:
    """Until the broker has deleted a record of long ago, which it does to all topics in one go."""
    name = fresh("old")
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its futures fail when it goes
    admin.create_topics([NewTopic(name, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(name, "x", timestamp=1_000)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    try:
        wait_until(lambda: consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=30)[0])
    finally:
        consumer.close()


def test_records_of_long_ago_stay_for_the_test(
    spark: SparkSession, ottla_broker_factory: Callable[..., BrokerProcess]
) -> None:
    bootstrap = ottla_broker_factory(overrides=EAGER).bootstrap
    app = App("driver")
    app.stream("in").group_by_key().windowed_by(tumbling(seconds=5)).count("Counts").to("out")
    with Driver(app, bootstrap, spark) as driver:
        driver.send("in", "x", key="a", timestamp=1_000)
        driver.flush()
        wait_for_retention(bootstrap)
        driver.run()
        wait_for_retention(bootstrap)
        ((_, count),) = driver.read("out")
        assert count == 1
        assert driver.store("Counts").get("a", 0) == 1
