"""`ottla console-producer`: sends what it reads from stdin, a record per line, as Kafka's console producer does.

The client is librdkafka's. What Kafka's defaults say of the Java producer is told librdkafka in its words; two things
are done here: `max.block.ms` bounds how long a record waits for room in the full queue, and how long the topic may
take to appear (B CLI-13). A thread serves delivery reports, so that somebody who types learns of a failure at once.

Status 1 when something could not be sent; Kafka's tool only logs that.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import reach
from ottla.cli.common.invocation import INTERRUPTED, Failure
from ottla.cli.common.options import Tool, int32, int64, key_values
from ottla.cli.common.reach import kafka_error, properties_of
from ottla.cli.console.readers import Reader, Record, reader
from ottla.cli.console.serialization import Serializer, Unserializable, serializer

if TYPE_CHECKING:
    from confluent_kafka import Producer

# Kafka's option: its property and its default, which gives way to a property of the user's
TUNING = {
    "timeout": ("linger.ms", "1000"),
    "request_required_acks": ("acks", "-1"),
    "request_timeout_ms": ("request.timeout.ms", "1500"),
    "message_send_max_retries": ("retries", "3"),
    "retry_backoff_ms": ("retry.backoff.ms", "100"),
    "socket_buffer_size": ("send.buffer.bytes", "102400"),
    "max_memory_bytes": ("buffer.memory", "33554432"),
    "batch_size": ("batch.size", "16384"),
    "max_partition_memory_bytes": ("batch.size", "16384"),
    "metadata_expiry_ms": ("metadata.max.age.ms", "300000"),
    "max_block_ms": ("max.block.ms", "60000"),
    "compression_codec": ("compression.type", "none"),
}
DEFAULTS = {"client.id": "console-producer", "delivery.timeout.ms": "120000"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ENCODER = "kafka.serializer.DefaultEncoder"
LINE_READER = "org.apache.kafka.tools.LineMessageReader"
ANSWER_SECONDS = 10.0  # for metadata, however short a record may block
FIRST_PATIENCE_SECONDS, MOST_PATIENCE_SECONDS = 0.1, 1.0


@click.command("console-producer", cls=Tool, short_help="Send what is typed, a record per line.")
@click.option("--topic", required=True, help="Where the records go.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--broker-list", metavar="HOST:PORT,...", help="The same as --bootstrap-server.")
@click.option(
    "--producer.config", "--command-config", "config", metavar="FILE", help="A property file of the producer."
)
@click.option(
    "--producer-property", "--command-property", "properties", multiple=True, metavar="KEY=VALUE", help="One of them."
)
@click.option(
    "--property",
    "--reader-property",
    "reader_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of the reader: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
    "headers.key.separator, null.marker, ignore.error.",
)
@click.option("--reader-config", metavar="FILE", help="A property file of the reader.")
@click.option("--line-reader", default=LINE_READER, metavar="CLASS", help="What makes records of the input.")
@click.option("--key-serializer", metavar="CLASS", help=f"What makes bytes of keys: {ENCODER}.")
@click.option("--value-serializer", metavar="CLASS", help="The same for values.")
@click.option("--sync", is_flag=True, help="Wait for each record's acknowledgement before the next.")
@click.option(
    "--compression-codec",
    is_flag=False,
    flag_value="gzip",
    type=click.Choice(CODECS),
    help="How batches are compressed: not at all, or with gzip where no codec is named.",
)
@click.option("--timeout", type=int32(0), metavar="MS", help="How long a batch may wait to fill up: 1000.")
@click.option("--batch-size", type=int32(1), metavar="BYTES", help="Largest batch: 16384.")
@click.option("--max-partition-memory-bytes", type=int64(1), metavar="BYTES", help="The same, and goes before.")
@click.option("--max-memory-bytes", type=int64(1024), metavar="BYTES", help="Most that may wait: 33554432.")
@click.option("--max-block-ms", type=int64(0), metavar="MS", help="How long sending may block: 60000.")
@click.option("--message-send-max-retries", type=int32(0), metavar="N", help="How often to try again: 3.")
@click.option("--retry-backoff-ms", type=int32(1), metavar="MS", help="How long before that: 100.")
@click.option("--request-required-acks", type=click.Choice(["-1", "0", "1", "all"]), help="Acknowledgements: all.")
@click.option("--request-timeout-ms", type=int32(1), metavar="MS", help="How long they may take: 1500.")
@click.option("--metadata-expiry-ms", type=int32(1), metavar="MS", help="Age of metadata: 300000.")
@click.option("--socket-buffer-size", type=int32(0), metavar="BYTES", help="Size of the send buffer: 102400.")
def command(
    topic: str,
    bootstrap_server: str | None,
    broker_list: str | None,
    config: str | None,
    properties: tuple[str, ...],
    reader_properties: tuple[str, ...],
    reader_config: str | None,
    line_reader: str,
    key_serializer: str | None,
    value_serializer: str | None,
    sync: bool,
    **tuning: Any,
) -> int | None:
    """Send what is typed, a record per line, until the input ends.

    Serializers are DefaultEncoder and Kafka's StringSerializer, IntegerSerializer, LongSerializer and so on; a reader
    or serializer of your own is a Python class on PYTHONPATH, named package.module.Class.
    """
    settings = {**properties_of(config), **key_values(properties, "--producer-property", exact=True)}
    key_name = key_serializer or settings.get("key.serializer", ENCODER)
    value_name = value_serializer or settings.get("value.serializer", ENCODER)
    key = serializer(key_name, is_key=True, option="--key-serializer", properties=settings)
    value = serializer(value_name, is_key=False, option="--value-serializer", properties=settings)
    lines = reader(
        line_reader,
        {
            **properties_of(reader_config),
            "topic": topic,
            **key_values(reader_properties, "--property", exact=True),
        },
    )
    for option, (name, default) in TUNING.items():
        if tuning[option] is not None:
            settings[name] = str(tuning[option])
        else:
            settings.setdefault(name, default)
    settings = {**DEFAULTS, **settings}
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)
    brokers = reach.find(reach.first_given(bootstrap_server, broker_list), None, settings)
    return Sender(brokers, topic, key, value, sync).send_all(lines)


class Sender:
    """Hands records to a producer and keeps account of those that were lost."""

    def __init__(self, brokers: reach.Reach, topic: str, key: Serializer, value: Serializer, sync: bool) -> None:
        block = brokers.properties.pop("max.block.ms")
        if not block.isdigit():
            raise click.UsageError(f"max.block.ms={block} is illegal: must be a whole number")
        self._block_seconds = int(block) / 1000
        # librdkafka fails the records of a topic that has not appeared within this time
        self._producer: Producer = brokers.producer(
            {"topic.metadata.propagation.max.ms": str(min(int(block), 3600_000))}
        )
        self._topic, self._key, self._value, self._sync = topic, key, value, sync
        self._sent = 0
        self._lost = 0
        self._done = threading.Event()
        self._room = threading.Condition()

    def send_all(self, lines: Reader) -> int | None:
        reports = threading.Thread(target=self._serve_reports, daemon=True)
        reports.start()
        status = None
        try:
            for record in lines.read_records(sys.stdin.buffer):
                if not self._sent:
                    self._await_topic(record.topic or self._topic)
                self._send(record)
        except KeyboardInterrupt:
            status = INTERRUPTED
        finally:
            self._producer.flush()
            self._done.set()
            reports.join()
            if hasattr(lines, "close"):
                lines.close()
        if self._lost:
            raise Failure(f"{self._lost} of {self._sent} messages could not be sent")
        return status

    def _serve_reports(self) -> None:
        while not self._done.is_set():
            self._producer.poll(0.1)

    def _await_topic(self, topic: str) -> None:
        """Wait until the topic can be written to, which may take a moment where the broker creates it (B CLI-13)."""
        deadline = time.monotonic() + self._block_seconds
        patience = FIRST_PATIENCE_SECONDS
        asked = 0
        while True:
            asked += 1
            found = self._producer.list_topics(topic, max(self._block_seconds, ANSWER_SECONDS)).topics[topic]
            if found.error is None and found.partitions:
                return
            problem = found.error.name() if found.error is not None else "LEADER_NOT_AVAILABLE"
            if found.error is not None and not found.error.retriable() and problem not in CURABLE:
                raise Failure(f"{topic}: {kafka_error(found.error)}")
            told = f"{{{topic}={CURABLE.get(problem, problem)}}}"
            click.echo(f"WARN Error while fetching metadata with correlation id {asked} : {told}", err=True)
            if time.monotonic() + patience > deadline:
                raise Failure(f"Topic {topic} not present in metadata after {self._block_seconds * 1000:.0f} ms.")
            time.sleep(patience)
            patience = min(2 * patience, MOST_PATIENCE_SECONDS)

    def _send(self, record: Record) -> None:
        topic = record.topic or self._topic
        try:
            key = None if record.key is None else self._key(topic, record.key)
            value = None if record.value is None else self._value(topic, record.value)
        except Unserializable as error:
            raise Failure(f"record {self._sent + 1} cannot be sent: {error}") from None
        options: dict[str, Any] = {}
        if record.headers:
            options["headers"] = list(record.headers)
        if record.partition is not None:
            options["partition"] = record.partition
        if record.timestamp is not None:
            options["timestamp"] = record.timestamp
        before = self._lost
        self._produce(topic, value, key, options)
        self._sent += 1
        if self._sync:
            self._producer.flush()
            if self._lost > before:
                raise Failure(f"the {self._sent}. message could not be sent, and --sync ends there")

    def _produce(self, topic: str, value: bytes | None, key: bytes | None, options: dict[str, Any]) -> None:
        deadline = time.monotonic() + self._block_seconds
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._reported, **options)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    self._tell(topic, key, value, f"no room in the queue after {self._block_seconds * 1000:.0f} ms")
                    return
                with self._room:
                    self._room.wait(0.1)
            except Exception as error:
                if type(error).__name__ != "KafkaException":
                    raise
                self._tell(topic, key, value, kafka_error(error))
                return

    def _reported(self, error: Any, message: Any) -> None:
        if error is not None:
            self._tell(message.topic(), message.key(), message.value(), kafka_error(error))
        with self._room:
            self._room.notify_all()

    def _tell(self, topic: str, key: Any, value: Any, problem: str) -> None:
        self._lost += 1
        sizes = [f"{len(data)} bytes" if data is not None else "null" for data in (key, value)]
        what = f"message to topic {topic} with key: {sizes[0]}, value: {sizes[1]}"
        click.echo(f"Error when sending {what} with error: {problem}", err=True)


# what a topic that is being created, or was created elsewhere, passes through; librdkafka's name: Kafka's
CURABLE = {
    "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION",
    "_UNKNOWN_TOPIC": "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE": "LEADER_NOT_AVAILABLE",
}
