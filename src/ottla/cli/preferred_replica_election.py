"""`ottla preferred-replica-election`: let the first replica of each partition lead (A3 P3 to P6).

Kafka's tool of ZooKeeper's time, gone since Kafka 3; it prints what the texts show. It names every partition that it
was asked for and that its preferred replica leads now, whether or not it did before.
"""

from __future__ import annotations

import click

from ottla.cli.common import json_files
from ottla.cli.common.elections import PREFERRED, elect
from ottla.cli.common.invocation import Failure
from ottla.cli.common.json_files import joined
from ottla.cli.common.options import Tool
from ottla.cli.common.output import output_option, show
from ottla.cli.common.reach import Reach, reaches


@click.command("preferred-replica-election", cls=Tool, short_help="Let the preferred replica of each partition lead.")
@click.option("--path-to-json-file", "file", metavar="FILE", help="The partitions, as JSON; not given: all.")
@reaches
@output_option
def command(file: str | None, reach: Reach, output: str) -> None:
    """Let the preferred replica of each partition lead."""
    if file is not None:
        partitions = json_files.partitions(file)
    else:
        topics = reach.admin().list_topics(timeout=30).topics
        partitions = sorted((name, index) for name, topic in topics.items() for index in topic.partitions)
    if not partitions:
        raise Failure("there is no partition to elect a leader for")
    outcome = elect(reach, PREFERRED, partitions)
    led = sorted([*outcome.elected, *outcome.not_needed])
    named = ", ".join(f"[{topic},{index}]" for topic, index in led)
    lines = [f"Successfully started preferred replica election for partitions Set({named})"] if led else []
    lines += [
        f"Error completing preferred replica election for partition: {joined([one])}: {error}"
        for one, error in outcome.failed.items()
    ]
    rows = [(*one, None) for one in led]
    rows += [(*one, error) for one, error in outcome.failed.items()]  # type: ignore[misc]
    show(output, ("topic", "partition", "error"), rows, lines)
    if outcome.failed:
        raise Failure(f"{len(outcome.failed)} preferred replica(s) could not be elected")
