"""`ottla import-offsets`: sets the offsets of groups to those in a file, as Kafka's ImportZkOffsets (A3 O5-O7).

Members that are active would not read them and commit their own over them, so a group that has some is refused; then
nothing is imported of any group. The same goes for a file with a line that cannot be read. What the groups have
committed is lost: `export-offsets` keeps it.
"""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.common.invocation import Failure, confirm
from ottla.cli.common.options import Tool, int32
from ottla.cli.common.reach import find, properties_of
from ottla.cli.groups.coordinators import Coordinators
from ottla.cli.groups.offset_files import read, text_of
from ottla.cli.groups.offsets import Offsets

INACTIVE = ("Empty", "Dead")


@click.command("import-offsets", cls=Tool, short_help="Set the offsets of groups to those in a file.")
@click.option("--input-file", required=True, metavar="FILE", help="What export-offsets has written; - is stdin.")
@click.option("--zkconnect", "--zookeeper", "zookeeper", metavar="HOST:PORT/CHROOT", help="Find the brokers so.")
@click.option("--bootstrap-server", "--broker-list", "servers", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--command-config", metavar="FILE", help="A property file with settings of the client.")
@click.option("--timeout", type=int32(1), default=30_000, metavar="MS", help="How long to wait: 30000.")
@click.option("--yes", is_flag=True, help="Do not ask before offsets are overwritten.")
def command(input_file: str, timeout: int, yes: bool, **where: Any) -> None:
    """Set the offsets of groups to those in a file. Stop the members first."""
    plans = read(text_of(input_file).splitlines(), input_file)
    reach = find(where["servers"], where["zookeeper"], properties_of(where["command_config"]))
    with reach.cluster() as cluster:
        coordinators = Coordinators(cluster, timeout / 1000)
        for group in plans:
            described = coordinators.described(group)
            if described is not None and described.state not in INACTIVE:
                raise Failure(
                    f"group {group} has {len(described.members)} active members, which would overwrite what is "
                    "imported: stop them first; nothing is imported"
                )
    offsets = Offsets(reach.admin(), timeout / 1000)
    _, missing = offsets.partitions_of(
        sorted({f"{topic}:{number}" for plan in plans.values() for topic, number in plan})
    )
    if missing:
        raise Failure(f"there is no topic or partition {', '.join(dict.fromkeys(missing))}; nothing is imported")
    confirm(f"Set {sum(map(len, plans.values()))} offsets of {', '.join(plans)}", yes)
    for group, plan in plans.items():
        offsets.commit(group, plan)
