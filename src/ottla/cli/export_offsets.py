"""`ottla export-offsets`: the offsets of groups into a file, as Kafka's ExportZkOffsets (A3 O1-O4).

The offsets are those that Kafka holds; `--zkconnect` only finds the brokers. The file can be edited, and imported by
`ottla import-offsets`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ottla.cli.common.invocation import Failure, Misconfigured
from ottla.cli.common.options import Tool, int32
from ottla.cli.common.reach import find, properties_of
from ottla.cli.groups.coordinators import Coordinators
from ottla.cli.groups.offset_files import lines
from ottla.cli.groups.offsets import Offsets


@click.command("export-offsets", cls=Tool, short_help="Write the offsets of groups into a file.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Which group; may be repeated. Not given: all.")
@click.option("--output-file", required=True, metavar="FILE", help="Where they are written; - is stdout.")
@click.option("--zkconnect", "--zookeeper", "zookeeper", metavar="HOST:PORT/CHROOT", help="Find the brokers so.")
@click.option("--bootstrap-server", "--broker-list", "servers", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--command-config", metavar="FILE", help="A property file with settings of the client.")
@click.option("--timeout", type=int32(1), default=30_000, metavar="MS", help="How long to wait: 30000.")
def command(groups: tuple[str, ...], output_file: str, timeout: int, **where: Any) -> None:
    """Write the offsets of groups into a file, a line for each partition."""
    reach = find(where["servers"], where["zookeeper"], properties_of(where["command_config"]))
    offsets = Offsets(reach.admin(), timeout / 1000)
    if not groups:
        with reach.cluster() as cluster:
            groups = tuple(one.group for one in Coordinators(cluster, timeout / 1000).listed())
    text = ""
    for group in dict.fromkeys(groups):
        committed = {partition: one.offset for partition, one in offsets.committed(group).items()}
        if not committed and len(groups) == 1:
            raise Failure(f"group {group} has no offsets")
        text += "".join(line + "\n" for line in lines(group, committed))
    if output_file == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(output_file).write_text(text)
    except OSError as error:
        raise Misconfigured(f"cannot write {output_file}: {error.strerror}") from error
