"""`ottla broker-api-versions`: which requests each broker serves, and in which versions, as Kafka's tool prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click

from ottla.cli.common.options import Tool
from ottla.cli.common.output import output_option, show
from ottla.cli.common.reach import Reach, reaches
from ottla.cli.common.requests import Connection
from ottla.protocol import apis

OF_BROKERS = {  # what brokers ask one another; not told where a broker does not serve it
    apis.API_KEYS[name]
    for name in (
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
        "AlterPartition",
        "AllocateProducerIds",
    )
}
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
            rows += [(node_id, connection.address, *api) for api in served if api.lowest is not None]
            rack = places[node_id].rack
            lines.append(f"{connection.address} (id: {node_id} rack: {rack or 'null'} isFenced: false) -> (")
            texts = [_line(api) for api in served]
            lines += [f"\t{text}{',' if text is not texts[-1] else ''}" for text in texts]
            lines.append(")")
    show(output, COLUMNS, rows, lines)


class Api(NamedTuple):
    """`lowest` and `highest` are the broker's versions, None where it does not serve the request."""

    name: str
    key: int
    lowest: int | None
    highest: int | None
    usable: int | None = None  # the version that both know


def _served(connection: Connection) -> Iterator[Api]:
    """Each api that the broker or this command line knows."""
    for key in sorted({*connection.served, *apis.API_NAMES.keys() - OF_BROKERS}):
        name = apis.API_NAMES.get(key)
        if key not in connection.served:
            yield Api(str(name), key, None, None)
            continue
        lowest, highest = connection.served[key]
        if name is None:
            yield Api(f"UNKNOWN({key})", key, lowest, highest)
            continue
        ours = apis.version_range(name)
        usable = min(highest, ours[1])
        yield Api(name, key, lowest, highest, usable if usable >= max(lowest, ours[0]) else None)


def _line(api: Api) -> str:
    if api.lowest is None or api.highest is None:
        return f"{api.name}({api.key}): UNSUPPORTED"
    if api.name.startswith("UNKNOWN"):
        return f"{api.name}: {_range(api.lowest, api.highest)}"
    if api.usable is not None:
        use = f"usable: {api.usable}"
    else:
        use = f"unusable: node too {'new' if api.lowest > apis.version_range(api.name)[1] else 'old'}"
    return f"{api.name}({api.key}): {_range(api.lowest, api.highest)} [{use}]"


def _range(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"
