"""`ottla verifiable-producer`: sends 0, 1, 2, … and says of each whether it was acknowledged (A2 REL-053).

One line of JSON per event: startup_complete, then producer_send_success or producer_send_error for each record,
shutdown_complete, and tool_data with the sums. Nothing is sent twice (`retries=0`) unless the settings say so.
"""

from __future__ import annotations

import time
from typing import Any

import click

from ottla.cli.common import reach
from ottla.cli.common.events import Stop, emit
from ottla.cli.common.options import Tool, int32, int64
from ottla.cli.common.throttle import Throttle

ERRORS = "org.apache.kafka.common.errors"
# librdkafka's names of errors whose class in Java is not the same name in another spelling
CLASSES = {
    "MSG_TIMED_OUT": "TimeoutException",
    "MSG_SIZE_TOO_LARGE": "RecordTooLargeException",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "NotEnoughReplicasAfterAppendException",
    "NOT_LEADER_FOR_PARTITION": "NotLeaderOrFollowerException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "TIMED_OUT": "TimeoutException",
    "TOPIC_EXCEPTION": "InvalidTopicException",
    "TRANSPORT": "NetworkException",
    "UNKNOWN_PARTITION": "UnknownTopicOrPartitionException",
    "UNKNOWN_TOPIC": "UnknownTopicOrPartitionException",
    "UNKNOWN_TOPIC_OR_PART": "UnknownTopicOrPartitionException",
}


@click.command("verifiable-producer", cls=Tool, short_help="Produce numbers, and tell each one's fate as JSON.")
@click.option("--topic", required=True, help="Produce to this topic.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--broker-list", metavar="HOST:PORT,...", help="The same as --bootstrap-server.")
@click.option("--max-messages", type=int64(), default=-1, help="How many records; -1: until it is told to stop.")
@click.option("--throughput", type=int64(), default=-1, help="Records a second, about; -1: as many as possible.")
@click.option("--acks", type=click.Choice(["-1", "0", "1"]), default="-1", help="Acknowledgements that are awaited.")
@click.option("--message-create-time", type=int64(), default=-1, help="Timestamps begin there, in ms since 1970.")
@click.option("--value-prefix", type=int32(), help="A number and a dot before each value.")
@click.option("--repeating-keys", type=int32(1), help="Keys 0, 1, … below this number, again and again.")
@click.option("--command-config", metavar="FILE", help="A property file with settings of the producer.")
@click.option("--producer.config", "producer_config", metavar="FILE", help="The same as --command-config.")
def command(topic: str, max_messages: int, throughput: int, acks: str, **options: Any) -> None:
    """Send increasing numbers, and print as JSON which were acknowledged and which were not."""
    properties = {
        "acks": acks,
        "retries": "0",
        **reach.properties_of(options["command_config"], options["producer_config"]),
    }
    brokers = reach.find(reach.first_given(options["bootstrap_server"], options["broker_list"]), None, properties)
    run = Run(topic, options["message_create_time"], options["value_prefix"], options["repeating_keys"])
    stop = Stop()
    with stop.on_signals():
        producer = brokers.producer()
        start = time.time()
        emit("startup_complete")
        throttle = Throttle(throughput, producer.poll, stop)
        while not stop() and (max_messages < 0 or run.sent < max_messages):
            run.send(producer)
            throttle.after(run.sent)
            producer.poll(0)
        while len(producer):
            producer.flush(0.5)
        emit("shutdown_complete")
        average = run.acknowledged / max(time.time() - start, 0.001)
        emit(
            "tool_data",
            sent=run.sent,
            acked=run.acknowledged,
            target_throughput=throughput,
            avg_throughput=average,
        )


class Run:
    """The records of one run: what they hold, and how many were sent and acknowledged."""

    def __init__(self, topic: str, created: int, prefix: int | None, keys: int | None) -> None:
        self._topic = topic
        self._created = created
        self._prefix = "" if prefix is None else f"{prefix}."
        self._keys = keys
        self._start = time.time()
        self.sent = 0
        self.acknowledged = 0

    def send(self, producer: Any) -> None:
        value = f"{self._prefix}{self.sent}"
        key = None if self._keys is None else str(self.sent % self._keys)
        self.sent += 1
        more = {} if self._created < 0 else {"timestamp": self._timestamp()}

        def delivered(error: Any, message: Any) -> None:
            self._delivered(key, value, error, message)

        while True:
            try:
                producer.produce(self._topic, value, key, on_delivery=delivered, **more)
                return
            except BufferError:  # the queue is full: wait for acknowledgements
                producer.poll(0.05)

    def _timestamp(self) -> int:
        """The time that was asked for, and as much later as the run is old."""
        return self._created + int((time.time() - self._start) * 1000)

    def _delivered(self, key: str | None, value: str, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
            offset = message.offset()
            emit(
                "producer_send_success",
                key=key,
                value=value,
                offset=-1 if offset is None else offset,
                topic=self._topic,
                partition=message.partition(),
            )
        else:
            emit(
                "producer_send_error",
                topic=self._topic,
                key=key,
                value=value,
                exception=f"class {java_class(error.name())}",
                message=error.str(),
            )


def java_class(name: str) -> str:
    """The exception of Java's client for an error of librdkafka's."""
    name = name.lstrip("_")
    simple = CLASSES.get(name) or "".join(word.capitalize() for word in name.split("_")) + "Exception"
    return f"{ERRORS}.{simple}"
