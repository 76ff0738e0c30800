"""The command line that all examples share."""

import argparse


def bootstrap(about: str) -> str:
    """The brokers to ask first, from `--bootstrap HOST:PORT[,HOST:PORT…]`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--bootstrap",
        default="localhost:9092",
        metavar="HOST:PORT,…",
        help="brokers to ask first (default: %(default)s)",
    )
    return str(parser.parse_args().bootstrap)
