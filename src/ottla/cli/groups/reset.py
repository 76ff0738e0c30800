"""Where the offsets of a group are reset to (B CLI-22, CLI-23).

--to-earliest, --to-latest      the ends of the log
--to-offset N, --shift-by N     an offset, or the committed one and some; clamped to the log, which is told
--to-current                    the committed offset, the end of the log where there is none
--to-datetime, --by-duration    the first record at or after a time; the end of the log where there is none
--from-file FILE                a line per partition: topic,partition,offset, with the group before where the file
                                is for several; as --export writes it
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

import click

from ottla.cli.common.invocation import Failure, Misconfigured
from ottla.cli.groups.offset_files import text_of
from ottla.cli.groups.offsets import Offsets, Partition

DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d{0,9})?)S)?)?", re.I
)

SCENARIOS = {  # by the names of their options
    "to_earliest": "--to-earliest",
    "to_latest": "--to-latest",
    "to_current": "--to-current",
    "to_offset": "--to-offset",
    "shift_by": "--shift-by",
    "to_datetime": "--to-datetime",
    "by_duration": "--by-duration",
    "from_file": "--from-file",
}

Plan = dict[Partition, int]
Scenario = Callable[[Offsets, str, list[Partition]], Plan]


def to_earliest(offsets: Offsets, _group: str, partitions: list[Partition]) -> Plan:
    return offsets.starts(partitions)


def to_latest(offsets: Offsets, _group: str, partitions: list[Partition]) -> Plan:
    return offsets.ends(partitions)


def to_current(offsets: Offsets, group: str, partitions: list[Partition]) -> Plan:
    committed = offsets.committed(group)
    ends = offsets.ends([partition for partition in partitions if partition not in committed])
    return {one: committed[one].offset if one in committed else ends[one] for one in partitions}


def to_offset(offset: int) -> Scenario:
    return lambda offsets, _, partitions: clamped(offsets, dict.fromkeys(partitions, offset))


def shift_by(count: int) -> Scenario:
    def plan(offsets: Offsets, group: str, partitions: list[Partition]) -> Plan:
        committed = offsets.committed(group)
        for partition in partitions:
            if partition not in committed:
                raise Failure(
                    f"Cannot shift offset for partition {partition} since there is no current committed offset"
                )
        return clamped(offsets, {partition: committed[partition].offset + count for partition in partitions})

    return plan


def to_time(milliseconds: int) -> Scenario:
    return lambda offsets, _, partitions: offsets.at(partitions, milliseconds)


def clamped(offsets: Offsets, wanted: Mapping[Partition, int]) -> Plan:
    """Offsets that are in the log; those that are not become its ends."""
    starts, ends = offsets.starts(wanted), offsets.ends(wanted)
    plan = {}
    for partition, offset in wanted.items():
        within = min(max(offset, starts[partition]), ends[partition])
        if within != offset:
            side = "higher than latest" if offset > within else "lower than earliest"
            click.echo(
                f"WARN New offset ({offset}) is {side} offset for topic partition {partition}. "
                f"Value will be set to {within}",
                err=True,
            )
        plan[partition] = within
    return plan


# -- what the options say ----------------------------------------------------------------------------------------------


def moment(text: str) -> int:
    """`YYYY-MM-DDThh:mm:ss.sss`, with a zone or in UTC, in milliseconds since 1970."""
    try:
        if "T" not in text:
            raise ValueError
        read = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"--to-datetime {text} must be YYYY-MM-DDThh:mm:ss.sss") from None
    zoned = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def before_now(text: str) -> int:
    """`PnDTnHnMnS` before now, in milliseconds since 1970."""
    match = DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        raise click.UsageError(f"--by-duration {text} must be PnDTnHnMnS, as P1DT12H30M")
    sign, days, hours, minutes, seconds = match.groups()
    try:
        length = timedelta(int(days or 0), float(seconds or 0), minutes=int(minutes or 0), hours=int(hours or 0))
        return round((time.time() - length.total_seconds() * (-1 if sign == "-" else 1)) * 1000)
    except OverflowError:
        raise click.UsageError(f"--by-duration {text} is too long") from None


def plans_of(file: str, groups: list[str]) -> dict[str, Plan]:
    """The plan of each group in a file."""
    lines = text_of(file).splitlines()
    plans: dict[str, Plan] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if len(cells) == 3 and len(groups) == 1:
            cells = [groups[0], *cells]
        if len(cells) != 4 or not cells[0] or not cells[1] or not all(map(_is_number, cells[2:])):
            wanted = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
            raise Misconfigured(f"{file}, line {number}: {line!r} must be {wanted}")
        group, topic, partition, offset = cells
        plans.setdefault(group, {})[Partition(topic, int(partition))] = int(offset)
    return plans


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 2**63


def exported(plans: Mapping[str, Plan], groups: Iterable[str]) -> list[str]:
    """The lines of a file that `plans_of` reads."""
    with_group = len(list(groups)) != 1
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, plan in plans.items():
        for partition, offset in plan.items():
            writer.writerow([*([group] if with_group else []), *partition, offset])
    return text.getvalue().splitlines()
