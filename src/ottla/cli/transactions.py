"""`ottla transactions`: the state of transactions, and ways out of those that hang, as kafka-transactions (KIP-664).

    list                        the transactional ids, their coordinators and states
    describe                    one of them: producer, since when, which partitions
    describe-producers          the producers that a partition remembers
    find-hanging                transactions that are open in a partition, and that nobody is going to end
    abort                       ends such a one in one partition
    forceTerminateTransaction   ends what a transactional id has open, everywhere, and fences its producer

Kafka's tool waits a minute for a partition or broker that does not exist; this one says so at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import click

from ottla.cli.common import transaction_requests as requests
from ottla.cli.common.invocation import Failure, by_kafka_name, confirm
from ottla.cli.common.json_files import TopicPartition
from ottla.cli.common.options import Tool, given_only_with, int32, int64
from ottla.cli.common.output import JSON, output_asked, output_option, show
from ottla.cli.common.reach import Reach, reaches
from ottla.cli.common.requests import Cluster, error_text
from ottla.cli.common.transaction_requests import Open, Producer
from ottla.protocol.errors import ErrorCode

TERMINATE = "forceTerminateTransaction"
ACTIONS = ("list", "describe", "describe-producers", "abort", "find-hanging", TERMINATE)
MINUTE_MS = 60_000
DEFAULT_TIMEOUT_MINUTES = 15


@click.command("transactions", cls=Tool, short_help="Show transactions, and end those that hang.")
@click.argument("action", type=click.Choice(ACTIONS), default="list")
@click.option(
    "--duration-filter", type=int64(), metavar="MS", help="list: only those that run longer; less than 0 means all."
)
@click.option("--transactional-id-pattern", metavar="REGEX", help="list: only ids that the expression (RE2) fits.")
@click.option("--transactional-id", "--transactionalId", metavar="ID", help=f"describe, {TERMINATE}: the id.")
@click.option("--broker-id", type=int32(), help="describe-producers, find-hanging: ask this broker, not the leaders.")
@click.option("--topic", metavar="TOPIC", help="describe-producers, abort, find-hanging: the topic.")
@click.option("--partition", type=int32(), help="describe-producers, abort, find-hanging: the partition.")
@click.option("--start-offset", type=int64(), help="abort: where the transaction begins.")
@click.option("--producer-id", type=int64(), help="abort, of brokers before 3.0: instead of --start-offset.")
@click.option("--producer-epoch", type=int32(), help="abort: with --producer-id.")
@click.option("--coordinator-epoch", type=int32(), help="abort: with --producer-id.")
@click.option(
    "--max-transaction-timeout",
    type=int32(),
    metavar="MINUTES",
    help=f"find-hanging: only what was open for longer; {DEFAULT_TIMEOUT_MINUTES} if not given.",
)
@click.option("--yes", is_flag=True, help=f"abort, {TERMINATE}: do not ask.")
@reaches
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    action: str,
    duration_filter: int | None,
    transactional_id_pattern: str | None,
    transactional_id: str | None,
    broker_id: int | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    max_transaction_timeout: int | None,
    yes: bool,
    reach: Reach,
    output: str,
) -> None:
    """Show transactions and the producers of partitions; find transactions that hang, and abort them."""
    for_list = {"--duration-filter": duration_filter, "--transactional-id-pattern": transactional_id_pattern}
    older = {
        "--producer-id": producer_id,
        "--producer-epoch": producer_epoch,
        "--coordinator-epoch": coordinator_epoch,
    }
    for_partition = {"--topic": topic, "--partition": partition}
    given_only_with(ctx, action, for_list, "list")
    given_only_with(ctx, action, {"--transactional-id": transactional_id}, "describe", TERMINATE)
    given_only_with(ctx, action, for_partition, "describe-producers", "abort", "find-hanging")
    given_only_with(ctx, action, {"--broker-id": broker_id}, "describe-producers", "find-hanging")
    given_only_with(ctx, action, {"--start-offset": start_offset, **older}, "abort")
    given_only_with(ctx, action, {"--max-transaction-timeout": max_transaction_timeout}, "find-hanging")
    given_only_with(ctx, action, {"--yes": yes}, "abort", TERMINATE)
    given_only_with(ctx, action, output_asked(ctx), "list", "describe", "describe-producers", "find-hanging")

    if action in ("describe", TERMINATE):
        if not transactional_id:
            raise click.UsageError(f"{action} needs --transactional-id", ctx)
        with reach.cluster() as cluster:
            if action == "describe":
                _describe(cluster, transactional_id, output)
            else:
                _terminate(cluster, transactional_id, yes)
    elif action == "find-hanging":
        if topic is None and broker_id is None:
            raise click.UsageError(
                "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search",
                ctx,
            )
        if partition is not None and topic is None:
            raise click.UsageError("The --partition argument requires --topic to be provided", ctx)
        minutes = DEFAULT_TIMEOUT_MINUTES if max_transaction_timeout is None else max_transaction_timeout
        with reach.cluster() as cluster:
            _find_hanging(cluster, topic, partition, broker_id, minutes, output)
    elif action == "list":
        with reach.cluster() as cluster:
            found = requests.listed(
                cluster, -1 if duration_filter is None else duration_filter, transactional_id_pattern
            )
        _show(output, ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), found)
    else:
        if topic is None or partition is None:
            raise click.UsageError(f"{action} needs --topic and --partition", ctx)
        if action == "abort":
            given = start_offset, producer_id, producer_epoch, coordinator_epoch
            _abort(reach, (topic, partition), *given, yes=yes)
        else:
            with reach.cluster() as cluster:
                _describe_producers(cluster, (topic, partition), broker_id, output)


# -- what there is -------------------------------------------------------------------------------------------------


def _describe(cluster: Cluster, transactional_id: str, output: str) -> None:
    node_id, found = requests.described(cluster, transactional_id)
    failed = f"Failed to describe transaction state of transactional-id `{transactional_id}`"
    if found == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise Failure(
            f"{failed}: DescribeTransactions request for transactionalId `{transactional_id}` failed because the ID"
            " could not be found"
        )
    if isinstance(found, int):
        raise Failure(f"{failed}: {error_text(found)}")
    started = found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None
    row = (
        node_id,
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.transaction_state,
        found.transaction_timeout_ms,
        started,
        None if started is None else _now_ms() - started,
        [f"{one.topic}-{index}" for one in found.topics for index in one.partitions],
    )
    headers = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    _show(output, headers, [row])


def _describe_producers(cluster: Cluster, place: TopicPartition, broker_id: int | None, output: str) -> None:
    where = "leader" if broker_id is None else f"broker {broker_id}"
    found = _producers(cluster, place, broker_id, f"Failed to describe producers for partition %s on {where}")
    rows = [
        (
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset if one.current_txn_start_offset >= 0 else None,
        )
        for one in found
    ]
    headers = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    _show(output, headers, rows)


def _producers(cluster: Cluster, place: TopicPartition, broker_id: int | None, failed: str) -> list[Producer]:
    ((_, found),) = requests.producers(cluster, [place], broker_id)
    if isinstance(found, str):
        raise Failure(f"{failed % _named(place)}: {found}")
    return found


def _find_hanging(
    cluster: Cluster, topic: str | None, partition: int | None, broker_id: int | None, minutes: int, output: str
) -> None:
    if topic is not None and partition is not None:
        places = [(topic, partition)]
    else:
        places = requests.partitions_of(cluster, topic, broker_id)
    candidates = []
    for place, found in requests.producers(cluster, places, broker_id):
        if isinstance(found, str):
            raise Failure(f"Failed to describe producers for partition {_named(place)}: {found}")
        candidates += [
            Open(*place, one)
            for one in found
            if one.current_txn_start_offset >= 0 and _now_ms() - one.last_timestamp > minutes * MINUTE_MS
        ]
    rows = [
        (
            one.topic,
            one.partition,
            one.producer.producer_id,
            one.producer.producer_epoch,
            one.producer.coordinator_epoch,
            one.producer.current_txn_start_offset,
            one.producer.last_timestamp,
            (_now_ms() - one.producer.last_timestamp) // MINUTE_MS,
        )
        for one in requests.hanging(cluster, candidates)
    ]
    headers = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    _show(output, headers, rows)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _named(place: TopicPartition) -> str:
    return f"{place[0]}-{place[1]}"


def _show(output: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Text as Kafka's tool lays it out: columns are filled up with blanks, and each ends with a tab."""
    columns = [re.sub(r"(?<=[a-z])(?=[A-Z])|\(", "_", one).rstrip(")").lower() for one in headers]
    cells = [headers, *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths)) for row in cells]
    show(output, columns, rows, None if output == JSON else lines)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return str(value)  # None is Kafka's word as well


# -- ways out ------------------------------------------------------------------------------------------------------


def _abort(
    reach: Reach,
    place: TopicPartition,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    *,
    yes: bool,
) -> None:
    if start_offset is None:
        if producer_id is None:
            raise click.UsageError(
                "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above)"
                " or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
            )
        if producer_epoch is None:
            raise click.UsageError("Missing required argument --producer-epoch")
        if coordinator_epoch is None:
            raise click.UsageError("Missing required argument --coordinator-epoch")
    with reach.cluster() as cluster:
        warning = ""
        if start_offset is not None:
            known = _producers(cluster, place, None, "Failed to validate producer state for partition %s")
            found = [one for one in known if one.current_txn_start_offset == start_offset >= 0]
            if not found:
                raise Failure(
                    f"Could not find any open transactions starting at offset {start_offset} on partition"
                    f" {_named(place)}"
                )
            producer_id, producer_epoch = found[0].producer_id, found[0].producer_epoch
            coordinator_epoch = found[0].coordinator_epoch
            if not by_kafka_name() and not requests.hanging(cluster, [Open(*place, found[0])]):
                warning = ", which does not hang: its coordinator still has it, and may yet commit its other partitions"
        assert producer_id is not None
        assert producer_epoch is not None
        assert coordinator_epoch is not None
        coordinator_epoch = max(0, coordinator_epoch)  # -1: no marker was written yet; 0 is older than any leader's
        confirm(f"Abort the transaction of producer {producer_id} in {_named(place)}{warning}", yes)
        failed = requests.abort(cluster, place, producer_id, producer_epoch, coordinator_epoch)
    if failed:
        raise Failure(
            f"Failed to abort transaction AbortTransactionSpec(topicPartition={_named(place)},"
            f" producerId={producer_id}, producerEpoch={producer_epoch}, coordinatorEpoch={coordinator_epoch}):"
            f" {failed}"
        )


def _terminate(cluster: Cluster, transactional_id: str, yes: bool) -> None:
    if not by_kafka_name():  # Kafka's tool makes an id that there is not; nobody wants that
        _, found = requests.described(cluster, transactional_id)
        if isinstance(found, int):
            raise Failure(f"{transactional_id!r}: {error_text(found)}")
        confirm(f"Abort what {transactional_id!r} ({found.transaction_state}) has open, and fence its producer", yes)
    failed = requests.terminate(cluster, transactional_id)
    if failed:
        raise Failure(f"Failed to force terminate transactionalId `{transactional_id}`: {failed}")
