"""`ottla log-dirs`: which partitions lie in which directories of which brokers, as kafka-log-dirs shows them.

Kafka's text is two lines and one line of JSON; --output json is this command line's usual list instead.
"""

from __future__ import annotations

import json
from typing import Any

import click

from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool
from ottla.cli.common.output import output_option, show
from ottla.cli.common.reach import Reach, reaches_by_bootstrap
from ottla.cli.common.requests import Connection, error_text
from ottla.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse

COLUMNS = ("broker", "log_dir", "error", "partition", "size", "offset_lag", "is_future")


@click.command("log-dirs", cls=Tool, short_help="Show which partitions lie in which directories, and their sizes.")
@click.option("--describe", is_flag=True, expose_value=False, help="Show them; there is nothing else to do.")
@click.option("--topic-list", default="", metavar="t1,t2,...", help="Only partitions of these topics.")
@click.option("--broker-list", default="", metavar="0,1,...", help="Only these brokers.")
@reaches_by_bootstrap
@output_option
def command(topic_list: str, broker_list: str, reach: Reach, output: str) -> None:
    """Show the directories of brokers, the partitions in them and their sizes."""
    topics = {one.strip() for one in topic_list.split(",") if one.strip()}
    try:
        asked = {int(one) for one in broker_list.split(",") if one.strip()}
    except ValueError:
        raise click.UsageError(f"--broker-list wants ids with commas between, not {broker_list!r}") from None
    with reach.cluster() as cluster:
        known = sorted(one.node_id for one in cluster.metadata.brokers)
        missing = sorted(asked - set(known))
        if missing:
            raise Failure(
                f"ERROR: The given brokers do not exist from --broker-list: {_listed(missing)}. "
                f"Current existent brokers: {_listed(known)}"
            )
        brokers = sorted(asked) or known
        found = {node_id: _directories(cluster.broker(node_id), topics) for node_id in brokers}
    rows = [
        (node_id, place["logDir"], place["error"], one["partition"], one["size"], one["offsetLag"], one["isFuture"])
        for node_id, places in found.items()
        for place in places
        for one in place["partitions"]
    ]
    whole = {"brokers": [{"broker": node_id, "logDirs": places} for node_id, places in found.items()], "version": 1}
    lines = [
        "Querying brokers for log directories information",
        f"Received log directory information from brokers {_listed(brokers)}",
        json.dumps(whole, separators=(",", ":")),
    ]
    show(output, COLUMNS, rows, lines)


def _directories(broker: Connection, topics: set[str]) -> list[dict[str, Any]]:
    reply: DescribeLogDirsResponse = broker.call(DescribeLogDirsRequest(topics=None))
    if reply.error_code:
        raise Failure(f"{broker.address}: {error_text(reply.error_code)}")
    return [
        {
            "partitions": [
                {
                    "partition": f"{topic.name}-{one.partition_index}",
                    "size": one.partition_size,
                    "offsetLag": one.offset_lag,
                    "isFuture": one.is_future_key,
                }
                for topic in place.topics
                if not topics or topic.name in topics
                for one in topic.partitions
            ],
            "error": error_text(place.error_code) if place.error_code else None,
            "logDir": place.log_dir,
        }
        for place in reply.results
    ]


def _listed(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
