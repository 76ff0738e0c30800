"""The command line that all examples share."""

import argparse


def options(about: str | None, **own: str | int | float) -> argparse.Namespace:
    """What the command line says: `bootstrap`, `property`, and a value for each of the example's `own` options.

    --bootstrap HOST:PORT[,HOST:PORT…]   the brokers to ask first
    --property KEY=VALUE                 another setting of the client; may be given several times
    --NAME VALUE                         for each of `own`, which has the defaults
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--bootstrap",
        default="localhost:9092",
        metavar="HOST:PORT,…",
        help="brokers to ask first (default: %(default)s)",
    )
    parser.add_argument(
        "--property",
        default=[],
        action="append",
        type=lambda pair: pair.split("=", 1),
        metavar="KEY=VALUE",
        help="another setting of the client",
    )
    for name, default in own.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, type=type(default), help="(%(default)s)")
    given = parser.parse_args()
    given.property = dict(given.property)
    return given


def bootstrap(about: str | None) -> str:
    """Only the brokers, for examples that need nothing else."""
    return str(options(about).bootstrap)
