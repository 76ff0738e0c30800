"""`ottla topics`: list, describe, create, alter and delete topics, with kafka-topics' options and output.

Without an action it lists. What it prints is Kafka 4's text; with --zookeeper, which Kafka 4 no longer takes, it is
that of Kafka 2 (docs/choices.md): no `Elr`, and lines about added partitions and deleted topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ottla.cli.common.invocation import Failure, by_kafka_name, confirm, fail_as_kafka
from ottla.cli.common.options import Tool, chosen, given_only_with, int32, key_values
from ottla.cli.common.output import JSON, output_asked, output_option, show
from ottla.cli.common.reach import Reach, broker_error, reaches
from ottla.cli.common.topic_filter import INTERNAL_TOPICS, TopicFilter

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from ottla.cli.common.topic_description import Description

MOST_REPLICAS = 32767
COLLISIONS = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
KEYS_MOVE = (
    "WARNING: If partitions are increased for a topic that has a key, "
    "the partition logic or ordering of the messages will be affected"
)
PARTITIONS_PER_ANSWER = 2000


class TopicError(Failure):
    """What Kafka's tool tells behind `Error while executing topic command : `."""


@click.command("topics", cls=Tool, short_help="List, describe, create, alter and delete topics.")
@click.option("--list", "list_", is_flag=True, help="List topics; the default.")
@click.option("--describe", is_flag=True, help="Show partitions, replicas and changed configs.")
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--alter", is_flag=True, help="Add partitions.")
@click.option("--delete", is_flag=True, help="Delete topics with all their data.")
@click.option("--topic", metavar="TOPIC", help="The topic; except with --create also a regular expression.")
@click.option("--topic-id", metavar="ID", help="Describe the topic with this id.")
@click.option("--partitions", type=int32(), help="How many partitions; not given on --create: the broker's default.")
@click.option("--replication-factor", type=int32(), help="How many replicas; not given: the broker's default.")
@click.option("--replica-assignment", metavar="0:1,1:2", help="The brokers of each partition, by hand.")
@click.option("--config", multiple=True, metavar="KEY=VALUE", help="A config of the new topic; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Create: it is no error if the topic exists.")
@click.option("--if-exists", is_flag=True, help="Alter, delete, describe: it is no error if no topic exists.")
@click.option("--exclude-internal", is_flag=True, help="List, describe: without internal topics.")
@click.option("--topics-with-overrides", is_flag=True, help="Describe only topics with changed configs.")
@click.option("--under-replicated-partitions", is_flag=True, help="Describe only partitions that lack a replica.")
@click.option("--unavailable-partitions", is_flag=True, help="Describe only partitions without a living leader.")
@click.option("--under-min-isr-partitions", is_flag=True, help="Describe only those below min.insync.replicas.")
@click.option("--at-min-isr-partitions", is_flag=True, help="Describe only those at min.insync.replicas.")
@click.option("--disable-rack-aware", is_flag=True, help="Create: place replicas without regard to racks.")
@click.option(
    "--partition-size-limit-per-response",
    "per_answer",
    type=int32(1),
    metavar="N",
    help=f"Describe: so many partitions at once: {PARTITIONS_PER_ANSWER}.",
)
@click.option("--yes", "--force", "yes", is_flag=True, help="Do not ask before topics are deleted.")
@reaches
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    list_: bool,
    describe: bool,
    create: bool,
    alter: bool,
    delete: bool,
    topic: str | None,
    topic_id: str | None,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    config: tuple[str, ...],
    if_not_exists: bool,
    if_exists: bool,
    exclude_internal: bool,
    topics_with_overrides: bool,
    under_replicated_partitions: bool,
    unavailable_partitions: bool,
    under_min_isr_partitions: bool,
    at_min_isr_partitions: bool,
    disable_rack_aware: bool,
    per_answer: int | None,
    yes: bool,
    reach: Reach,
    output: str,
) -> None:
    """List, describe, create, alter and delete topics."""
    actions = {"--list": list_, "--describe": describe, "--create": create, "--alter": alter, "--delete": delete}
    action = chosen(ctx, actions, "--list")
    if alter and config:
        raise click.UsageError("--config is for --create; `ottla configs` (kafka-configs) changes existing topics", ctx)
    reports = {
        "--under-replicated-partitions": under_replicated_partitions,
        "--unavailable-partitions": unavailable_partitions,
        "--under-min-isr-partitions": under_min_isr_partitions,
        "--at-min-isr-partitions": at_min_isr_partitions,
    }
    given_only_with(ctx, action, {"--config": config, "--replication-factor": replication_factor}, "--create")
    given_only_with(ctx, action, {"--partitions": partitions}, "--create", "--alter")
    given_only_with(ctx, action, {"--replica-assignment": replica_assignment}, "--create", "--alter")
    given_only_with(ctx, action, {"--if-not-exists": if_not_exists}, "--create")
    given_only_with(ctx, action, {"--disable-rack-aware": disable_rack_aware}, "--create")
    given_only_with(ctx, action, {"--if-exists": if_exists}, "--alter", "--delete", "--describe")
    given_only_with(ctx, action, {"--exclude-internal": exclude_internal}, "--list", "--describe")
    given_only_with(ctx, action, {"--topics-with-overrides": topics_with_overrides, **reports}, "--describe")
    given_only_with(ctx, action, {"--topic-id": topic_id}, "--describe")
    given_only_with(ctx, action, {"--partition-size-limit-per-response": per_answer}, "--describe")
    given_only_with(ctx, action, output_asked(ctx), "--list", "--describe")
    if action not in ("--list", "--describe") and topic is None:
        raise click.UsageError(f"{action} needs --topic", ctx)
    if alter and partitions is None:
        raise click.UsageError("--alter needs --partitions", ctx)
    if topics_with_overrides and any(reports.values()):
        raise click.UsageError("--topics-with-overrides cannot go with a report of partitions", ctx)

    with _told_as_kafka():
        if create:
            assert topic is not None
            _create(
                reach,
                topic,
                partitions,
                replication_factor,
                replica_assignment,
                key_values(config, "--config"),
                if_not_exists,
                disable_rack_aware,
            )
        elif alter:
            assert topic is not None
            assert partitions is not None
            _alter(reach, topic, partitions, replica_assignment, if_exists)
        elif delete:
            assert topic is not None
            _delete(reach, topic, if_exists, yes)
        elif describe:
            wanted = {name for name, given in reports.items() if given}
            per_answer = per_answer or PARTITIONS_PER_ANSWER
            found = _find(reach, topic, topic_id, if_exists, exclude_internal, per_answer)
            _show_descriptions(reach, *found, wanted, topics_with_overrides, output)
        else:
            _list(reach, topic, exclude_internal, output)


@contextmanager
def _told_as_kafka() -> Iterator[None]:
    try:
        yield
    except TopicError as error:
        fail_as_kafka(f"Error while executing topic command : {error.message}", error.message)
    except Exception as error:
        # ValueError: librdkafka has its own limits
        told = str(error) if isinstance(error, ValueError) else broker_error(error)
        if told is None:
            raise
        fail_as_kafka(f"Error while executing topic command : {told}", told)


def _existing(admin: AdminClient, pattern: str | None, *, exclude_internal: bool = False) -> list[str]:
    return TopicFilter(pattern or ".*", exclude_internal=exclude_internal).among(admin.list_topics(timeout=30).topics)


def _list(reach: Reach, pattern: str | None, exclude_internal: bool, output: str) -> None:
    admin = reach.admin()
    topics = admin.list_topics(timeout=30).topics
    names = TopicFilter(pattern or ".*", exclude_internal=exclude_internal).among(topics)
    rows = [
        (
            name,
            len(topics[name].partitions),
            max((len(one.replicas) for one in topics[name].partitions.values()), default=0),
            name in INTERNAL_TOPICS,
        )
        for name in names
    ]
    show(output, ("topic", "partitions", "replication_factor", "internal"), rows, names)


def _create(
    reach: Reach,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    assignment: str | None,
    configs: dict[str, str],
    if_not_exists: bool,
    disable_rack_aware: bool,
) -> None:
    if assignment is not None and (partitions is not None or replication_factor is not None):
        raise click.UsageError("--replica-assignment cannot go with --partitions or --replication-factor")
    if replication_factor is not None and not 1 <= replication_factor <= MOST_REPLICAS:
        raise TopicError(f"The replication factor must be between 1 and {MOST_REPLICAS} inclusive")
    if partitions is not None and partitions < 1:
        raise TopicError("The partitions must be greater than 0")
    if "." in topic or "_" in topic:
        click.echo(COLLISIONS)
    placed = None if assignment is None else _parsed_assignment(assignment)
    if disable_rack_aware and placed is None:
        placed = _placed_without_racks(reach, partitions, replication_factor)
    admin = reach.admin()
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    if placed is None:
        new = NewTopic(topic, partitions or -1, replication_factor or -1, config=configs)
    else:
        new = NewTopic(topic, len(placed), replica_assignment=placed, config=configs)
    try:
        admin.create_topics([new])[topic].result()
    except KafkaException as error:
        if if_not_exists and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        raise
    click.echo(f"Created topic {topic}.")


def _parsed_assignment(text: str) -> list[list[int]]:
    """`0:1,1:2`: the brokers of each partition."""
    placed: list[list[int]] = []
    for index, part in enumerate(text.split(",")):
        try:
            brokers = [int32(0).convert(one, None, None) for one in part.split(":")]
        except click.BadParameter:
            raise click.UsageError(f"--replica-assignment {text!r} must be like 0:1,1:2, ids of brokers") from None
        twice = sorted({one for one in brokers if brokers.count(one) > 1})
        if twice:
            raise TopicError(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}")
        placed.append(brokers)
        if len(brokers) != len(placed[0]):
            raise TopicError(f"Partition {index} has different replication factor: {brokers}")
    return placed


def _placed_without_racks(reach: Reach, partitions: int | None, replicas: int | None) -> list[list[int]]:
    """The placement that the cluster would choose if no broker had a rack."""
    from ottla.controller.placement import ImpossibleReplication, place

    if partitions is None or replicas is None:
        raise click.UsageError("--disable-rack-aware needs --partitions and --replication-factor")
    with reach.cluster() as cluster:
        racks: dict[int, str | None] = {one.node_id: None for one in cluster.metadata.brokers}
    try:
        return place(partitions, replicas, racks, 0)
    except ImpossibleReplication as error:
        raise TopicError(str(error)) from None


def _alter(reach: Reach, pattern: str, partitions: int, assignment: str | None, if_exists: bool) -> None:
    placed = None if assignment is None else _parsed_assignment(assignment)
    admin = reach.admin()
    from confluent_kafka.cimpl import NewPartitions

    topics = admin.list_topics(timeout=30).topics
    names = TopicFilter(pattern).among(topics)
    _must_exist(names, pattern, if_exists)
    if not names:
        return
    if reach.through_zookeeper or not by_kafka_name():
        click.echo(KEYS_MOVE, err=not reach.through_zookeeper)
    wanted = []
    for name in names:
        new = placed[len(topics[name].partitions) :] if placed is not None else None
        wanted.append(NewPartitions(name, partitions, new) if new is not None else NewPartitions(name, partitions))
    for future in admin.create_partitions(wanted).values():
        future.result()
    if reach.through_zookeeper:
        click.echo("Adding partitions succeeded!")


def _delete(reach: Reach, pattern: str, if_exists: bool, yes: bool) -> None:
    admin = reach.admin()
    names = _existing(admin, pattern)
    _must_exist(names, pattern, if_exists)
    if not names:
        return
    count = "topic" if len(names) == 1 else f"{len(names)} topics:"
    confirm(f"Delete {count} {', '.join(names)}, with all records", yes)
    for name, future in admin.delete_topics(names).items():
        future.result()
        if reach.through_zookeeper:
            click.echo(f"Topic {name} is marked for deletion.")
            click.echo("Note: This will have no impact if delete.topic.enable is not set to true.")


def _must_exist(names: list[str], pattern: str | None, if_exists: bool) -> None:
    if pattern and not names and not if_exists:
        raise TopicError(f"Topic '{pattern}' does not exist as expected")


def _find(
    reach: Reach, pattern: str | None, topic_id: str | None, if_exists: bool, exclude_internal: bool, limit: int
) -> tuple[list[Description], list[int]]:
    """Descriptions of the topics that are meant, and the brokers that live."""
    from ottla.cli.common.topic_description import describe, id_text

    with reach.cluster() as cluster:
        every = cluster.topics()
        if topic_id is None:
            names = TopicFilter(pattern or ".*", exclude_internal=exclude_internal).among(
                one.name or "" for one in every
            )
            _must_exist(names, pattern, if_exists)
        else:
            names = [one.name or "" for one in every if id_text(one.topic_id) == topic_id]
            if not names and not if_exists:
                raise TopicError(f"TopicId '{topic_id}' does not exist as expected")
        return describe(cluster, names, limit), [one.node_id for one in cluster.metadata.brokers]


def _show_descriptions(
    reach: Reach, topics: list[Description], live: list[int], reports: set[str], overrides: bool, output: str
) -> None:
    from ottla.cli.common.topic_description import Partition, id_text

    old = reach.through_zookeeper

    def reported(topic: Description, partition: Partition) -> bool:
        return (
            ("--under-replicated-partitions" in reports and topic.is_under_replicated(partition))
            or ("--unavailable-partitions" in reports and topic.is_unavailable(partition, live))
            or ("--under-min-isr-partitions" in reports and topic.is_under_min_isr(partition))
            or ("--at-min-isr-partitions" in reports and topic.is_at_min_isr(partition))
        )

    if overrides:
        topics = [topic for topic in topics if topic.changed_configs(own_only=old)]
        columns: tuple[str, ...] = ("topic", "topic_id", "partitions", "replication_factor", "configs")
        lists = [(topic.name, id_text(topic.topic_id), len(topic.partitions)) for topic in topics]
        show(
            output,
            columns,
            [(*row, topic.replication_factor, topic.changed_configs(old)) for row, topic in zip(lists, topics)],
            [topic.line(old) for topic in topics],
        )
        return
    rows: list[tuple[object, ...]] = []
    lines = []
    columns = ("topic", "partition", "leader", "replicas", "isr", "elr", "last_known_elr")
    for topic in topics:
        if not reports:
            lines.append(topic.line(old))
        for one in topic.partitions:
            if reports and not reported(topic, one):
                continue
            lines.append(topic.partition_line(one, old))
            leader = None if one.leader_id < 0 else one.leader_id
            row = (topic.name, one.partition_index, leader, one.replica_nodes, one.isr_nodes)
            row += (one.eligible_leader_replicas, one.last_known_elr)  # type: ignore[assignment]
            rows.append((*row, id_text(topic.topic_id), topic.changed_configs(old)) if output == JSON else row)
    show(output, (*columns, "topic_id", "configs") if output == JSON else columns, rows, lines)
