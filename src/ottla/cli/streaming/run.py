"""`ottla streams run FILE.py`: the application of a file on Spark, until Ctrl-C.

What the file says of brokers, delivery and so on holds, unless an option says otherwise. With another --application-id
and --output-suffix a new version runs beside the old one (A3 DP17): it reads all from the first record, remembers and
writes apart.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from typing import Any

import click

from ottla.cli.common.options import Tool, key_values
from ottla.cli.common.reach import properties_of
from ottla.cli.streaming.loading import loaded
from ottla.cli.streaming.telling import told_plainly


@click.command("run", cls=Tool, short_help="Run the application of a file on Spark.")
@click.argument("file", metavar="FILE.py", type=click.Path())
@click.option("--app", "name", metavar="NAME", help="Which variable of the file, where several are applications.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The brokers.")
@click.option("--master", metavar="URL", help="Where Spark runs: local[*], spark://HOST:PORT, …")
@click.option("--delivery", type=click.Choice(["at_least_once", "exactly_once"]), help="What a crash does to results.")
@click.option("--latency", type=click.Choice(["micro-batch", "real-time"]), help="How Spark runs the queries.")
@click.option("--application-id", metavar="ID", help="Another id: another group, state and internal topics.")
@click.option("--output-suffix", metavar="SUFFIX", help="Write to topics with this behind their names, all anew.")
@click.option("--state-dir", metavar="DIR", help="Where it keeps checkpoints and stores.")
@click.option("--http", metavar="HOST:PORT", help="Where its stores answer over HTTP.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="spark.… or kafka.…, a setting; repeatable.")
@click.option("--command-config", metavar="FILE", help="A property file with settings of the Kafka clients.")
def command(file: str, name: str | None, pairs: tuple[str, ...], command_config: str | None, **options: Any) -> int:
    """Run the application that FILE.py makes, on Spark, until Ctrl-C.

    Started again, it goes on where it stopped.
    """
    spark, kafka = _settings(pairs)
    kafka = properties_of(command_config) | kafka
    suffix, application_id = options.pop("output_suffix"), options.pop("application_id")
    if suffix is not None and application_id is None:
        raise click.UsageError("--output-suffix needs --application-id: a version beside another has an id of its own")
    options["bootstrap"] = options.pop("bootstrap_server")
    with told_plainly():
        app = loaded(file, name, application_id=application_id, **options)
        app.change(spark={**app.settings.spark, **spark}, kafka={**app.settings.kafka, **kafka})
        if suffix is not None:
            from ottla.streams.versions import divert

            divert(app, suffix)
        if sys.stderr.isatty():
            click.echo(f"{app.id} starts on Spark ({app.settings.master}) …", err=True)
        try:
            running = app.start(console=True)
            click.echo(f"{app.id} runs; Ctrl-C stops it", err=True)
            running.wait()
        except KeyboardInterrupt:  # before it waits for it
            app.stop()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # from here on all ends, which takes its time
    return 0


def _settings(pairs: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of Spark and of Kafka clients, by the words of --set."""
    spark, kafka = {}, {}
    for key, value in key_values(pairs, "--set").items():
        if key.startswith("spark."):
            spark[key] = value
        elif key.startswith("kafka."):
            kafka[key.removeprefix("kafka.")] = value
        else:
            raise click.UsageError(f"--set {key}: a setting begins with spark. or kafka.")
    return spark, kafka
