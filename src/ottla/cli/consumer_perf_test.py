"""`ottla consumer-perf-test`: how many records a second a consumer of a group reads.

The time until the group has given out its partitions is told apart (`rebalance.time.ms`); the rest is fetching.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any

import click

from ottla.cli.common import date_format, reach
from ottla.cli.common.client_metrics import ClientMetrics
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, int32, int64, key_values
from ottla.cli.common.progress import progress

BATCH = 1000
POLL_SECONDS = 0.1
MIB = 1024.0 * 1024.0
MORE_COLUMNS = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
GROUP_COLUMNS = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"


@click.command("consumer-perf-test", cls=Tool, short_help="Measure how fast records can be consumed.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--broker-list", metavar="HOST:PORT,...", help="The same as --bootstrap-server.")
@click.option("--topic", help="Consume this topic.")
@click.option("--include", metavar="REGEX", help="Consume the topics whose whole name matches.")
@click.option("--num-records", type=int64(0), help="How many records to consume.")
@click.option("--messages", type=int64(0), help="The older name of --num-records.")
@click.option("--group", help="The group to consume in. [default: perf-consumer- and a number]")
@click.option("--from-latest", is_flag=True, help="Without a committed offset, begin at the end, not at the start.")
@click.option("--fetch-size", type=int32(1), default=1048576, help="Most bytes of a partition per fetch.")
@click.option("--socket-buffer-size", type=int32(0), default=2097152, help="Receive buffer of the socket.")
@click.option("--timeout", type=int32(0), default=10000, help="Give up after that many ms without a record.")
@click.option("--show-detailed-stats", is_flag=True, help="A line for each reporting interval.")
@click.option("--reporting-interval", type=int64(1), default=5000, help="Milliseconds between two lines.")
@click.option("--date-format", "pattern", default=date_format.DEFAULT, help="As Java's SimpleDateFormat takes it.")
@click.option("--hide-header", is_flag=True, help="No line with the names of the columns.")
@click.option("--print-metrics", is_flag=True, help="Print the consumer's own counters at the end.")
@click.option("--command-property", multiple=True, metavar="KEY=VALUE", help="A setting of the consumer; repeatable.")
@click.option("--command-config", metavar="FILE", help="A property file with settings of the consumer.")
@click.option("--consumer.config", "consumer_config", metavar="FILE", help="The same as --command-config.")
def command(topic: str | None, include: str | None, **options: Any) -> None:
    """Consume records as fast as possible, and print rates.

    Exactly one of --topic and --include names the topics.
    """
    if (topic is None) == (include is None):
        raise click.UsageError("exactly one of --topic and --include is wanted")
    if options["messages"] is not None and options["num_records"] is None:
        click.echo("Warning: --messages is deprecated. Use --num-records instead.", err=True)
    elif (options["messages"] is None) == (options["num_records"] is None):
        raise click.UsageError("exactly one of --num-records and --messages is wanted")
    wanted = options["messages"] if options["num_records"] is None else options["num_records"]
    written = date_format.formatter(options["pattern"])
    metrics = ClientMetrics() if options["print_metrics"] else None
    brokers = _brokers(options, metrics)
    consumer = brokers.consumer(**(metrics.callbacks if metrics else {}))
    detailed = options["show_detailed_stats"]
    if not options["hide_header"]:
        click.echo(f"{'time, threadId' if detailed else 'start.time, end.time'}, {MORE_COLUMNS}, {GROUP_COLUMNS}")
    run = Run(wanted, options["timeout"] / 1000, options["reporting_interval"] / 1000, detailed, written)
    try:
        topics = [topic] if topic is not None else _matching(consumer, include or "")
        with progress("Consuming", wanted) as read:
            run.consume(consumer, topics, read)
        lines = metrics.lines(consumer.poll) if metrics else []
    finally:
        consumer.close()
    if not detailed:
        click.echo(run.summary())
    for line in lines:
        click.echo(line)


def _brokers(options: dict[str, Any], metrics: ClientMetrics | None) -> reach.Reach:
    settings = {
        "client.id": "perf-consumer-client",
        **reach.properties_of(options["command_config"], options["consumer_config"]),
        **key_values(options["command_property"], "--command-property"),
        "group.id": options["group"] or f"perf-consumer-{random.randrange(100_000)}",
        "receive.buffer.bytes": str(options["socket_buffer_size"]),
        "max.partition.fetch.bytes": str(options["fetch_size"]),
        "auto.offset.reset": "latest" if options["from_latest"] else "earliest",
        **(metrics.settings if metrics else {}),
    }
    return reach.find(reach.first_given(options["bootstrap_server"], options["broker_list"]), None, settings)


def _matching(consumer: Any, pattern: str) -> list[str]:
    """The topics that are there now whose whole name matches."""
    try:
        fits = re.compile(pattern).fullmatch
    except re.error as error:
        raise click.UsageError(f"--include {pattern!r} is no regular expression: {error}") from None
    found = sorted(name for name in consumer.list_topics(timeout=30).topics if fits(name))
    if not found:
        raise Failure(f"no topic matches {pattern!r}")
    return found


class Run:
    """One measured run: what was read, and when."""

    def __init__(
        self, wanted: int, timeout: float, interval: float, detailed: bool, written: Callable[[float], str]
    ) -> None:
        self._wanted, self._timeout, self._interval = wanted, timeout, interval
        self._detailed = detailed
        self._written = written
        self._messages = self._bytes = 0
        self._joining = self._joining_now = 0.0  # seconds in all, and since the last line
        self._start = self._join_start = self._end = time.time()

    def consume(self, consumer: Any, topics: list[str], read: Callable[[int], None]) -> None:
        consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked)
        last_report = last_record = now = time.time()
        reported = (0, 0)
        complaints: set[str] = set()
        while self._messages < self._wanted and now - last_record <= self._timeout:
            batch = consumer.consume(min(BATCH, self._wanted - self._messages), POLL_SECONDS)
            now = time.time()
            for message in batch:
                if (error := message.error()) is not None:
                    self._complain(error, complaints)
                    continue
                self._messages += 1
                key = message.key()
                self._bytes += len(message) + (len(key) if key is not None else 0)
                last_record = now
            read(self._messages)
            if now - last_report >= self._interval and batch:
                if self._detailed:
                    click.echo(self._progress(last_report, now, *reported))
                self._joining_now = 0.0
                last_report, reported = now, (self._messages, self._bytes)
        self._end = now
        if self._messages < self._wanted:
            click.echo(
                f"WARNING: Exiting before consuming the expected number of records: timeout "
                f"({self._timeout * 1000:.0f} ms) exceeded. You can use the --timeout option to increase the timeout."
            )

    def _complain(self, error: Any, told: set[str]) -> None:
        """Each kind of error once; one that cannot pass ends the run."""
        if error.fatal():
            raise Failure(reach.kafka_error(error))
        if (text := reach.kafka_error(error)) not in told:
            told.add(text)
            click.echo(f"WARNING: {text}", err=True)

    def _assigned(self, _consumer: Any, _partitions: Any) -> None:
        elapsed = time.time() - self._join_start
        self._joining += elapsed
        self._joining_now += elapsed

    def _revoked(self, _consumer: Any, _partitions: Any) -> None:
        self._join_start = time.time()

    def _progress(self, since: float, now: float, messages: int, size: int) -> str:
        elapsed = now - since
        fetching = elapsed - self._joining_now
        count, mib = self._messages - messages, (self._bytes - size) / MIB
        return (
            f"{self._written(now)}, 0, {self._bytes / MIB:.4f}, {mib / elapsed:.4f}, {self._messages}, "
            f"{count / elapsed:.4f}, {self._joining_now * 1000:.0f}, {fetching * 1000:.0f}, "
            f"{_rate(mib, fetching):.4f}, {_rate(count, fetching):.4f}"
        )

    def summary(self) -> str:
        elapsed, mib = self._end - self._start, self._bytes / MIB
        fetching = elapsed - self._joining
        return (
            f"{self._written(self._start)}, {self._written(self._end)}, {mib:.4f}, {_rate(mib, elapsed):.4f}, "
            f"{self._messages}, {_rate(self._messages, elapsed):.4f}, {self._joining * 1000:.0f}, "
            f"{fetching * 1000:.0f}, {_rate(mib, fetching):.4f}, {_rate(self._messages, fetching):.4f}"
        )


def _rate(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
