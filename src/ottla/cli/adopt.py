"""`ottla adopt DIR…`: take over the log directories of a stopped Apache Kafka 4.3 (docs/adopt.md)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ottla.cli.common.invocation import Failure
from ottla.cli.common.progress import progress
from ottla.controller import adoption
from ottla.controller.kraft import METADATA_VERSION
from ottla.coordination.local import FILE_NAME
from ottla.coordination.store import StoreError


@click.command("adopt", short_help="Take over the data of a stopped Apache Kafka.")
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--undo", is_flag=True, help="Give the directories back to Kafka.")
def command(directories: tuple[Path, ...], yes: bool, undo: bool) -> None:
    """Take over the log directories (log.dirs) of a stopped Apache Kafka 4.3 that ran as a single KRaft node.

    Says what it finds and asks before it changes anything. Afterwards `ottla broker --override log.dirs=DIR,...` serves
    the same topics; --undo makes the directories Kafka's again.
    """
    paths = list(directories)
    try:
        with adoption.locked(paths):
            if undo:
                _undo(paths, yes)
            else:
                _adopt(paths, yes)
    except adoption.Unadoptable as error:
        raise Failure(str(error)) from None
    except (OSError, StoreError) as error:
        raise Failure(f"{error}; if anything was changed, ottla adopt --undo takes it back") from None


def _adopt(paths: list[Path], yes: bool) -> None:
    found = adoption.survey(paths)
    click.echo(_describe(found))
    if not yes:
        click.confirm("Take it over?", abort=True)
    with progress("Writing segments in today's format", len(found.old)) as written:
        asyncio.run(adoption.adopt(found, written))
    names = ",".join(map(str, paths))
    click.echo(
        f"Done. Start it with\n  ottla broker --override log.dirs={names}\n"
        f"and give it Kafka's listeners. To go back to Kafka, stop ottla and run\n"
        f"  ottla adopt --undo {' '.join(map(str, paths))}"
    )


def _undo(paths: list[Path], yes: bool) -> None:
    if not yes:
        click.confirm(
            "Records written since stay; topics made since are unknown to Kafka, and changes of configs are lost. "
            "Give it back to Kafka?",
            abort=True,
        )
    adoption.undo(paths)
    click.echo("Done: the directories are Kafka's again.")


def _describe(found: adoption.Adoption) -> str:
    partitions = sum(len(topic.partitions) for topic in found.topics)
    state = "stopped properly" if found.was_clean else "not stopped properly: the first start checks its logs"
    level = found.metadata.features[METADATA_VERSION]
    lines = [
        f"Apache Kafka, cluster {found.cluster_id}, node {found.node_id}, {METADATA_VERSION} {level}; {state}.",
        f"{len(found.topics)} topics with {partitions} partitions, {found.log_bytes / 1e6:,.1f} MB:",
    ]
    for topic in found.topics:
        configs = " ".join(f"{key}={value}" for key, value in sorted(topic.configs.items()))
        lines.append(f"  {topic.name} ({len(topic.partitions)}) {configs}".rstrip())
    lines += [f"Note: {warning}." for warning in found.warnings]
    aside = ", ".join(path.name for path in found.aside)
    lines.append(
        f"The logs stay where they are. {FILE_NAME} and meta.properties will be written; {aside} and the old "
        f"meta.properties go to {adoption.ASIDE}."
    )
    return "\n".join(lines)
