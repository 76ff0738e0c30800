"""`ottla leader-election`: elect leaders of partitions, preferred or unclean, as kafka-leader-election does."""

from __future__ import annotations

import click

from ottla.cli.common import json_files
from ottla.cli.common.elections import PREFERRED, UNCLEAN, elect
from ottla.cli.common.invocation import Failure, confirm
from ottla.cli.common.json_files import joined
from ottla.cli.common.options import Tool, chosen, int32
from ottla.cli.common.output import TEXT, output_option, show
from ottla.cli.common.reach import Reach, reaches


@click.command("leader-election", cls=Tool, short_help="Elect the leaders of partitions.")
@click.option(
    "--election-type",
    "kind",
    required=True,
    type=click.Choice([PREFERRED, UNCLEAN], case_sensitive=False),
    help="preferred: the first replica. unclean: any living one, which loses records.",
)
@click.option("--all-topic-partitions", "everywhere", is_flag=True, help="Wherever it is of use.")
@click.option("--topic", metavar="TOPIC", help="The topic; with --partition.")
@click.option("--partition", type=int32(0), help="The partition of --topic.")
@click.option("--path-to-json-file", "file", metavar="FILE", help="The partitions, as JSON.")
@click.option("--yes", is_flag=True, help="Do not ask before an unclean election.")
@reaches
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    kind: str,
    everywhere: bool,
    topic: str | None,
    partition: int | None,
    file: str | None,
    yes: bool,
    reach: Reach,
    output: str,
) -> None:
    """Elect the leaders of partitions anew."""
    chosen(ctx, {"--all-topic-partitions": everywhere, "--topic": topic, "--path-to-json-file": file})
    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition go together", ctx)
    partitions = (
        None if everywhere else json_files.partitions(file) if file is not None else [(topic or "", partition or 0)]
    )
    if kind == UNCLEAN:
        confirm("An unclean election loses the records that the new leader does not have", yes)
    outcome = elect(reach, kind, partitions)
    lines = []
    if outcome.elected:
        lines.append(f"Successfully completed leader election ({kind}) for partitions {joined(outcome.elected)}")
    if outcome.not_needed:
        lines.append(f"Valid replica already elected for partitions {joined(outcome.not_needed)}")
    lines += [
        f"Error completing leader election ({kind}) for partition: {joined([one])}: {error}"
        for one, error in outcome.failed.items()
    ]
    rows = [(*one, "elected", None) for one in outcome.elected]
    rows += [(*one, "not needed", None) for one in outcome.not_needed]
    rows += [(*one, "failed", error) for one, error in outcome.failed.items()]  # type: ignore[misc]
    if rows or output != TEXT:
        show(output, ("topic", "partition", "outcome", "error"), rows, lines)
    if outcome.failed:
        raise Failure(f"{len(outcome.failed)} replica(s) could not be elected")
