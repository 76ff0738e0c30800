"""`ottla e2e-latency`: how long a record takes from a producer through the broker to a consumer, one at a time.

A record is sent, its acknowledgement awaited, then the record itself; each must come back as it was sent. The consumer
reads all partitions of the topic from their ends, without a group. Its fetches wait at the broker for the record
(Kafka's tool asks again and again instead); either way nothing is batched over time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import click

from ottla.cli.common import reach
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, int32, int64
from ottla.cli.common.progress import progress

POLL_SECONDS = 60.0
REPORT_EVERY = 1000
NAMES = ("bootstrap_server", "topic", "num_records", "producer_acks", "record_size", "command_config")
DEPRECATED = (
    "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
    "arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, --record-size, --command-config"
)


@click.command("e2e-latency", cls=Tool, short_help="Measure how long a record takes from producer to consumer.")
@click.argument("words", nargs=-1, metavar="[SERVER TOPIC RECORDS ACKS SIZE [FILE]]")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--topic", help="The topic; it is made with one partition where it is not there.")
@click.option("--num-records", type=int64(1), help="How many records to send.")
@click.option("--producer-acks", type=click.Choice(["1", "all"]), help="Whose acknowledgement the producer awaits.")
@click.option("--record-size", type=int32(0), help="Size of a record's value in bytes.")
@click.option("--record-key-size", type=int32(0), default=0, help="Size of a key; 0: records without a key.")
@click.option("--num-headers", type=int32(0), default=0, help="How many headers a record has.")
@click.option("--record-header-key-size", type=int32(0), default=0, help="Size of a header's key.")
@click.option("--record-header-size", type=int32(-1), default=0, help="Size of its value; -1: null.")
@click.option("--command-config", metavar="FILE", help="A property file with settings of both clients.")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Send one record after the other, wait for each to come back, and print how long that took.

    The older form without option names is taken, too.
    """
    options = _by_name(ctx, words, options)
    missing = [name for name in NAMES[1:5] if options[name] is None]
    if missing:
        raise click.UsageError(f"--{missing[0].replace('_', '-')} is wanted", ctx)
    if options["num_headers"] and not options["record_header_key_size"]:
        raise click.UsageError("--record-header-key-size is wanted with --num-headers", ctx)
    brokers = reach.find(options["bootstrap_server"], None, reach.properties_of(options["command_config"]))
    consumer = brokers.consumer({"group.id": f"test-group-{time.time_ns()}", "enable.auto.commit": "false"})
    try:
        _go_to_end(brokers, consumer, options["topic"])
        producer = brokers.producer({"linger.ms": "0", "acks": options["producer_acks"]})
        with progress("Measuring", options["num_records"]) as measured:
            took = _measure(producer, consumer, options, measured)
    finally:
        consumer.close()
    click.echo(f"Avg latency: {sum(took) / len(took) / 1e6:.4f} ms")
    whole = sorted(one // 1_000_000 for one in took)
    at = {part: whole[int(len(whole) * part)] for part in (0.5, 0.99, 0.999)}
    click.echo(f"Percentiles: 50th = {at[0.5]}, 99th = {at[0.99]}, 99.9th = {at[0.999]}")


def _by_name(ctx: click.Context, words: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The options, from the older form where that was used."""
    if not words:
        return options
    if len(words) not in (5, 6):
        raise click.UsageError(
            f"5 or 6 words are wanted, not {len(words)}: bootstrap-server topic num-records producer-acks record-size "
            "[command-config]",
            ctx,
        )
    click.echo(DEPRECATED, err=True)
    params = {param.name: param for param in ctx.command.params}
    read = {name: params[name].type_cast_value(ctx, word) for name, word in zip(NAMES, words)}
    return {**options, **read}


def _go_to_end(brokers: reach.Reach, consumer: Any, topic: str) -> None:
    from confluent_kafka import TopicPartition

    known = consumer.list_topics(timeout=30).topics
    if topic not in known:
        click.echo(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
        _create(brokers, topic)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not _partitions(known := consumer.list_topics(topic, timeout=30).topics):
            time.sleep(0.02)
    places = [TopicPartition(topic, number) for number in known[topic].partitions]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, timeout=30)[1]
    consumer.assign(places)


def _partitions(topics: dict[str, Any]) -> int:
    return sum(len(topic.partitions) for topic in topics.values() if topic.error is None)


def _create(brokers: reach.Reach, topic: str) -> None:
    from confluent_kafka.cimpl import NewTopic

    admin = brokers.admin()  # has to live until the answer is there
    admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=30)[topic].result()


def _measure(producer: Any, consumer: Any, options: dict[str, Any], measured: Callable[[int], None]) -> list[int]:
    """Nanoseconds of each record."""
    took = []
    chance = random.Random(0)
    failures: list[str] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(reach.kafka_error(error))

    def made(size: int) -> bytes:
        return bytes([65 + chance.randrange(26)]) * size

    for number in range(options["num_records"]):
        value = made(options["record_size"])
        key = made(options["record_key_size"]) or None
        headers = [
            (
                made(options["record_header_key_size"]).decode(),
                made(options["record_header_size"]) if options["record_header_size"] >= 0 else None,
            )
            for _ in range(options["num_headers"])
        ]
        begin = time.perf_counter_ns()
        producer.produce(options["topic"], value, key, headers=headers or None, on_delivery=delivered)
        producer.flush()
        if failures:
            raise Failure(f"record {number} was not sent: {failures[0]}")
        message = consumer.poll(POLL_SECONDS)
        elapsed = time.perf_counter_ns() - begin
        _validate(message, value, key, headers)
        if number % REPORT_EVERY == 0:
            click.echo(f"{number}\t{elapsed / 1000.0 / 1000.0}")
        took.append(elapsed)
        measured(number)
    if (more := consumer.poll(0)) is not None and more.error() is None:
        raise Failure("more records came than were sent: somebody else writes to this topic")
    return took


def _validate(message: Any, value: bytes, key: bytes | None, headers: list[Any]) -> None:
    if message is None:
        raise Failure(f"poll() timed out before finding a result (timeout:[{POLL_SECONDS * 1000:.0f}])")
    if message.error() is not None:
        raise Failure(reach.kafka_error(message.error()))
    for what, sent, read in (
        ("message", value, message.value()),
        ("key", key, message.key()),
        ("headers", headers, message.headers() or []),
    ):
        if sent != read:
            raise Failure(f"The {what} read [{read!r}] did not match the {what} sent [{sent!r}]")
