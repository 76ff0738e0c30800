"""`ottla verifiable-consumer`: a member of a group that tells all that happens to it (A2 REL-054).

One line of JSON per event: startup_complete, partitions_assigned, records_consumed (with --verbose record_data for
each record before it), offsets_committed, partitions_revoked, shutdown_requested, shutdown_complete. Offsets are
committed after each batch of records, unless the client does it by itself (--enable-autocommit).
"""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.common import reach
from ottla.cli.common.events import Stop, emit
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, int32, int64

BATCH = 500  # as many as Java's client gives at once
POLL_SECONDS = 0.2
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"


@click.command("verifiable-consumer", cls=Tool, short_help="Consume in a group, and tell all that happens as JSON.")
@click.option("--topic", required=True, help="Consume this topic.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--broker-list", metavar="HOST:PORT,...", help="The same as --bootstrap-server.")
@click.option("--group-id", required=True, help="The group.")
@click.option("--group-instance-id", help="A name of this member that stays (static membership).")
@click.option(
    "--group-protocol",
    type=click.Choice(["classic", "consumer"], case_sensitive=False),
    default="classic",
    help="Which of Kafka's group protocols.",
)
@click.option("--group-remote-assignor", help="The broker's assignor; only with the protocol consumer.")
@click.option("--assignment-strategy", default=RANGE, help="The assignor, by its class; only with classic.")
@click.option("--max-messages", type=int64(), default=-1, help="How many records; -1: until it is told to stop.")
@click.option("--session-timeout", type=int32(1), metavar="MS", help="Session timeout; only with classic.")
@click.option("--verbose", is_flag=True, help="Tell each record.")
@click.option("--enable-autocommit", is_flag=True, help="Let the client commit offsets by itself.")
@click.option(
    "--reset-policy",
    type=click.Choice(["earliest", "latest", "none"]),
    default="earliest",
    help="Where to begin without a committed offset.",
)
@click.option("--command-config", metavar="FILE", help="A property file with settings of the consumer.")
@click.option("--consumer.config", "consumer_config", metavar="FILE", help="The same as --command-config.")
def command(topic: str, max_messages: int, verbose: bool, enable_autocommit: bool, **options: Any) -> None:
    """Consume a topic as a member of a group, and print as JSON what is read, committed, assigned and revoked."""
    properties = _properties(options, enable_autocommit)
    brokers = reach.find(reach.first_given(options["bootstrap_server"], options["broker_list"]), None, properties)
    stop = Stop()
    with stop.on_signals():
        consumer = brokers.consumer()
        emit("startup_complete")
        consumer.subscribe(
            [topic],
            on_assign=lambda _, given: emit("partitions_assigned", partitions=_places(given)),
            on_revoke=lambda _, taken: emit("partitions_revoked", partitions=_places(taken)),
        )
        try:
            _consume(consumer, max_messages, verbose, not enable_autocommit, stop)
        finally:
            if stop():
                emit("shutdown_requested")
            consumer.close()
            emit("shutdown_complete")


def _properties(options: dict[str, Any], autocommit: bool) -> dict[str, str]:
    properties = {
        **reach.properties_of(options["command_config"], options["consumer_config"]),
        "group.id": options["group_id"],
        "enable.auto.commit": "true" if autocommit else "false",
        "auto.offset.reset": options["reset_policy"],
    }
    if options["group_instance_id"]:
        properties["group.instance.id"] = options["group_instance_id"]
    if options["group_protocol"] == "consumer":
        if options["session_timeout"]:
            raise click.UsageError("session.timeout.ms cannot be set when group.protocol=CONSUMER")
        properties["group.protocol"] = "consumer"
        if options["group_remote_assignor"]:
            properties["group.remote.assignor"] = options["group_remote_assignor"]
        return properties
    if options["group_remote_assignor"]:
        raise click.UsageError("--group-remote-assignor goes with --group-protocol consumer")
    properties["partition.assignment.strategy"] = options["assignment_strategy"]
    if options["session_timeout"]:
        properties["session.timeout.ms"] = str(options["session_timeout"])
    return properties


def _consume(consumer: Any, most: int, verbose: bool, commit: bool, stop: Stop) -> None:
    consumed = 0
    while not stop() and (most < 0 or consumed < most):
        left = BATCH if most < 0 else min(BATCH, most - consumed)
        first = consumer.poll(POLL_SECONDS)
        if first is None:
            continue
        batch = [first, *(consumer.consume(left - 1, 0) if left > 1 else [])]
        records = [message for message in batch if not _is_error(message)]
        consumed += len(records)
        if records:
            summaries = _told(records, verbose)
            if commit:
                _commit(consumer, summaries)


def _is_error(message: Any) -> bool:
    """Whether this is no record but an error; one that cannot pass ends the run."""
    error = message.error()
    if error is None:
        return False
    if error.fatal() or error.name() == "_AUTO_OFFSET_RESET":
        raise Failure(reach.kafka_error(error))
    click.echo(reach.kafka_error(error), err=True)
    return True


def _told(records: list[Any], verbose: bool) -> list[dict[str, Any]]:
    """Tells a batch of records; returns what was said of each partition."""
    by_place: dict[tuple[str, int], list[Any]] = {}
    for record in records:
        by_place.setdefault((record.topic(), record.partition()), []).append(record)
    summaries = []
    for (topic, partition), those in by_place.items():
        for record in those if verbose else []:
            emit(
                "record_data",
                key=_text(record.key()),
                value=_text(record.value()),
                topic=topic,
                partition=partition,
                offset=record.offset(),
            )
        offsets = {"count": len(those), "minOffset": those[0].offset(), "maxOffset": those[-1].offset()}
        summaries.append({"topic": topic, "partition": partition, **offsets})
    emit("records_consumed", count=len(records), partitions=summaries)
    return summaries


def _commit(consumer: Any, summaries: list[dict[str, Any]]) -> None:
    from confluent_kafka import KafkaException, TopicPartition

    after = [TopicPartition(one["topic"], one["partition"], one["maxOffset"] + 1) for one in summaries]
    offsets = [{"topic": one.topic, "partition": one.partition, "offset": one.offset} for one in after]
    try:
        done = consumer.commit(offsets=after, asynchronous=False)
    except KafkaException as error:
        if error.args[0].fatal():
            raise
        failed = [reach.kafka_error(error)]
    else:
        failed = [reach.kafka_error(one.error) for one in done if one.error is not None]
    if failed:
        emit("offsets_committed", offsets=offsets, error=failed[0], success=False)
    else:
        emit("offsets_committed", offsets=offsets, success=True)


def _places(partitions: Any) -> list[dict[str, Any]]:
    return [{"topic": one.topic, "partition": one.partition} for one in partitions]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
