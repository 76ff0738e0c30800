"""`ottla producer-perf-test`: how many records a second a producer gets rid of, and how long each takes.

Latency is what librdkafka measures: from `produce()` to the broker's acknowledgement, time in the producer's own queue
included, as Kafka's tool counts it. Per record the loop makes a payload, hands it over and, later, counts one
callback; nothing else, so that the tool is not what is measured.
"""

from __future__ import annotations

import itertools
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ottla.cli.common import reach
from ottla.cli.common.client_metrics import ClientMetrics
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, int32, int64, key_values, spelled_out
from ottla.cli.common.progress import progress
from ottla.cli.common.throttle import Throttle
from ottla.protocol import apis

SAMPLES = 500_000  # of that many latencies the percentiles are made
TRANSACTION_MS = 3000
TRANSACTION_SECONDS = 60.0
SERVE_EVERY = 64  # records between two looks for acknowledgements
LETTERS = bytes(65 + number % 26 for number in range(256))
MIB = 1024.0 * 1024.0


class _WithProperties(Tool):
    """Takes several KEY=VALUE words behind one option, as Kafka's tool does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        option = ""
        for word in spelled_out(args, self.get_params(ctx), ctx):
            if word.startswith("-"):
                option = word if word in ("--producer-props", "--command-property") else ""
            elif option and words[-1] != option:
                words.append(option)
            words.append(word)
        return super().parse_args(ctx, words)


@click.command("producer-perf-test", cls=_WithProperties, short_help="Measure how fast records can be produced.")
@click.option("--topic", required=True, help="Produce to this topic.")
@click.option("--num-records", type=int64(1), required=True, help="How many records to produce.")
@click.option("--record-size", type=int32(1), help="Size of a record in bytes; random letters fill it.")
@click.option("--payload-file", metavar="FILE", help="Take payloads from this UTF-8 text, in random order.")
@click.option("--payload-delimiter", default="\\n", show_default=True, help="What stands between two payloads.")
@click.option("--payload-monotonic", is_flag=True, help="The payload is the record's number: 0, 1, 2, …")
@click.option("--throughput", type=float, required=True, help="Records a second, about; -1: as many as possible.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--producer-props", multiple=True, metavar="KEY=VALUE ...", help="The same as --command-property.")
@click.option("--command-property", multiple=True, metavar="KEY=VALUE ...", help="Settings of the producer.")
@click.option("--producer.config", "producer_config", metavar="FILE", help="The same as --command-config.")
@click.option("--command-config", metavar="FILE", help="A property file with settings of the producer.")
@click.option("--print-metrics", is_flag=True, help="Print the producer's own counters at the end.")
@click.option("--transactional-id", help="Produce in transactions, under this id.")
@click.option("--transaction-duration-ms", type=int64(1), help="Commit that often. [default: 3000]")
@click.option("--warmup-records", type=int64(0), default=0, help="Tell the first ones apart from the rest.")
@click.option("--reporting-interval", type=int64(1), default=5000, help="Milliseconds between two lines.")
def command(topic: str, num_records: int, throughput: float, **options: Any) -> None:
    """Produce records as fast as asked for, and print rates and latencies.

    Exactly one of --record-size, --payload-file and --payload-monotonic says what the records hold.
    """
    warmup = options["warmup_records"]
    if warmup >= num_records:
        raise click.UsageError("the value of --warmup-records must be less than that of --num-records")
    payloads = _payloads(options)
    properties = _properties(options)
    transaction_seconds = _transactions(properties, options)
    metrics = ClientMetrics() if options["print_metrics"] else None
    brokers = reach.find(options["bootstrap_server"], None, properties | (metrics.settings if metrics else {}))
    if transaction_seconds:
        _check_transactions(brokers)
    results = Results(num_records, warmup, options["reporting_interval"] / 1000)
    producer = brokers.producer(on_delivery=results.delivered, **(metrics.callbacks if metrics else {}))
    if transaction_seconds:
        producer.init_transactions(TRANSACTION_SECONDS)
    if warmup:
        click.echo(f"Warmup first {warmup} records. Steady state results will print after the complete test summary.")
    results.begin()
    with progress("Producing", num_records) as sent:
        _produce(producer, topic, payloads, num_records, throughput, transaction_seconds, sent)
        while len(producer):
            producer.flush(0.5)
    for line in results.summary():
        click.echo(line)
    for line in metrics.lines(producer.poll) if metrics else []:
        click.echo(line)
    if results.failures:
        raise Failure("; ".join(f"{count} records were not sent: {why}" for why, count in results.failures.items()))


def _produce(
    producer: Any,
    topic: str,
    payloads: Iterator[bytes],
    count: int,
    throughput: float,
    transaction_seconds: float | None,
    sent: Callable[[int], None],
) -> None:
    throttle = Throttle(throughput, producer.poll)
    throttled = throughput >= 0
    produce, poll = producer.produce, producer.poll
    begun = 0.0
    for number in range(count):
        if transaction_seconds and not begun:
            producer.begin_transaction()
            begun = time.monotonic()
        value = next(payloads)
        while True:
            try:
                produce(topic, value)
                break
            except BufferError:  # the queue is full: wait for acknowledgements
                poll(0.05)
        if begun and time.monotonic() - begun >= (transaction_seconds or 0):
            producer.commit_transaction(TRANSACTION_SECONDS)
            begun = 0.0
        if throttled:
            throttle.after(number + 1)
            sent(number)
        if not number % SERVE_EVERY:
            poll(0)
            sent(number)
    if begun:
        producer.commit_transaction(TRANSACTION_SECONDS)


def _payloads(options: dict[str, Any]) -> Iterator[bytes]:
    """What the records hold, without end."""
    size, file, monotonic = options["record_size"], options["payload_file"], options["payload_monotonic"]
    if (size is not None) + (file is not None) + monotonic != 1:
        raise click.UsageError("exactly one of --record-size, --payload-file and --payload-monotonic is wanted")
    chance = random.Random(0)
    if monotonic:
        return (b"%d" % number for number in itertools.count())
    if size is not None:
        return (chance.randbytes(size).translate(LETTERS) for _ in itertools.repeat(None))
    found = _read_payloads(Path(file), options["payload_delimiter"].replace("\\n", "\n"))
    return (chance.choice(found) for _ in itertools.repeat(None))


def _read_payloads(file: Path, delimiter: str) -> list[bytes]:
    click.echo(f"Reading payloads from: {file.absolute()}")
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"{file} is not UTF-8 text") from None
    if not delimiter:
        raise click.UsageError("--payload-delimiter must not be empty")
    parts = text.split(delimiter)
    while parts and not parts[-1]:  # what follows the last delimiter is no payload
        parts.pop()
    if not parts:
        raise Failure(f"there is no payload in {file}")
    click.echo(f"Number of records read: {len(parts)}")
    return [part.encode() for part in parts]


def _properties(options: dict[str, Any]) -> dict[str, str]:
    """The producer's settings: Kafka's defaults for this tool, the file's, those of the command line."""
    return {
        "client.id": "perf-producer-client",
        "buffer.memory": "33554432",  # Java's default; what waits here counts as latency
        **reach.properties_of(options["command_config"], options["producer_config"]),
        **key_values(options["producer_props"], "--producer-props"),
        **key_values(options["command_property"], "--command-property"),
    }


def _transactions(properties: dict[str, str], options: dict[str, Any]) -> float | None:
    """How many seconds a transaction lasts; None without transactions. Settles the id."""
    given = options["transactional_id"] or properties.get("transactional.id")
    lasts = options["transaction_duration_ms"]
    if not given and lasts is None:
        return None
    properties["transactional.id"] = given or f"performance-producer-{uuid.uuid4()}"
    return (lasts or TRANSACTION_MS) / 1000


def _check_transactions(brokers: reach.Reach) -> None:
    """A broker without transactions lets a producer wait; so it is asked before."""
    with brokers.cluster() as cluster:
        if apis.API_KEYS["EndTxn"] not in cluster.seed.served:
            raise Failure(f"the broker at {cluster.seed.address} does not serve transactions")


class Stats:
    """Rates and latencies of acknowledged records; latencies in whole milliseconds, as Kafka counts."""

    def __init__(self, expected: int, interval: float, steady: bool = False) -> None:
        self._interval = interval
        self._steady = steady
        self._every = max(1, expected // SAMPLES)
        self._samples: list[int] = []
        self._start = self._window_start = time.time()
        self._count = self._bytes = self._total = self._most = 0
        self._window_base = (0, 0, 0)  # count, bytes and total when the window began
        self._window_most = 0
        self._silent = False
        self._said = False

    def record(self, latency: int, size: int, now: float) -> None:
        if not self._count % self._every:
            self._samples.append(latency)
        self._count += 1
        self._bytes += size
        self._total += latency
        if latency > self._window_most:
            self._window_most = latency
        if now - self._window_start >= self._interval:
            self._end_window(now)

    def silence(self) -> None:
        """No more lines while it runs; another Stats prints them now."""
        self._silent = True

    def _end_window(self, now: float) -> None:
        elapsed = now - self._window_start
        count, size, total = (new - old for new, old in zip((self._count, self._bytes, self._total), self._window_base))
        if not self._silent:
            if self._steady and not self._said:
                click.echo("In steady state.")
                self._said = True
            click.echo(
                f"{count} records sent, {count / elapsed:.1f} records/sec ({size / elapsed / MIB:.2f} MB/sec), "
                f"{total / count:.1f} ms avg latency, {self._window_most:.1f} ms max latency."
            )
        self._most = max(self._most, self._window_most)
        self._window_base = (self._count, self._bytes, self._total)
        self._window_most = 0
        self._window_start = now

    def summary(self) -> str:
        elapsed = max(time.time() - self._start, 0.001)
        most = max(self._most, self._window_most)
        average = f"{self._total / self._count:.2f}" if self._count else "NaN"
        at = percentiles(self._samples, 0.5, 0.95, 0.99, 0.999)
        which = " steady state" if self._steady else ""
        return (
            f"{self._count}{which} records sent, {self._count / elapsed:f} records/sec "
            f"({self._bytes / elapsed / MIB:.2f} MB/sec), {average} ms avg latency, {most:.2f} ms max latency, "
            f"{at[0]} ms 50th, {at[1]} ms 95th, {at[2]} ms 99th, {at[3]} ms 99.9th."
        )


def percentiles(values: list[int], *parts: float) -> list[int]:
    """The values below which these parts of all lie; 0 where there are none."""
    ordered = sorted(values)
    return [ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0 for part in parts]


class Results:
    """What became of the records: the statistics of all, of those after the warm-up, and the failures."""

    def __init__(self, expected: int, warmup: int, interval: float) -> None:
        self._expected, self._warmup, self._interval = expected, warmup, interval
        self._left = warmup  # records of the warm-up that are still to come
        self._steady: Stats | None = None
        self.failures: Counter[str] = Counter()
        self.begin()

    def begin(self) -> None:
        self._all = Stats(self._expected, self._interval)

    def delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures[reach.kafka_error(error)] += 1
            return
        latency, size, now = int((message.latency() or 0) * 1000), len(message), time.time()
        if self._warmup and not self._left and self._steady is None:
            self._steady = Stats(self._expected - self._warmup, self._interval, steady=True)
            self._all.silence()
        self._all.record(latency, size, now)
        if self._steady is not None:
            self._steady.record(latency, size, now)
        else:
            self._left -= 1

    def summary(self) -> list[str]:
        return [self._all.summary(), *([self._steady.summary()] if self._steady else [])]
