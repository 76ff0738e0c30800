"""`ottla doctor [FILE.properties]`: this host against the advice for brokers.

For each thing: what it is, what is advised, why, and the command that changes it. Exit status 1 where something is a
problem: a broker would not run, or would lose data. Advice is no problem; nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ottla.cli import broker
from ottla.cli.common.invocation import FAILED
from ottla.cli.common.options import Tool
from ottla.cli.common.output import TABLE, output_option, show
from ottla.cli.host import directories, kernel, listeners
from ottla.cli.host.finding import ADVICE, OK, PROBLEM, Finding
from ottla.cli.host.view import Host
from ottla.config.broker import BrokerConfig

LEVELS = (OK, ADVICE, PROBLEM)


@click.command("doctor", cls=Tool, short_help="Check this host against the advice for brokers.")
@click.argument("file", required=False, metavar="[FILE.properties]")
@click.option("--log-dirs", metavar="DIR,...", help="Data directories, in place of those of the file.")
@output_option
def command(file: str | None, log_dirs: str | None, output: str) -> int:
    """Check the host of a broker: limits, memory, disks, network, clock, and what clients are told to connect to.

    Says what to change, and changes nothing. The file is the broker's own; without one its defaults are looked at.
    """
    config = broker.configured(broker.properties_of(file, []))
    named = [one.strip() for one in log_dirs.split(",") if one.strip()] if log_dirs is not None else config.log_dirs
    if not named:
        raise click.UsageError("--log-dirs names no directory")
    found = examine(Host(), [Path(one).resolve() for one in named], config if file else None)
    if output == TABLE:  # without the columns that it has no room for; commands are to be copied
        show(output, Finding._fields[:4], [one[:4] for one in found])
        for one in found:
            if one.change:
                click.echo(f"{one.check}: {one.why}\n  {one.change}")
    else:
        show(output, Finding._fields, found, _lines(found))
    return FAILED if any(one.level == PROBLEM for one in found) else 0


def examine(host: Host, data: Sequence[Path], config: BrokerConfig | None = None) -> list[Finding]:
    """All findings, the worst ones last; what is well has nothing to change."""
    found = [*kernel.check(host), *directories.check(host, data), *(listeners.check(host, config) if config else ())]
    found = [one._replace(change="") if one.level == OK else one for one in found]
    return sorted(found, key=lambda one: LEVELS.index(one.level))


def _lines(found: Sequence[Finding]) -> Iterator[str]:
    for one in found:
        yield f"{one.level:8} {one.check}: {one.found}"
        if one.level != OK:
            yield f"{'':8} advised: {one.advised}; {one.why}"
            if one.change:
                yield f"{'':8} {one.change}"
    counts = Counter(one.level for one in found)
    yield ", ".join(f"{counts[level]} {level}" for level in LEVELS)
