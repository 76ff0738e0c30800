"""`ottla cluster`: the cluster's id and its brokers' addresses, as kafka-cluster shows them.

`unregister` makes a KRaft cluster forget a broker that is gone for good. A broker of ottla is registered as long as it
lives, so there is nothing to forget, and the command says so.
"""

from __future__ import annotations

import click

from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, given_only_with, int32
from ottla.cli.common.output import output_asked, output_option, show
from ottla.cli.common.reach import find, properties_of
from ottla.cli.common.requests import error_text
from ottla.protocol.messages import DescribeClusterRequest

BROKERS = 1  # the kind of endpoints that is asked for


@click.command("cluster", cls=Tool, short_help="Show the cluster's id and its brokers.")
@click.argument("action", type=click.Choice(["cluster-id", "list-endpoints", "unregister"]), default="cluster-id")
@click.option("--bootstrap-server", "-b", "servers", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help="Find the brokers through a ZooKeeper ensemble.")
@click.option("--command-config", "--config", "-c", "file", metavar="FILE", help="A file with settings of the client.")
@click.option("--include-fenced-brokers", "fenced", is_flag=True, help="list-endpoints: those that do not serve, too.")
@click.option("--id", "-i", "broker_id", type=int32(), help="unregister: the broker.")
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    action: str,
    servers: str | None,
    zookeeper: str | None,
    file: str | None,
    fenced: bool,
    broker_id: int | None,
    output: str,
) -> None:
    """Show the cluster's id (cluster-id), or its brokers (list-endpoints)."""
    given_only_with(ctx, action, {"--include-fenced-brokers": fenced}, "list-endpoints")
    given_only_with(ctx, action, {"--id": broker_id}, "unregister")
    given_only_with(ctx, action, output_asked(ctx), "cluster-id", "list-endpoints")
    reach = find(servers, zookeeper, properties_of(file))
    if action == "unregister":
        if broker_id is None:
            raise click.UsageError("unregister needs --id", ctx)
        raise Failure(
            "The target cluster does not support the broker unregistration API: "
            "a broker is registered only as long as it lives"
        )
    with reach.cluster() as cluster:
        reply = cluster.seed.call(DescribeClusterRequest(endpoint_type=BROKERS, include_fenced_brokers=fenced))
    if reply.error_code:
        raise Failure(error_text(reply.error_code, reply.error_message))
    if action == "cluster-id":
        show(output, ("cluster_id",), [(reply.cluster_id,)], [f"Cluster ID: {reply.cluster_id}"])
        return
    brokers = sorted(reply.brokers, key=lambda one: int(one.broker_id))
    rows = [
        (one.broker_id, one.host, one.port, one.rack, "fenced" if one.is_fenced else "unfenced", "broker")
        for one in brokers
    ]
    show(output, ("id", "host", "port", "rack", "state", "endpoint_type"), rows, _lines(rows))


def _lines(rows: list[tuple[int, str, int, str | None, str, str]]) -> list[str]:
    """Kafka's columns: wide enough for the longest host and rack."""
    host = max([4, *(len(row[1]) for row in rows)])
    rack = max([10, *(len(row[3] or "null") for row in rows)])
    lines = []
    for number, name, port, place, state, kind in [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"), *rows]:
        lines.append(f"{number:<10} {name:<{host}} {port:<10} {place or 'null':<{rack}} {state:<10} {kind:<15}")
    return lines
