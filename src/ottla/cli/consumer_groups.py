"""`ottla consumer-groups`: groups of consumers and their offsets, as kafka-consumer-groups shows and changes them.

`--delete --topic` is what Kafka 0.10 had for `--delete-offsets` (A3 G11), and means that. Where Kafka prints an error
and ends with status 0, the status here is 1. Offsets are reset only where no member is active; without `--execute`
nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from ottla.cli.common.invocation import FAILED, Failure, confirm
from ottla.cli.common.options import Tool, chosen, given_only_with, int32, int64, is_given
from ottla.cli.common.output import TEXT, output_asked, output_option, show
from ottla.cli.common.reach import Reach, kafka_error, reaches
from ottla.cli.common.requests import error_text
from ottla.cli.groups import describe, reset
from ottla.cli.groups.coordinators import Coordinators, Described
from ottla.cli.groups.offsets import Offsets, Partition
from ottla.protocol.errors import ErrorCode

STATES = ("Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable")
TYPES = ("Classic", "Consumer")
INACTIVE = ("Empty", "Dead")
NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing. Add --dry-run to say that this is meant."
)
ALL = ""  # of an option whose value may be left out


@click.command("consumer-groups", cls=Tool, short_help="Show groups of consumers, and change their offsets.")
@click.option("--list", "list_", is_flag=True, help="List the groups; the default.")
@click.option("--describe", "describe_", is_flag=True, help="Show groups: their offsets and how far they are behind.")
@click.option("--delete", is_flag=True, help="Delete groups without members, with all of their offsets.")
@click.option("--reset-offsets", is_flag=True, help="Set the offsets of groups without members.")
@click.option("--delete-offsets", is_flag=True, help="Delete a group's offsets of topics that it does not read.")
@click.option("--validate-regex", metavar="REGEX", help="Say whether this can be subscribed to (RE2's syntax).")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Which group; may be repeated.")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", help="Which topics, which of their partitions."
)
@click.option("--all-topics", is_flag=True, help="All topics of which the group has offsets.")
@click.option("--offsets", is_flag=True, help="With --describe: offsets; the default.")
@click.option("--members", is_flag=True, help="With --describe: members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value=ALL,
    metavar="[STATE,...]",
    help="With --describe: the state. With --list: show states, only groups in these where some are named.",
)
@click.option("--type", "type_", is_flag=False, flag_value=ALL, metavar="[TYPE,...]", help="The same for types.")
@click.option("--verbose", is_flag=True, help="With --describe: epochs and assignments too.")
@click.option("--to-earliest", is_flag=True, help="Reset to the start of the log.")
@click.option("--to-latest", is_flag=True, help="Reset to the end of the log.")
@click.option("--to-current", is_flag=True, help="Reset to what is committed, or to the end of the log.")
@click.option("--to-offset", type=int64(0), metavar="N", help="Reset to this offset.")
@click.option("--shift-by", type=int64(), metavar="N", help="Reset to so many after (or before) what is committed.")
@click.option("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help="Reset to the first record from this time on.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="The same, for a time so long ago.")
@click.option("--from-file", metavar="FILE", help="Reset to the offsets in a file that --export has written.")
@click.option("--dry-run", is_flag=True, help="With --reset-offsets: only show what would be done; the default.")
@click.option("--execute", is_flag=True, help="With --reset-offsets: do it.")
@click.option("--export", is_flag=True, help="With --reset-offsets: print it as a file for --from-file.")
@click.option("--timeout", type=int32(1), default=30_000, metavar="MS", help="How long to wait: 30000.")
@click.option("--new-consumer", is_flag=True, help="Taken as given: there is no other.")
@click.option("--yes", is_flag=True, help="Delete without being asked.")
@reaches
@output_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int | None:
    """Show groups of consumers and their offsets, reset offsets, delete groups."""
    actions = {
        "--list": options["list_"],
        "--describe": options["describe_"],
        "--delete": options["delete"],
        "--reset-offsets": options["reset_offsets"],
        "--delete-offsets": options["delete_offsets"],
        "--validate-regex": options["validate_regex"],
    }
    action = chosen(ctx, actions, "--list")
    if action == "--delete" and options["topics"]:
        action = "--delete-offsets"
    _check(ctx, action, options)
    if action == "--validate-regex":
        return _validate(options["validate_regex"])
    with options["reach"].cluster() as cluster:
        work = Work(options, Coordinators(cluster, options["timeout"] / 1000))
        do = {
            "--list": work.show_list,
            "--describe": work.describe,
            "--delete": work.delete,
            "--reset-offsets": work.reset,
            "--delete-offsets": work.delete_offsets,
        }
        return do[action]()


def _check(ctx: click.Context, action: str, options: Mapping[str, Any]) -> None:
    """Refuses options that do not go together, as Kafka's tool does."""
    given_only_with(ctx, action, {"--state": options["state"]}, "--list", "--describe")
    given_only_with(ctx, action, {"--type": options["type_"]}, "--list")
    given_only_with(ctx, action, output_asked(ctx), "--list", "--describe", "--reset-offsets", "--delete-offsets")
    shown = {"--offsets": options["offsets"], "--members": options["members"], "--verbose": options["verbose"]}
    given_only_with(ctx, action, shown, "--describe")
    wanted = [name for name in ("offsets", "members", "state") if is_given(options[name])]
    if action == "--describe" and len(wanted) > 1:
        raise click.UsageError("--describe takes at most one of --members, --offsets and --state", ctx)
    if action == "--describe" and options["state"]:
        raise click.UsageError("--describe does not take a value for --state", ctx)
    scenarios = {option: options[name] for name, option in reset.SCENARIOS.items()}
    given_only_with(
        ctx,
        action,
        {**scenarios, "--dry-run": options["dry_run"], "--execute": options["execute"], "--export": options["export"],
         "--all-topics": options["all_topics"]},
        "--reset-offsets",
    )  # fmt: skip
    given_only_with(ctx, action, {"--topic": options["topics"]}, "--reset-offsets", "--delete-offsets")
    with_groups = ("--describe", "--delete", "--reset-offsets", "--delete-offsets")
    given_only_with(ctx, action, {"--group": options["groups"], "--all-groups": options["all_groups"]}, *with_groups)
    if options["groups"] and options["all_groups"]:
        raise click.UsageError("--group cannot go with --all-groups", ctx)
    if action in with_groups and not options["groups"] and not options["all_groups"]:
        raise click.UsageError(f"{action} takes one of --group and --all-groups", ctx)
    if action == "--delete-offsets" and (len(options["groups"]) != 1 or not options["topics"]):
        raise click.UsageError("--delete-offsets takes one --group and at least one --topic", ctx)
    if action == "--reset-offsets":
        given = [name for name, value in scenarios.items() if is_given(value)]
        if len(given) != 1:
            raise click.UsageError(f"--reset-offsets takes exactly one of {', '.join(scenarios)}", ctx)
        if options["dry_run"] and options["execute"]:
            raise click.UsageError("--reset-offsets only accepts one of --execute and --dry-run", ctx)
        if options["from_file"] is None and bool(options["topics"]) == options["all_topics"]:
            raise click.UsageError("One of the reset scopes should be defined: --all-topics, --topic.", ctx)


def _validate(text: str) -> int | None:
    from ottla.config.patterns import IllegalPattern, Pattern

    try:
        Pattern(text)
    except IllegalPattern as error:
        click.echo(f"The regular expression `{text}` is invalid: {error}.")
        return FAILED
    click.echo(f"The regular expression `{text}` is valid.")
    return None


class Work:
    """The actions, with the options they were asked for with."""

    def __init__(self, options: Mapping[str, Any], coordinators: Coordinators) -> None:
        self._options = options
        self._coordinators = coordinators
        self._reach: Reach = options["reach"]
        self._seconds = options["timeout"] / 1000
        self._output: str = options["output"]

    def _offsets(self) -> Offsets:
        return Offsets(self._reach.admin(), self._seconds)

    def _groups(self) -> list[str]:
        if self._options["all_groups"]:
            return [one.group for one in self._coordinators.listed()]
        return list(dict.fromkeys(self._options["groups"]))

    def show_list(self) -> None:
        state, type_ = self._options["state"], self._options["type_"]
        states, types = _choices(state, STATES, "state"), _choices(type_, TYPES, "types")
        listed = self._coordinators.listed(states, types)
        columns = ["group", *(["type"] if type_ is not None else []), *(["state"] if state is not None else [])]
        rows = [[getattr(one, column) for column in columns] for one in listed]
        lines = describe.listing(columns, rows) if len(columns) > 1 else [one.group for one in listed]
        if self._output != TEXT:  # for people and programs all that is known
            columns, rows = ["group", "type", "state"], [list(one) for one in listed]
        show(self._output, columns, rows, lines)

    def describe(self) -> int | None:
        options = self._options
        groups, missing = self._described(self._groups())
        offsets = None if options["members"] or options["state"] is not None else self._offsets()
        blocks = []
        for group in groups:
            if options["members"]:
                block = describe.members_block(group, options["verbose"])
            elif offsets is None:
                block = describe.state_block(group, options["verbose"])
            else:
                block = describe.offsets_block(group, offsets, options["verbose"])
            if self._output == TEXT:
                describe.notice(group)
            if block.rows or offsets is None:
                blocks.append(block)
        if self._output == TEXT:
            for block in blocks:
                for line in block.lines():
                    click.echo(line)
        else:
            rows = [dict(zip(block.names, row)) for block in blocks for row in block.rows]
            columns = list(dict.fromkeys(name for block in blocks for name in block.names))
            show(self._output, columns, [[row.get(name) for name in columns] for row in rows])
        return _told(f"Consumer group '{group}' does not exist." for group in missing)

    def _described(self, names: Iterable[str]) -> tuple[list[Described], list[str]]:
        """The groups that there are, by name, and the names of those that there are not."""
        found = {name: self._coordinators.described(name) for name in sorted(names)}
        return [one for one in found.values() if one is not None], [name for name, one in found.items() if one is None]

    def reset(self) -> int | None:
        options = self._options
        if not options["dry_run"] and not options["execute"]:
            click.echo(NO_ACTION, err=True)
        names = self._groups()
        files = reset.plans_of(options["from_file"], names) if options["from_file"] is not None else None
        scenario = _scenario(options)
        offsets = self._offsets()
        problems, plans = [], {}
        for name in names:
            group = self._coordinators.described(name)
            if group is not None and group.state not in INACTIVE:
                problems.append(
                    f"Assignments can only be reset if the group '{name}' is inactive, "
                    f"but the current state is {group.state}."
                )
            elif files is not None:
                if name not in files:
                    problems.append(f"No reset plan for group {name} found")
                else:
                    plans[name] = reset.clamped(offsets, files[name])
            else:
                plans[name] = scenario(offsets, name, self._scope(offsets, name))
        for name, plan in plans.items():
            if options["execute"]:
                offsets.commit(name, plan)
        rows = [(name, *partition, offset) for name, plan in plans.items() for partition, offset in plan.items()]
        if options["export"]:
            lines = reset.exported(plans, names)
        else:
            block = describe.Block({"GROUP": 15, "TOPIC": 15, "PARTITION": 10, "NEW-OFFSET": 0}, list(rows))
            lines = list(block.lines())
        show(self._output, ("group", "topic", "partition", "new_offset"), rows, lines if plans else [])
        return _told(problems)

    def _scope(self, offsets: Offsets, group: str) -> list[Partition]:
        if self._options["all_topics"]:
            return list(offsets.committed(group))
        found, missing = offsets.partitions_of(self._options["topics"])
        if missing:
            raise Failure(f"there is no topic or partition {', '.join(missing)}")
        return found

    def delete(self) -> int | None:
        groups = self._groups()
        if not groups:
            return None
        count = "consumer group" if len(groups) == 1 else f"{len(groups)} consumer groups:"
        confirm(f"Delete {count} {', '.join(groups)}", self._options["yes"])
        deleted, failed = [], {}
        admin = self._reach.admin()  # kept: its thread ends with it, and nothing is answered any more
        for group, future in admin.delete_consumer_groups(groups, request_timeout=self._seconds).items():
            problem = future.exception()
            if problem is None:
                deleted.append(group)
            else:
                failed[group] = kafka_error(problem)
        names = ", ".join(f"'{group}'" for group in deleted)
        if deleted and failed:
            click.echo(f"These consumer groups were deleted successfully: {names}")
        elif deleted:
            click.echo(f"Deletion of requested consumer groups ({names}) was successful.")
        return _told(f"Group '{group}' could not be deleted due to: {problem}" for group, problem in failed.items())

    def delete_offsets(self) -> int | None:
        (group,) = self._options["groups"]
        partitions, missing = self._offsets().partitions_of(self._options["topics"])
        topics = ", ".join(self._options["topics"])
        confirm(f"Delete the offsets of group {group} for {topics}", self._options["yes"])
        code, codes = self._coordinators.delete_offsets(group, partitions) if partitions else (0, {})
        if code:
            raise Failure(f"group {group}: {error_text(code)}")
        rows: list[tuple[str, int | None, str]] = [
            (*partition, error_text(codes[partition]) if codes[partition] else "Successful") for partition in partitions
        ]
        unknown = error_text(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        rows += [(name, None, unknown) for name in missing]
        good = all(row[2] == "Successful" for row in rows)
        if good and self._output == TEXT:
            click.echo(f"Request succeeded for deleting offsets from group {group}.")
        block = describe.Block({"TOPIC": 15, "PARTITION": 10, "STATUS": 0}, list(rows))
        show(self._output, ("topic", "partition", "status"), rows, block.lines())
        return None if good else _told(["Encountered some partition-level error, see the details."])


def _choices(text: str | None, known: Iterable[str], what: str) -> list[str]:
    """The names in an option's value, in lower case."""
    if not text:
        return []
    found = [one.strip().lower() for one in text.split(",")]
    if not set(found) <= {one.lower() for one in known}:
        raise click.UsageError(f"Invalid {what} list '{text}'. Valid {what.rstrip('s')}s are: {', '.join(known)}")
    return found


def _scenario(options: Mapping[str, Any]) -> reset.Scenario:
    if options["to_offset"] is not None:
        return reset.to_offset(options["to_offset"])
    if options["shift_by"] is not None:
        return reset.shift_by(options["shift_by"])
    if options["to_datetime"] is not None:
        return reset.to_time(reset.moment(options["to_datetime"]))
    if options["by_duration"] is not None:
        return reset.to_time(reset.before_now(options["by_duration"]))
    if options["to_current"]:
        return reset.to_current
    return reset.to_latest if options["to_latest"] else reset.to_earliest


def _told(problems: Iterable[str]) -> int | None:
    """Each problem on stderr; the exit status that follows."""
    told = list(problems)
    for problem in told:
        click.echo(f"Error: {problem}", err=True)
    return FAILED if told else None
