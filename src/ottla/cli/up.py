"""`ottla up`: the platform on this machine with embedded defaults, for `make up` and first steps."""

from __future__ import annotations

import click

from ottla import __version__
from ottla.cli.broker import parse_overrides, serve, serving_options

EMBEDDED = {
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "data",
    "metrics.listener": "localhost:9404",
    "group.initial.rebalance.delay.ms": "0",  # as in the file that Kafka brings: nobody waits for a first record
}


@click.command("up", short_help="Run the platform on this machine, with its embedded defaults.")
@serving_options
def command(overrides: tuple[str, ...], log_format: str, log_level: str) -> int:
    """Run the platform on this machine: a broker on localhost:9092 with its data in ./data. Ctrl-C stops it."""
    properties = EMBEDDED | parse_overrides(overrides)
    address = properties["listeners"].split(",")[0].partition("://")[2]
    if address.startswith(":"):
        address = "localhost" + address
    metrics = properties["metrics.listener"].strip()
    click.echo(
        f"""ottla {__version__}
  broker   {address}, for any Kafka client
  data     {properties["log.dirs"]}
  metrics  {f"http://{metrics}/metrics, for Prometheus" if metrics else "nowhere (metrics.listener is empty)"}
  stop     Ctrl-C

Once it is ready, in another terminal, from ottla's repository:
  .venv/bin/python examples/quickstart.py --bootstrap {address}
or with kcat, which is a package of Debian's:
  echo hello | kcat -b {address} -t greetings -P
  kcat -b {address} -t greetings -C -o beginning
"""
    )
    return serve(properties, log_format, log_level)
