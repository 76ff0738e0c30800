"""`ottla reassign-partitions`: move partitions to other brokers and directories, as kafka-reassign-partitions does.

    --generate   propose an assignment of topics to brokers      --list     moves that go on
    --execute    begin to move as a file says                    --cancel   end them where they are
    --verify     how far that is; done: throttles are removed

A throttle is a set of configs (KIP-73): on brokers a rate, on topics the replicas to which it applies. What a broker
makes of them is its own affair; one node replicates nothing. With --zookeeper the text is that of Kafka 0.10.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import randrange

import click

from ottla.cli.common import assignments, resource_configs
from ottla.cli.common.assignments import Assignment, Replica, as_json
from ottla.cli.common.invocation import Failure, fail_as_kafka
from ottla.cli.common.json_files import TopicPartition, joined
from ottla.cli.common.options import Tool, chosen, given_only_with, int32, int64
from ottla.cli.common.output import TEXT, output_asked, output_option, show
from ottla.cli.common.reach import Reach, reaches_by_bootstrap
from ottla.cli.common.requests import Cluster, Unreachable, error_text
from ottla.cli.common.resource_configs import Resource
from ottla.controller.placement import ImpossibleReplication, place
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
ONGOING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
TIMEOUT_MS = 30_000
SLOWEST = 1024
PAUSE_SECONDS = 0.1


@click.command("reassign-partitions", cls=Tool, short_help="Move partitions to other brokers and directories.")
@click.option("--generate", is_flag=True, help="Propose an assignment of topics to brokers.")
@click.option("--execute", is_flag=True, help="Move partitions as a file says.")
@click.option("--verify", is_flag=True, help="Show how far that is, and remove throttles when it is done.")
@click.option("--cancel", is_flag=True, help="End moves that go on.")
@click.option("--list", "list_", is_flag=True, help="Show moves that go on; the default.")
@click.option("--topics-to-move-json-file", "topics_file", metavar="FILE", help="Generate: the topics, as JSON.")
@click.option("--broker-list", "brokers", metavar="0,1,...", help="Generate: the brokers.")
@click.option("--disable-rack-aware", is_flag=True, help="Generate: without regard to racks.")
@click.option("--reassignment-json-file", "file", metavar="FILE", help="Execute, verify, cancel: the assignment.")
@click.option("--additional", is_flag=True, help="Execute: though other moves go on.")
@click.option(
    "--disallow-replication-factor-change", "keep", is_flag=True, help="Execute: keep the number of replicas."
)
@click.option("--throttle", type=int64(SLOWEST), metavar="BYTES", help="Execute: bytes per second of a broker.")
@click.option(
    "--replica-alter-log-dirs-throttle",
    "directory_throttle",
    type=int64(SLOWEST),
    metavar="BYTES",
    help="Execute: bytes per second between directories.",
)
@click.option("--preserve-throttles", is_flag=True, help="Verify, cancel: leave throttles as they are.")
@click.option("--timeout", "timeout_ms", type=int32(0), default=10_000, help="Ms until moves of directories begin.")
@reaches_by_bootstrap
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    generate: bool,
    execute: bool,
    verify: bool,
    cancel: bool,
    list_: bool,
    topics_file: str | None,
    brokers: str | None,
    disable_rack_aware: bool,
    file: str | None,
    additional: bool,
    keep: bool,
    throttle: int | None,
    directory_throttle: int | None,
    preserve_throttles: bool,
    timeout_ms: int,
    reach: Reach,
    output: str,
) -> None:
    """Move partitions to other brokers, and to other directories of their brokers."""
    actions = {"--generate": generate, "--execute": execute, "--verify": verify, "--cancel": cancel, "--list": list_}
    action = chosen(ctx, actions, "--list")
    of_generate = {"--topics-to-move-json-file": topics_file, "--broker-list": brokers}
    of_generate["--disable-rack-aware"] = disable_rack_aware or None  # type: ignore[assignment]
    given_only_with(ctx, action, of_generate, "--generate")
    given_only_with(ctx, action, output_asked(ctx), "--list")
    given_only_with(ctx, action, {"--reassignment-json-file": file}, "--execute", "--verify", "--cancel")
    given_only_with(ctx, action, {"--additional": additional, "--throttle": throttle}, "--execute")
    given_only_with(ctx, action, {"--disallow-replication-factor-change": keep}, "--execute")
    given_only_with(ctx, action, {"--replica-alter-log-dirs-throttle": directory_throttle}, "--execute")
    given_only_with(ctx, action, {"--preserve-throttles": preserve_throttles}, "--verify", "--cancel")
    with _told_as_kafka():
        if action == "--generate":
            if topics_file is None or brokers is None:
                raise click.UsageError("--generate needs --topics-to-move-json-file and --broker-list", ctx)
            ids = _broker_ids(brokers)
            topics = assignments.read_topics(topics_file)
            with reach.cluster() as cluster:
                _generate(cluster, topics, ids, racks=not disable_rack_aware)
            return
        if action == "--list":
            with reach.cluster() as cluster:
                _list(cluster, output)
            return
        if file is None:
            raise click.UsageError(f"{action} needs --reassignment-json-file", ctx)
        wanted = assignments.read(file)
        with reach.cluster() as cluster:
            if execute:
                work = _Execution(cluster, wanted, timeout_ms, old=reach.through_zookeeper)
                work.run(additional, keep, throttle, directory_throttle)
            elif verify:
                _verify(cluster, wanted, preserve_throttles, old=reach.through_zookeeper)
            else:
                _cancel(cluster, wanted, preserve_throttles, timeout_ms)


@contextmanager
def _told_as_kafka() -> Iterator[None]:
    try:
        yield
    except Unreachable:
        raise
    except Failure as failure:
        fail_as_kafka(f"Error: {failure.message}", failure.message)


def _broker_ids(text: str) -> list[int]:
    try:
        ids = [int(one) for one in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--broker-list wants ids with commas between, not {text!r}") from None
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise Failure(f"Broker list contains duplicate entries: {', '.join(map(str, twice))}")
    return ids


# -- what is -------------------------------------------------------------------------------------------------------


def _current(cluster: Cluster, topics: list[str]) -> dict[TopicPartition, list[int]]:
    """The replicas of all partitions of these topics."""
    found = {}
    for topic in cluster.topics(topics):
        if topic.error_code:
            raise Failure(f"Topic {topic.name} not found.")
        for one in topic.partitions:
            found[topic.name or "", one.partition_index] = list(one.replica_nodes)
    return found


Moves = dict[TopicPartition, ListPartitionReassignmentsResponse.Partition]


def _moving(cluster: Cluster) -> Moves:
    """The partitions that are on the move now."""
    reply = cluster.controller().call(ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
    if reply.error_code:
        raise Failure(error_text(reply.error_code, reply.error_message))
    return {(topic.name, one.partition_index): one for topic in reply.topics for one in topic.partitions}


def _directories(cluster: Cluster, replicas: list[Replica]) -> tuple[dict[Replica, str], dict[Replica, str]]:
    """Where replicas lie, and where those go that are being moved."""
    here: dict[Replica, str] = {}
    future: dict[Replica, str] = {}
    alive = {one.node_id for one in cluster.metadata.brokers}
    for broker in sorted({replica.broker for replica in replicas} & alive):
        for directory in cluster.broker(broker).call(DescribeLogDirsRequest(topics=None)).results:
            for topic in directory.topics:
                for one in topic.partitions:
                    found = future if one.is_future_key else here
                    found[Replica(broker, topic.name, one.partition_index)] = directory.log_dir
    return here, future


def _with_directories(cluster: Cluster, current: dict[TopicPartition, list[int]]) -> str:
    """The present assignment as JSON, with the directories in which replicas lie."""
    replicas = [Replica(broker, *place_) for place_, brokers in current.items() for broker in brokers]
    return as_json(current, _directories(cluster, replicas)[0])


def _list(cluster: Cluster, output: str) -> None:
    moves = sorted(_moving(cluster).items())
    lines = ["Current partition reassignments:"] if moves else ["No partition reassignments found."]
    rows = []
    for place_, move in moves:
        line = f"{joined([place_])}: replicas: {_ids(move.replicas)}."
        line += f" adding: {_ids(move.adding_replicas)}." if move.adding_replicas else ""
        line += f" removing: {_ids(move.removing_replicas)}." if move.removing_replicas else ""
        lines.append(line)
        rows.append((*place_, move.replicas, move.adding_replicas, move.removing_replicas))
    show(output, ("topic", "partition", "replicas", "adding", "removing"), rows, lines if output == TEXT else None)


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


# -- what shall be -------------------------------------------------------------------------------------------------


def _generate(cluster: Cluster, topics: list[str], brokers: list[int], *, racks: bool) -> None:
    current = _current(cluster, topics)
    alive = {one.node_id: one.rack if racks else None for one in cluster.metadata.brokers if one.node_id in brokers}
    if not alive:
        raise Failure(f"none of the brokers {_ids(brokers)} is there")
    if None in alive.values() and any(alive.values()):
        raise Failure(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in sorted(topics):
        replicas = [brokers for (name, _), brokers in sorted(current.items()) if name == topic]
        try:
            placed = place(len(replicas), len(replicas[0]), alive, randrange(len(alive)))
        except ImpossibleReplication as error:
            raise Failure(str(error)) from None
        proposed |= {(topic, index): brokers for index, brokers in enumerate(placed)}
    click.echo(f"Current partition replica assignment\n{_with_directories(cluster, current)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{as_json(proposed)}")


class _Execution:
    """`--execute`, step by step."""

    def __init__(self, cluster: Cluster, wanted: Assignment, timeout_ms: int, *, old: bool) -> None:
        self._cluster, self._wanted, self._timeout_ms, self._old = cluster, wanted, timeout_ms, old

    def run(self, additional: bool, keep: bool, throttle: int | None, directory_throttle: int | None) -> None:
        wanted = self._wanted
        moving = _moving(self._cluster)
        if moving and not additional:
            raise Failure(ONGOING)
        alive = {one.node_id for one in self._cluster.metadata.brokers}
        for broker in wanted.brokers:
            if broker not in alive:
                raise Failure(f"Unknown broker id {broker}")
        every = _current(self._cluster, wanted.topics)
        missing = [one for one in sorted(wanted.replicas) if one not in every]
        if missing:
            raise Failure(f"Unable to find partition: {joined(missing)}")
        current = {one: every[one] for one in wanted.replicas}
        click.echo(f"Current partition replica assignment\n\n{_with_directories(self._cluster, current)}\n")
        click.echo("Save this to use as the --reassignment-json-file option during rollback")
        if throttle is not None or directory_throttle is not None:
            click.echo(VERIFY)
        if throttle is not None:
            self._throttle(moving, current, throttle)
        if directory_throttle is not None:
            rate: dict[str, str | None] = {DIRECTORY_RATE: str(directory_throttle)}
            brokers = {str(replica.broker) for replica in wanted.directories}
            resource_configs.alter(self._cluster, Resource.BROKER, dict.fromkeys(sorted(brokers), rate))
            click.echo(f"The replica-alter-dir throttle limit was set to {directory_throttle} B/s")
        errors = _alter(self._cluster, wanted.replicas, keep)
        if errors:
            raise Failure("Error reassigning partition(s):\n" + "\n".join(errors))
        if self._old:
            click.echo(f"Successfully started reassignment of partitions {as_json(wanted.replicas)}")
        else:
            ending = "" if len(wanted.replicas) == 1 else "s"
            named = joined(sorted(wanted.replicas), ",")
            click.echo(f"Successfully started partition reassignment{ending} for {named}")
        if wanted.directories:
            _move_directories(self._cluster, wanted.directories, self._timeout_ms)

    def _throttle(self, moving: Moves, current: dict[TopicPartition, list[int]], rate: int) -> None:
        """Set the rate on all brokers that take part, and name the replicas that copy."""
        leaders: dict[str, list[str]] = {}
        followers: dict[str, list[str]] = {}
        brokers = set()
        for (topic, index), target in self._wanted.replicas.items():
            move = moving.get((topic, index))
            sources = (
                [one for one in move.replicas if one not in move.adding_replicas] if move else current[topic, index]
            )
            copies = [one for one in target if one not in sources]
            leaders.setdefault(topic, []).extend(f"{index}:{one}" for one in sources)
            followers.setdefault(topic, []).extend(f"{index}:{one}" for one in copies)
            brokers |= {*sources, *copies}
        # brokers first: where nothing is replicated they refuse, and then nothing has changed
        rates: dict[str, str | None] = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
        resource_configs.alter(self._cluster, Resource.BROKER, dict.fromkeys(map(str, sorted(brokers)), rates))
        resource_configs.alter(
            self._cluster,
            Resource.TOPIC,
            {
                topic: {LEADER_REPLICAS: ",".join(leaders[topic]), FOLLOWER_REPLICAS: ",".join(followers[topic])}
                for topic in leaders
            },
        )
        click.echo(f"The inter-broker throttle limit was set to {rate} B/s")


def _alter(cluster: Cluster, replicas: Mapping[TopicPartition, list[int] | None], keep: bool = False) -> list[str]:
    """Begin to move partitions, or cancel it (None); returns what went wrong, a line for each partition."""
    topics: dict[str, list[AlterPartitionReassignmentsRequest.Partition]] = {}
    for (topic, index), brokers in sorted(replicas.items()):
        one = AlterPartitionReassignmentsRequest.Partition(partition_index=index, replicas=brokers)
        topics.setdefault(topic, []).append(one)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        allow_replication_factor_change=not keep,
        topics=[AlterPartitionReassignmentsRequest.Topic(name=name, partitions=some) for name, some in topics.items()],
    )
    reply = cluster.controller().call(request)
    if reply.error_code:
        raise Failure(error_text(reply.error_code, reply.error_message))
    return [
        f"{topic.name}-{one.partition_index}: {one.error_message or error_text(one.error_code)}"
        for topic in reply.responses
        for one in topic.partitions
        if one.error_code
    ]


def _move_directories(cluster: Cluster, wanted: Mapping[Replica, str], timeout_ms: int) -> None:
    """Ask brokers to move replicas; one that has not come to its broker yet is asked for again until the time is up."""
    pending = dict(wanted)
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        for replica in _begun(cluster, pending):
            click.echo(
                f"Successfully started moving log directory to {pending.pop(replica)} "
                f"for replica {replica.topic}-{replica.partition} with broker {replica.broker} "
            )
        if not pending:
            return
        if time.monotonic() >= deadline:
            ending = "" if len(pending) == 1 else "s"
            named = ",".join(map(str, sorted(pending)))
            raise Failure(f"Timed out before log directory move{ending} could be started for: {named}")
        time.sleep(PAUSE_SECONDS)


def _begun(cluster: Cluster, wanted: Mapping[Replica, str]) -> list[Replica]:
    begun = []
    for broker in sorted({replica.broker for replica in wanted}):
        dirs: dict[str, dict[str, list[int]]] = {}
        for replica, path in wanted.items():
            if replica.broker == broker:
                dirs.setdefault(path, {}).setdefault(replica.topic, []).append(replica.partition)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDirsRequest.Dir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirsRequest.Topic(name=name, partitions=some) for name, some in topics.items()
                    ],
                )
                for path, topics in dirs.items()
            ]
        )
        for topic in cluster.broker(broker).call(request).results:
            for one in topic.partitions:
                replica = Replica(broker, topic.topic_name, one.partition_index)
                if one.error_code == ErrorCode.REPLICA_NOT_AVAILABLE:
                    continue
                if one.error_code:
                    raise Failure(f"Failed to alter dir for {replica}: {error_text(one.error_code)}")
                begun.append(replica)
    return sorted(begun)


# -- how far it is ---------------------------------------------------------------------------------------------------


def _verify(cluster: Cluster, wanted: Assignment, preserve: bool, *, old: bool) -> None:
    moving = _moving(cluster)
    there = {
        (topic.name or "", one.partition_index): list(one.replica_nodes)
        for topic in cluster.topics(wanted.topics)
        for one in topic.partitions
    }
    click.echo("Status of partition reassignment:")
    for place_, target in sorted(wanted.replicas.items()):
        current = there.get(place_, [])
        shown = f"[{place_[0]},{place_[1]}]" if old else joined([place_])
        if place_ in moving:
            click.echo(f"Reassignment of partition {shown} is still in progress" + ("" if old else "."))
        elif current == target:
            click.echo(f"Reassignment of partition {shown} " + ("completed successfully" if old else "is completed."))
        else:
            click.echo(
                f"There is no active reassignment of partition {shown}, "
                f"but replica set is {_ids(current)} rather than {_ids(target)}."
            )
    here, future = _directories(cluster, list(wanted.directories))
    lines = [
        _directory_line(replica, target, here.get(replica), future.get(replica))
        for replica, target in sorted(wanted.directories.items())
    ]
    if lines or not old:
        click.echo("\n".join(lines))
    if not moving and not any(replica in future for replica in wanted.directories) and not preserve:
        _clear_throttles(cluster, wanted, quiet=old)


def _directory_line(replica: Replica, target: str, here: str | None, future: str | None) -> str:
    partition = f"Partition {replica.topic}-{replica.partition}"
    if here is None:
        return f"{partition} cannot be found in any live log directory on broker {replica.broker}."
    if future is None:
        if here == target:
            return f"Reassignment of replica {replica} completed successfully."
        return f"{partition} on broker {replica.broker} is not being moved from log dir {here} to {target}."
    if future == target:
        return f"Reassignment of replica {replica} is still in progress."
    return f"{partition} on broker {replica.broker} is being moved to log dir {future} instead of {target}."


def _clear_throttles(cluster: Cluster, wanted: Assignment, *, quiet: bool = False) -> None:
    """Remove throttles from all brokers and from the topics of the assignment."""
    alive = {one.node_id for one in cluster.metadata.brokers}
    brokers, topics = sorted(alive | {*wanted.brokers}), wanted.topics
    if not quiet:
        click.echo(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {_ids(brokers)}")
    rates: dict[str, str | None] = dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE))
    resource_configs.alter(
        cluster, Resource.BROKER, dict.fromkeys([str(one) for one in brokers if one in alive], rates)
    )
    if not quiet:
        click.echo(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    replicas: dict[str, str | None] = dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS))
    existing = {topic.name for topic in cluster.topics(topics) if not topic.error_code}
    resource_configs.alter(cluster, Resource.TOPIC, dict.fromkeys([one for one in topics if one in existing], replicas))


def _cancel(cluster: Cluster, wanted: Assignment, preserve: bool, timeout_ms: int) -> None:
    moving = [one for one in sorted(_moving(cluster)) if one in wanted.replicas]
    if moving:
        ending = "" if len(moving) == 1 else "s"
        errors = _alter(cluster, dict.fromkeys(moving))
        if errors:
            raise Failure(f"Error cancelling partition reassignment{ending} for:\n" + "\n".join(errors))
        click.echo(f"Successfully cancelled partition reassignment{ending} for: {joined(moving, ',')}")
    else:
        click.echo("None of the specified partition reassignments are active.")
    here, future = _directories(cluster, list(wanted.directories))
    back = {replica: here[replica] for replica in wanted.directories if replica in future and replica in here}
    if back:
        _move_directories(cluster, back, timeout_ms)
    else:
        click.echo("None of the specified partition moves are active.")
    if not preserve:
        _clear_throttles(cluster, wanted)
