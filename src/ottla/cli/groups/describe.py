"""Groups as `consumer-groups --describe` shows them, in the columns of Kafka 4.3 (A3 G5-G9, B CLI-21).

Kafka pads columns to the widest cell, with a least width for each; `Block` does the same. A group without members, or
one that is rebalancing, is told on stderr.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from ottla.cli.groups.coordinators import Assignment, Described, Member
from ottla.cli.groups.offsets import Offsets, Partition

NOTHING = "-"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

Row = Sequence[object]


class Block(NamedTuple):
    """One group: headings with their least widths, and rows. A width of 0 is a last column, which is not padded."""

    columns: dict[str, int]
    rows: list[Row]

    def lines(self) -> Iterator[str]:
        table = [list(self.columns), *([_cell(value) for value in row] for row in self.rows)]
        widths = [
            least and max(least, *(len(row[at]) for row in table[1:]), 0)
            for at, least in enumerate(self.columns.values())
        ]
        yield ""
        for row in table:
            yield " ".join(cell.ljust(width) for cell, width in zip(row, widths))

    @property
    def names(self) -> list[str]:
        """The headings as keys of JSON."""
        return [name.lower().replace("#", "").replace(" (id)", "").replace("-", "_") for name in self.columns]


def _cell(value: object) -> str:
    return NOTHING if value is None else str(value)


def notice(group: Described) -> None:
    """What somebody should know who sees a group in this state."""
    if group.state == "Empty":
        click.echo(f"\nConsumer group '{group.group}' has no active members.", err=True)
    elif group.state in REBALANCING:
        click.echo(f"\nWarning: Consumer group '{group.group}' is rebalancing.", err=True)


def offsets_block(group: Described, offsets: Offsets, verbose: bool) -> Block:
    committed = offsets.committed(group.group)
    assigned = [
        (member, Partition(topic, number))
        for member in sorted(group.members, key=lambda member: -member.partitions)
        for topic, numbers in sorted(member.assignment.items())
        for number in numbers
    ]
    owned = {partition for _, partition in assigned}
    places: list[tuple[Member | None, Partition]] = [
        *assigned,
        *((None, partition) for partition in committed if partition not in owned),
    ]
    ends = offsets.ends_where_known({partition for _, partition in places})
    rows: list[Row] = []
    for member, partition in places:
        current, end = committed.get(partition), ends.get(partition)
        lag = None if current is None or end is None else end - current.offset
        rows.append(
            (
                group.group,
                partition.topic,
                partition.number,
                *([current and current.leader_epoch] if verbose else []),
                current and current.offset,
                end,
                lag,
                member and member.id,
                member and member.host,
                member and member.client_id,
            )
        )
    epoch = {"LEADER-EPOCH": 15} if verbose else {}
    return Block(
        {"GROUP": 15, "TOPIC": 15, "PARTITION": 10, **epoch, "CURRENT-OFFSET": 15, "LOG-END-OFFSET": 15, "LAG": 15,
         "CONSUMER-ID": 15, "HOST": 15, "CLIENT-ID": 0},
        rows,
    )  # fmt: skip


def members_block(group: Described, verbose: bool) -> Block:
    instances = any(member.instance_id for member in group.members)
    mixed = any(member.upgraded is False for member in group.members)
    columns = {"GROUP": 15, "CONSUMER-ID": 15}
    if instances:
        columns["GROUP-INSTANCE-ID"] = 17
    columns |= {"HOST": 15, "CLIENT-ID": 15, "#PARTITIONS": 15 if verbose else 16}
    if verbose:
        columns |= {"CURRENT-EPOCH": 15, "CURRENT-ASSIGNMENT": 20, "TARGET-EPOCH": 15, "TARGET-ASSIGNMENT": 20}
        if mixed:
            columns["UPGRADED"] = 0
    rows = []
    for member in group.members:
        row: list[object] = [group.group, member.id]
        if instances:
            row.append(member.instance_id or "")
        row += [member.host, member.client_id, member.partitions]
        if verbose:
            target = None if member.target is None else _assignment(member.target)
            row += [member.epoch, _assignment(member.assignment), group.target_epoch, target]
            if mixed:
                row.append(str(member.upgraded).lower())
        rows.append(row)
    return Block(columns, list(rows))


def state_block(group: Described, verbose: bool) -> Block:
    coordinator = f"{group.coordinator.address}  ({group.coordinator_id})"
    epochs = {"GROUP-EPOCH": 15, "TARGET-ASSIGNMENT-EPOCH": 25} if verbose else {}
    columns = {"GROUP": 15, "COORDINATOR (ID)": 25, "ASSIGNMENT-STRATEGY": 20, "STATE": 20, **epochs, "#MEMBERS": 0}
    row = [group.group, coordinator, group.assignor or None, group.state]
    return Block(columns, [[*row, *([group.epoch, group.target_epoch] if verbose else []), len(group.members)]])


def _assignment(assignment: Assignment) -> str | None:
    topics = [f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in sorted(assignment.items()) if numbers]
    return ";".join(topics) or None


def listing(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Groups with their types or states, as `--list --state --type` shows them."""
    table = [[name.upper() for name in columns], *rows]
    width = max([15, *(len(row[0]) for row in table[1:])]) + 10
    return [" ".join([row[0].ljust(width), *(cell.ljust(20) for cell in row[1:])]) for row in table]
