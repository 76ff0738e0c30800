"""`ottla console-consumer`: shows the records of topics as they come, as Kafka's console consumer does.

Without `--partition` it joins a group: that of `--group`, or one of its own, `console-consumer-NNNNN`, which commits
nothing. With `--partition` it reads that partition alone. Offsets are committed only of records that were written to
stdout. It ends after `--max-messages`, after `--timeout-ms` without a record, on Ctrl-C, SIGTERM, or when nobody reads
its output; then the number of records goes to stderr (A3 CO6, B CLI-16).

Topics of a regular expression are looked up here, as librdkafka's expressions are not Java's; new ones are found when
metadata is `metadata.max.age.ms` old.
"""

from __future__ import annotations

import random
import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ottla.cli.common import reach
from ottla.cli.common.events import Stop
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, int32, int64, key_values
from ottla.cli.common.reach import kafka_error, properties_of
from ottla.cli.common.topic_filter import TopicFilter
from ottla.cli.console.formatters import Formatter, formatter
from ottla.cli.console.serialization import Unserializable

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
MAX_BATCH = 500  # Java's max.poll.records
POLL_SECONDS = 0.1
UNMATCHED_SECONDS = 1.0  # between looks for topics while there is none
METADATA_MS = "300000"
METADATA_SECONDS = 10.0
# of these the client recovers by itself; Kafka's warns and goes on
PASSING = {"_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE", "_TIMED_OUT", "UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE"}


@click.command("console-consumer", cls=Tool, short_help="Show the records of topics as they come.")
@click.option("--topic", help="The topic.")
@click.option("--include", metavar="REGEX", help="All topics whose names match.")
@click.option("--whitelist", metavar="REGEX", help="The same; commas may stand between several.")
@click.option("--blacklist", metavar="REGEX", help="All topics whose names do not match.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--broker-list", metavar="HOST:PORT,...", help="The same as --bootstrap-server.")
@click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help="Find the brokers through a ZooKeeper ensemble.")
@click.option("--new-consumer", is_flag=True, help="Taken as given: there is no other.")
@click.option("--group", metavar="GROUP", help="The group to read in; its offsets are committed.")
@click.option("--partition", type=int32(0), metavar="N", help="Read this partition alone.")
@click.option("--offset", metavar="N", help="Where to begin in it: earliest, latest (the default), or an offset.")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest record where no offset is committed.")
@click.option("--max-messages", type=int64(), metavar="N", help="End after so many records.")
@click.option("--timeout-ms", type=int64(), metavar="MS", help="End when no record has come for so long.")
@click.option(
    "--consumer.config", "--command-config", "config", metavar="FILE", help="A property file of the consumer."
)
@click.option(
    "--consumer-property", "--command-property", "properties", multiple=True, metavar="KEY=VALUE", help="One of them."
)
@click.option("--formatter", "formatter_name", default=FORMATTER, metavar="CLASS", help="What shows a record.")
@click.option("--formatter-config", metavar="FILE", help="A property file of the formatter.")
@click.option(
    "--property",
    "--formatter-property",
    "formatter_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of the formatter: print.timestamp, print.key, print.value, print.offset, print.partition, "
    "print.epoch, print.headers, key.separator, line.separator, headers.separator, null.literal, key.deserializer, "
    "value.deserializer, headers.deserializer.",
)
@click.option("--key-deserializer", metavar="CLASS", help="What shows keys.")
@click.option("--value-deserializer", metavar="CLASS", help="What shows values.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether records of open or aborted transactions are shown: read_uncommitted.",
)
@click.option("--skip-message-on-error", is_flag=True, help="Go on after a record that cannot be shown.")
@click.option("--enable-systest-events", is_flag=True, help="Print shutdown_complete at the end.")
def command(formatter_name: str, enable_systest_events: bool, **options: Any) -> None:
    """Show the records of topics as they come, until Ctrl-C.

    Formatters are DefaultMessageFormatter, LoggingMessageFormatter, NoOpMessageFormatter, ChecksumMessageFormatter,
    OffsetsMessageFormatter, GroupMetadataMessageFormatter and TransactionLogMessageFormatter, with or without a package
    before them. A formatter or deserializer of your own is a Python class on PYTHONPATH, named package.module.Class.
    """
    settings = {
        **properties_of(options["config"]),
        **key_values(options["properties"], "--consumer-property", exact=True),
    }
    wanted = _topics(options, settings)
    start = _start(options)
    shown = _formatter(formatter_name, options, settings)
    _client_settings(options, settings)
    batch = settings.pop("max.poll.records", str(MAX_BATCH))
    if not batch.isdigit() or batch == "0":
        raise click.UsageError(f"max.poll.records={batch} is illegal: must be a whole number from 1 on")
    brokers = reach.find(
        reach.first_given(options["bootstrap_server"], options["broker_list"]), options["zookeeper"], settings
    )
    screen = Screen(shown, options["skip_message_on_error"])
    stop = Stop()
    with stop.on_signals():
        try:
            consumer = Subscription(brokers, wanted, options["partition"], start)
            try:
                _follow(consumer, screen, stop, options["max_messages"], options["timeout_ms"], int(batch))
            finally:
                consumer.close()
                if hasattr(shown, "close"):
                    shown.close()
        finally:
            click.echo(f"Processed a total of {screen.count} messages", err=True)
            if enable_systest_events:
                click.echo("shutdown_complete")


# -- what the options say ----------------------------------------------------------------------------------------------


def _topics(options: dict[str, Any], settings: dict[str, str]) -> str | TopicFilter:
    names = ("topic", "include", "whitelist", "blacklist")
    given = [name for name in names if options[name] is not None]
    if len(given) != 1:
        raise click.UsageError("exactly one of --topic, --include, --whitelist and --blacklist is wanted")
    internal = settings.pop("exclude.internal.topics", "true").strip().lower() == "false"
    if given == ["topic"]:
        return str(options["topic"])
    if options["partition"] is not None:
        raise click.UsageError("The topic is required when partition is specified.")
    return TopicFilter(
        options[given[0]], exclude_internal=not internal, opposite=given == ["blacklist"], listed=given != ["include"]
    )


def _start(options: dict[str, Any]) -> int:
    """The offset to begin with in a partition, in librdkafka's numbers."""
    offset, beginning = options["offset"], options["from_beginning"]
    if offset is None:
        return _EARLIEST if beginning else _LATEST
    if options["partition"] is None:
        raise click.UsageError("The partition is required when offset is specified.")
    if beginning:
        raise click.UsageError("Options from-beginning and offset cannot be specified together.")
    if offset.lower() in ("earliest", "latest"):
        return _EARLIEST if offset.lower() == "earliest" else _LATEST
    if not (offset.isascii() and offset.isdigit()):
        raise click.UsageError(
            f"The provided offset value '{offset}' is incorrect. "
            "Valid values are 'earliest', 'latest', or a non-negative long."
        )
    return int(offset)


_EARLIEST, _LATEST = -2, -1


def _formatter(name: str, options: dict[str, Any], settings: dict[str, str]) -> Formatter:
    properties = properties_of(options["formatter_config"])
    for property_name, option in (
        ("key.deserializer", "key_deserializer"),
        ("value.deserializer", "value_deserializer"),
    ):
        of_client = settings.pop(property_name, None)
        if of_client is not None:
            properties.setdefault(property_name, of_client)
        if options[option]:
            properties[property_name] = options[option]
    return formatter(name, {**properties, **key_values(options["formatter_properties"], "--property", exact=True)})


def _client_settings(options: dict[str, Any], settings: dict[str, str]) -> None:
    """What Kafka's tool sets of its consumer, where the user does not."""
    groups = {one for one in (options["group"], settings.get("group.id")) if one}
    if len(groups) > 1:
        raise click.UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {', '.join(map(repr, sorted(groups)))}"
        )
    if groups and options["partition"] is not None:
        raise click.UsageError("Options group and partition cannot be specified together.")
    reset = settings.get("auto.offset.reset")
    if options["from_beginning"] and reset not in (None, "earliest"):
        raise click.UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    settings.setdefault("auto.offset.reset", "earliest" if options["from_beginning"] else "latest")
    settings.setdefault("client.id", "console-consumer")
    settings.setdefault("allow.auto.create.topics", "true")
    settings["isolation.level"] = options["isolation_level"] or settings.get("isolation.level", "read_uncommitted")
    settings["group.id"] = groups.pop() if groups else f"console-consumer-{random.randrange(100_000)}"
    if settings["group.id"].startswith("console-consumer-") and not options["group"]:
        settings.setdefault("enable.auto.commit", "false")
    settings["enable.auto.offset.store"] = "false"  # records that were shown are, see Subscription.shown


# -- the work ----------------------------------------------------------------------------------------------------------


class Subscription:
    """A consumer of the topics that are wanted."""

    def __init__(self, brokers: reach.Reach, wanted: str | TopicFilter, partition: int | None, start: int) -> None:
        self._wanted = wanted
        self._topics: list[str] = []
        self._refresh_seconds = int(brokers.properties.get("metadata.max.age.ms", METADATA_MS)) / 1000
        self._next_look = 0.0
        self._consumer: Consumer = brokers.consumer()
        self._stores = partition is None
        self._positions: dict[tuple[str | None, int | None], int] = {}  # behind what was shown, while it is assigned
        cooperative = "cooperative" in brokers.properties.get("partition.assignment.strategy", "").lower()
        eager = not cooperative and brokers.properties.get("group.protocol", "classic").lower() == "classic"
        self._callbacks: dict[str, Any] = {"on_assign": self._assigned} if eager else {}
        if isinstance(wanted, str):
            self._begin(wanted, partition, start)

    def _begin(self, topic: str, partition: int | None, start: int) -> None:
        from confluent_kafka import TopicPartition

        # asked for beforehand, metadata is there when librdkafka looks for it; it would look again much later
        found = self._consumer.list_topics(topic, METADATA_SECONDS).topics[topic]
        if found.error is not None and found.error.name() not in PASSING:
            raise Failure(f"{topic}: {kafka_error(found.error)}")
        if partition is None:
            self._consumer.subscribe([topic], **self._callbacks)
        elif found.partitions and partition not in found.partitions:
            raise Failure(f"topic {topic} has no partition {partition}: the last one is {max(found.partitions)}")
        else:
            self._consumer.assign([TopicPartition(topic, partition, start)])

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Go on in partitions that are kept, as Java's consumer does; librdkafka would begin where is committed."""
        kept = {(one.topic, one.partition) for one in partitions}
        self._positions = {place: offset for place, offset in self._positions.items() if place in kept}
        for one in partitions:
            one.offset = self._positions.get((one.topic, one.partition), one.offset)
        consumer.assign(partitions)

    def records(self, most: int) -> list[Message]:
        """What has come, at most so many; waits a moment where there is nothing."""
        if isinstance(self._wanted, TopicFilter):
            self._look_for_topics(self._wanted)
        if not self._topics and isinstance(self._wanted, TopicFilter):
            time.sleep(POLL_SECONDS)
            return []
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return []
        return [first, *(self._consumer.consume(most - 1, 0) if most > 1 else ())]

    def _look_for_topics(self, wanted: TopicFilter) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        topics = wanted.among(self._consumer.list_topics(timeout=METADATA_SECONDS).topics)
        self._next_look = now + (self._refresh_seconds if topics else min(UNMATCHED_SECONDS, self._refresh_seconds))
        if topics and topics != self._topics:
            self._consumer.subscribe(topics, **self._callbacks)
            self._topics = topics

    def shown(self, messages: list[Message]) -> None:
        """These have been written out: they may be committed."""
        if self._stores:
            for place, last in {(message.topic(), message.partition()): message for message in messages}.items():
                self._positions[place] = (last.offset() or 0) + 1
                try:
                    self._consumer.store_offsets(message=last)
                except Exception as error:  # a partition that was taken away meanwhile is another's to commit
                    if type(error).__name__ != "KafkaException":
                        raise

    def close(self) -> None:
        self._consumer.close()


class Screen:
    """Where records are shown, and how many have been."""

    def __init__(self, shown: Formatter, skip_errors: bool) -> None:
        self._formatter = shown
        self._skip_errors = skip_errors
        self._output: BinaryIO = sys.stdout.buffer
        self.count = 0

    def write(self, message: Message) -> None:
        self.count += 1
        try:
            self._formatter.write_to(message, self._output)
        except Unserializable as error:
            where = f"{message.topic()}-{message.partition()} at offset {message.offset()}"
            if not self._skip_errors:
                raise Failure(f"Error processing message {where}: {error}") from error
            click.echo(f"Error processing message {where}, skipping this message: {error}", err=True)

    def flush(self) -> None:
        self._output.flush()


def _follow(
    consumer: Subscription, screen: Screen, stop: Stop, most: int | None, timeout_ms: int | None, batch: int
) -> None:
    quiet_since = time.monotonic()
    while not stop() and (most is None or most < 0 or screen.count < most):
        room = batch if most is None or most < 0 else min(batch, most - screen.count)
        records = []
        written: list[Message] = []
        for message in consumer.records(room):
            problem = message.error()
            if problem is None:
                records.append(message)
            elif problem.name() in PASSING:
                click.echo(f"WARN {kafka_error(problem)}", err=True)
            elif problem.name() != "_PARTITION_EOF":
                raise Failure(kafka_error(problem))
        try:
            for message in records:
                screen.write(message)
                written.append(message)
            screen.flush()
        except BrokenPipeError:
            click.echo("Unable to write to standard out, closing consumer.", err=True)
            raise
        finally:
            consumer.shown(written)
        if records:
            quiet_since = time.monotonic()
        elif timeout_ms is not None and 0 <= timeout_ms <= (time.monotonic() - quiet_since) * 1000:
            return
