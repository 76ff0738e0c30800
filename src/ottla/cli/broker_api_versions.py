"""`ottla broker-api-versions`: which requests each broker serves, and in which versions, as Kafka's tool prints it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ottla.cli.common.options import Tool
from ottla.cli.common.output import output_option, show
from ottla.cli.common.reach import Reach, reaches
from ottla.cli.common.requests import Connection
from ottla.protocol import apis

COLUMNS = ("broker", "address", "api", "key", "min_version", "max_version", "usable")


@click.command("broker-api-versions", cls=Tool, short_help="Show which requests the brokers serve.")
@reaches
@output_option
def command(reach: Reach, output: str) -> None:
    """Show which requests each broker serves, in which versions, and which one this command line would use."""
    with reach.cluster() as cluster:
        places = {one.node_id: one for one in cluster.metadata.brokers}
        rows, lines = [], []
        for node_id, connection in cluster.brokers().items():
            served = list(_served(connection))
            rows += [(node_id, connection.address, *api) for api in served]
            rack = places[node_id].rack
            lines.append(f"{connection.address} (id: {node_id} rack: {rack or 'null'} isFenced: false) -> (")
            texts = [_line(*api) for api in served]
            lines += [f"\t{text}{',' if text is not texts[-1] else ''}" for text in texts]
            lines.append(")")
    show(output, COLUMNS, rows, lines)


def _served(connection: Connection) -> Iterator[tuple[str, int, int, int, int | None]]:
    """Each api of the broker: name, key, lowest and highest version, the version that both know."""
    for key, (lowest, highest) in sorted(connection.served.items()):
        name = apis.API_NAMES.get(key)
        if name is None:
            yield f"UNKNOWN({key})", key, lowest, highest, None
            continue
        ours = apis.version_range(name)
        usable = min(highest, ours[1])
        yield name, key, lowest, highest, usable if usable >= max(lowest, ours[0]) else None


def _line(name: str, key: int, lowest: int, highest: int, usable: int | None) -> str:
    if name.startswith("UNKNOWN"):
        return f"{name}: {_range(lowest, highest)}"
    end = "UNSUPPORTED" if usable is None else f"{_range(lowest, highest)} [usable: {usable}]"
    return f"{name}({key}): {end}"


def _range(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"
