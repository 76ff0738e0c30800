"""`ottla streams reset`: an application begins anew (A3 DP18); under Kafka's name kafka-streams-application-reset.

Offsets of its group go back (to the first record, if nothing else is said), its internal topics, checkpoints and stores
are deleted. What it has written stays, unless --delete-output-topics is given, and is written again.

By FILE.py it is known what the application reads and owns. By --application-id alone, topics to be read again must be
named, and internal topics are guessed by their names, as Kafka's tool does; then it works for Java's applications, too.
Kafka's tool leaves local state to the application; this one deletes that of `ottla streams`, where there is any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common.invocation import FAILED, Failure, by_kafka_name, confirm
from ottla.cli.common.options import Tool, int32, int64, is_given
from ottla.cli.common.reach import Reach, find, first_given, kafka_error, properties_of
from ottla.cli.groups import reset as group_reset
from ottla.cli.groups.coordinators import Coordinators, Described
from ottla.cli.groups.offsets import Offsets, Partition
from ottla.cli.streaming.telling import told_plainly

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from ottla.pipelines.state_directory import StateDirectory
    from ottla.streams.app import App

# as Kafka Streams and our DSL name an application's own topics, behind its id
INTERNAL = re.compile(
    r".+-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


@click.command("reset", cls=Tool, short_help="Let an application begin anew.")
@click.argument("file", metavar="[FILE.py]", required=False, type=click.Path())
@click.option("--app", "name", metavar="NAME", help="Which variable of the file, where several are applications.")
@click.option("--application-id", metavar="ID", help="The application, where no file is given.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers; not given: those of the file.")
@click.option("--bootstrap-servers", "older_name", metavar="HOST:PORT,...", help="The same as --bootstrap-server.")
@click.option("--state-dir", metavar="DIR", help="Where the application keeps its state: data/streams.")
@click.option("--input-topics", multiple=True, metavar="TOPIC,...", help="What it reads again; by FILE.py: all.")
@click.option("--intermediate-topics", multiple=True, metavar="TOPIC,...", help="Which topics it skips to their ends.")
@click.option("--internal-topics", multiple=True, metavar="TOPIC,...", help="Which internal topics to delete: all.")
@click.option("--to-earliest", is_flag=True, help="Read input topics from the start of the log; the default.")
@click.option("--to-latest", is_flag=True, help="Read them from the end of the log.")
@click.option("--to-offset", type=int64(0), metavar="N", help="Read them from this offset.")
@click.option("--shift-by", type=int64(), metavar="N", help="Read them from so many after (or before) its last.")
@click.option("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help="Read them from the first record at this time.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="The same, for a time so long ago.")
@click.option("--from-file", metavar="FILE", help="Read them from offsets in a file: topic,partition,offset in a line.")
@click.option("--delete-output-topics", is_flag=True, help="Delete the topics that the application of the file writes.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--force", is_flag=True, help="Put members out of the group that have died without saying so.")
@click.option("--command-config", metavar="FILE", help="A property file with settings of the client.")
@click.option("--config-file", metavar="FILE", help="The same as --command-config.")
@click.option("--timeout", type=int32(1), default=30_000, metavar="MS", help="How long to wait: 30000.")
@click.option("--yes", is_flag=True, help="Do it without being asked.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int | None:
    """Let an application begin anew: offsets back, internal topics, checkpoints and stores gone.

    It must not run. What it has written stays, and is written again.
    """
    given = [option for name, option in group_reset.SCENARIOS.items() if is_given(options.get(name))]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} cannot go with {given[1]}", ctx)
    if options["file"] is None and not options["application_id"]:
        wanted = "--application-id" if by_kafka_name() else "FILE.py or --application-id"
        raise click.UsageError(f"which application is to be reset? {wanted} is missing", ctx)
    if options["file"] is None:
        for option, value in (("--app", options["name"]), ("--delete-output-topics", options["delete_output_topics"])):
            if is_given(value):
                raise click.UsageError(f"{option} needs FILE.py", ctx)
    with told_plainly():
        return _Reset(options).run()


@dataclass(slots=True)
class Scope:
    """Topics of an application, by their part in it."""

    inputs: list[str]
    intermediate: list[str]
    tables: list[str] = field(default_factory=list)
    internal: list[str] = field(default_factory=list)
    kept_internal: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """What a reset is going to do."""

    inputs: dict[Partition, int]
    tables: dict[Partition, int]
    ends: dict[Partition, int]  # of intermediate topics
    others: dict[Partition, int]  # where the group is in topics that are not reset
    missing_inputs: list[str]
    missing_intermediate: list[str]
    internal: list[str]
    kept_internal: list[str]  # look like the application's, and are not in its file
    outputs: list[str]
    remarks: list[str] = field(default_factory=list)

    @property
    def offsets(self) -> dict[Partition, int]:
        return self.inputs | self.tables | self.ends


class _Reset:
    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._app = _loaded(options)
        self._id: str = self._app.id if self._app else options["application_id"]
        properties = properties_of(options["command_config"], options["config_file"])
        servers = first_given(options["bootstrap_server"], options["older_name"])
        if self._app:
            settings = self._app.settings
            servers, properties = first_given(servers, settings.bootstrap), {**settings.kafka, **properties}
        self._reach: Reach = find(servers, None, properties)
        self._seconds = options["timeout"] / 1000
        self._state = self._state_directory()

    def _state_directory(self) -> StateDirectory | None:
        """Where the application keeps its state; None for one that is not ours, as far as one can see from here."""
        where, app = self._options["state_dir"], self._app
        try:
            from ottla.pipelines.state_directory import DEFAULT, StateDirectory
        except ImportError:  # where there is no Spark, no application of ours has run
            if where is not None:
                raise
            return None
        state = StateDirectory(where or (app.settings.state_dir if app else DEFAULT), self._id)
        return state if app or where is not None or state.path.is_dir() else None

    def run(self) -> int | None:
        options = self._options
        with ExitStack() as stack:
            if self._state is not None and self._state.path.is_dir():
                stack.enter_context(self._state.lock())  # held to the end, so that it is not started meanwhile
            admin = self._reach.admin()
            self._put_members_out(stack)
            plan = self._plan(admin)
            tell = _as_kafka if by_kafka_name() else _for_people
            for line in tell(self._id, plan, self._state, options):
                click.echo(line)
            if options["dry_run"]:
                if not by_kafka_name():
                    click.echo("Nothing was done (--dry-run).")
                return FAILED if plan.missing_inputs or plan.missing_intermediate else None
            confirm(f"Reset application {self._id}", options["yes"])
            self._do(admin, plan, stack)
        if not by_kafka_name():
            click.echo(f"Application {self._id} begins anew when it is started.")
        return FAILED if plan.missing_inputs or plan.missing_intermediate else None

    def _put_members_out(self, stack: ExitStack) -> None:
        """Whoever consumes in the application's group would commit offsets of its own."""
        cluster = stack.enter_context(self._reach.cluster())
        coordinators = Coordinators(cluster, self._seconds)
        group = coordinators.described(self._id)
        if group is None or not group.members:
            return
        if not self._options["force"]:
            raise Failure(_still_active(group))
        click.echo(f"Force deleting all active members in the group: {self._id}")
        if not self._options["dry_run"]:
            coordinators.remove(group)

    # -- what to do ----------------------------------------------------------------------------------------------

    def _plan(self, admin: AdminClient) -> Plan:
        there = sorted(admin.list_topics(timeout=self._seconds).topics)
        scope = self._scope(there)
        offsets = Offsets(admin, self._seconds)
        partitions, missing_inputs = offsets.partitions_of(scope.inputs)
        of_tables, missing_tables = offsets.partitions_of(scope.tables)
        passed, missing_intermediate = offsets.partitions_of(scope.intermediate)
        plan = Plan(
            inputs={},
            tables=offsets.starts(of_tables),
            ends=offsets.ends(passed),
            others=self._others(offsets, scope, there),
            missing_inputs=[*missing_inputs, *missing_tables],
            missing_intermediate=missing_intermediate if self._options["intermediate_topics"] else [],  # made at start
            internal=scope.internal,
            kept_internal=scope.kept_internal,
            outputs=[topic for topic in scope.outputs if topic in there],
        )
        plan.inputs = self._inputs(offsets, partitions, plan.remarks)
        return plan

    def _others(self, offsets: Offsets, scope: Scope, there: Sequence[str]) -> dict[Partition, int]:
        """What is not reset goes on where it was, as with Kafka's tool; Spark's checkpoints, which know that, go."""
        if self._state is None:
            return {}
        reset = {*scope.inputs, *scope.tables, *scope.intermediate, *scope.internal, *scope.kept_internal}
        committed = offsets.committed(self._id)
        return {one: at.offset for one, at in committed.items() if one.topic in there and one.topic not in reset}

    def _scope(self, there: Sequence[str]) -> Scope:
        """The topics that are the application's: as its file has them, before that as the options name them."""
        inputs, intermediate = _names(self._options["input_topics"]), _names(self._options["intermediate_topics"])
        chosen = _names(self._options["internal_topics"])
        scope = Scope(inputs, intermediate)
        alike = [topic for topic in inferred_internal(self._id, there) if topic not in {*inputs, *intermediate}]
        if self._app is not None:
            from ottla.streams.reset import belongings

            owned = belongings(self._app, there)
            scope.inputs, scope.intermediate = inputs or owned.inputs, intermediate or owned.intermediate
            scope.tables = [topic for topic in owned.tables if topic not in {*inputs, *intermediate}]
            scope.internal, scope.outputs = [topic for topic in owned.internal if topic in there], owned.outputs
        else:
            scope.internal = alike
        if foreign := [topic for topic in chosen if topic not in {*alike, *scope.internal}]:
            raise Failure(
                f"{', '.join(foreign)} cannot be deleted as an internal topic: those of {self._id} are "
                f"{', '.join(alike) or 'not there'}"
            )
        scope.internal = chosen or scope.internal
        scope.kept_internal = [topic for topic in alike if topic not in scope.internal]
        return scope

    def _inputs(self, offsets: Offsets, partitions: list[Partition], remarks: list[str]) -> dict[Partition, int]:
        options = self._options
        if not partitions:
            return {}
        if options["to_latest"]:
            return offsets.ends(partitions)
        if options["to_datetime"] is not None or options["by_duration"] is not None:
            return self._at_time(offsets, partitions, remarks)
        if options["to_offset"] is not None:
            return _within(offsets, dict.fromkeys(partitions, options["to_offset"]), remarks)
        if options["shift_by"] is not None:
            current = group_reset.to_current(offsets, self._id, partitions)
            return _within(offsets, {one: at + options["shift_by"] for one, at in current.items()}, remarks)
        if options["from_file"] is not None:
            return _within(offsets, _from_file(options["from_file"], self._id, partitions), remarks)
        return offsets.starts(partitions)

    def _at_time(self, offsets: Offsets, partitions: list[Partition], remarks: list[str]) -> dict[Partition, int]:
        moment = self._options["to_datetime"]
        since = group_reset.moment(moment) if moment else group_reset.before_now(self._options["by_duration"])
        found = offsets.first_at(partitions, since)
        late = [one for one in partitions if one not in found]
        remarks.extend(
            f"Partition {number} from topic {topic} is empty, without a committed record. "
            "Falling back to latest known offset."
            for topic, number in late
        )
        return dict(sorted({**found, **offsets.ends(late)}.items()))

    # -- doing it ------------------------------------------------------------------------------------------------

    def _do(self, admin: AdminClient, plan: Plan, stack: ExitStack) -> None:
        Offsets(admin, self._seconds).commit(self._id, plan.offsets)
        outputs = plan.outputs if self._options["delete_output_topics"] else []
        _delete(admin, [*plan.internal, *outputs], self._seconds)
        if self._state is not None:
            if not self._state.path.is_dir():
                stack.enter_context(self._state.lock())
            starts: dict[str, dict[int, int]] = {}
            for (topic, number), offset in {**plan.inputs, **plan.ends, **plan.others}.items():
                starts.setdefault(topic, {})[number] = offset
            self._state.forget(starts)


def _loaded(options: Mapping[str, Any]) -> App | None:
    if options["file"] is None:
        return None
    from ottla.cli.streaming.loading import loaded

    return loaded(options["file"], options["name"], application_id=options["application_id"])


def inferred_internal(application: str, topics: Iterable[str]) -> list[str]:
    """The topics that look like an application's own, by its id alone, as Kafka's tool does it.

    An application whose id goes on behind a dash (`count` and `count-by-day`) has topics that look the same.
    """
    own = f"{application}-"
    return [topic for topic in topics if topic.startswith(own) and INTERNAL.fullmatch(topic.removeprefix(own))]


def _still_active(group: Described) -> str:
    members = ", ".join(member.client_id for member in group.members)
    return (
        f"Consumer group '{group.group}' is still active and has {len(group.members)} members ({members}). "
        "Make sure to stop all running application instances before running the reset tool. "
        "You can use option '--force' to remove active members from the group."
    )


def _names(lists: Iterable[str]) -> list[str]:
    """Names between commas, of an option that may be repeated."""
    return list(dict.fromkeys(name.strip() for words in lists for name in words.split(",") if name.strip()))


def _within(offsets: Offsets, wanted: Mapping[Partition, int], remarks: list[str]) -> dict[Partition, int]:
    """Offsets that are in the log; those that are not become its ends."""
    starts, ends = offsets.starts(wanted), offsets.ends(wanted)
    found = {}
    for one, offset in sorted(wanted.items()):
        found[one] = min(max(offset, starts[one]), ends[one])
        # of an offset that is one of the ends, Kafka's tool says so, too
        if found[one] != offset or (by_kafka_name() and offset in (starts[one], ends[one])):
            side = "higher than latest" if offset >= ends[one] else "lower than earliest"
            remarks.append(f"New offset ({offset}) is {side} offset. Value will be set to {found[one]}")
    return found


def _from_file(file: str, application: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
    read = group_reset.plans_of(file, [application]).get(application, {})
    strange = sorted(set(read) - set(partitions))
    if strange:
        raise Failure(f"{file}: {strange[0]} is no partition of the input topics")
    unsaid = [one for one in partitions if one not in read]
    if unsaid:
        raise Failure(f"{file} says nothing of {', '.join(map(str, unsaid))}")
    return read


def _delete(admin: AdminClient, topics: list[str], seconds: float) -> None:
    failed = []
    for topic, future in admin.delete_topics(topics, request_timeout=seconds).items() if topics else ():
        if problem := future.exception():
            failed.append(f"{topic} ({kafka_error(problem)})")
    if failed:
        raise Failure(f"topics could not be deleted: {', '.join(failed)}; run this again")


# -- what is said ------------------------------------------------------------------------------------------------------


def _as_kafka(application: str, plan: Plan, state: StateDirectory | None, options: Mapping[str, Any]) -> list[str]:
    """As Kafka's tool writes it, with one line more where there is local state of ours."""
    lines = []
    inputs, intermediate = _names(options["input_topics"]), _names(options["intermediate_topics"])
    if options["config_file"] is not None:
        lines.append(
            "Option --config-file has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    if options["dry_run"]:
        lines.append("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
    if intermediate:
        lines.append("WARN: `--intermediate-topics` is deprecated and will be removed in a future release")
    if inputs:
        lines.append(f"Reset-offsets for input topics {_listed(inputs)}")
    if intermediate:
        lines.append(f"Seek-to-end for intermediate topics {_listed(intermediate)}")
    if not inputs and not intermediate:
        lines.append("No input or intermediate topics specified. Skipping seek.")
    if plan.missing_inputs:
        lines.append("Following input topics are not found, skipping them")
        lines.extend(f"Topic: {topic}" for topic in plan.missing_inputs)
    if plan.missing_intermediate:
        lines.append("Following intermediate topics are not found, skipping them")
        lines.extend(f"Topic:{topic}" for topic in plan.missing_intermediate)
    if plan.inputs:
        lines.append(f"Following input topics offsets will be reset to (for consumer group {application})")
        lines.extend(plan.remarks)
        lines.extend(f"Topic: {one.topic} Partition: {one.number} Offset: {at}" for one, at in plan.inputs.items())
    if plan.ends:
        lines.append(f"Following intermediate topics offsets will be reset to end (for consumer group {application})")
        lines.extend(f"Topic: {one.topic}" for one in plan.ends)
    if plan.inputs or plan.ends:
        lines.append("Done.")
    what = "specified" if options["internal_topics"] else "inferred"
    lines.append(f"Deleting {what} internal topics {_listed(plan.internal)}")
    if state is not None:
        lines.append(f"Deleting local state {state.path}")
    return [*lines, "Done."]


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _for_people(application: str, plan: Plan, state: StateDirectory | None, options: Mapping[str, Any]) -> list[str]:
    rows: list[tuple[str, str]] = []
    moves = (("read from", plan.inputs), ("read from", plan.tables), ("skip to", plan.ends), ("go on at", plan.others))
    for what, offsets in moves:
        by_topic: dict[str, list[str]] = {}
        for (topic, number), offset in offsets.items():
            by_topic.setdefault(topic, []).append(f"{number}: {offset}")
        because = " (a table, from its first record)" if offsets is plan.tables else ""
        rows += [(what, f"{topic}, partitions and offsets {', '.join(at)}{because}") for topic, at in by_topic.items()]
    rows += [("not there", f"topic {topic}") for topic in [*plan.missing_inputs, *plan.missing_intermediate]]
    rows += [("delete", f"internal topic {topic}") for topic in plan.internal]
    rows += [("keep", f"topic {topic}, which is not of this file") for topic in plan.kept_internal]
    if options["delete_output_topics"]:
        rows += [("delete", f"output topic {topic}") for topic in plan.outputs]
    else:
        rows += [("keep", f"output topic {topic}") for topic in plan.outputs]
    if state is None:
        rows.append(("keep", "local state: none is found; --state-dir says where it is"))
    elif state.contents():
        rows.append(("delete", f"checkpoints and stores in {state.path}"))
    lines = [f"Reset of application {application}", *(f"  {what:<9} {words}" for what, words in rows)]
    return [*lines, *(f"  note      {remark}" for remark in plan.remarks)]
