"""The topologies of the bench in ottla's DSL: ottla's side. `python -m bench.streams.ottla_app --help`.

Runs until it is told to stop. Text in and out; counts are longs. `--install` only makes ready what is made once.
"""

from __future__ import annotations

import argparse
import sys

from ottla.pipelines import prepare
from ottla.streams import App, tumbling

REAL_TIME_SLOTS = 4  # one for each partition, as that mode demands


def application(chosen: argparse.Namespace) -> App:
    app = App(chosen.name, chosen.bootstrap, delivery=chosen.delivery, state_dir=chosen.directory)
    if chosen.goal == "latency":
        app.change(interval_ms=0)
    elif chosen.goal == "real-time":
        app.change(latency="real-time", master=f"local[{REAL_TIME_SLOTS}]")
    stream = app.stream(chosen.input)
    match chosen.topology:
        case "map":
            stream.map_values("upper(value)").to(chosen.output)
        case "count":
            stream.group_by_key().count().to(chosen.output)
        case "window":
            stream.group_by_key().windowed_by(tumbling(seconds=1, grace=10)).count().to(chosen.output)
        case "words":
            stream.flat_map_values("split(lower(value), ' ')").group_by("value").count().to(chosen.output)
        case "join":
            users = app.table(chosen.table)
            stream.join(users, "left || ' ' || right").to(chosen.output)
    return app


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ottla_app")
    parser.add_argument("topology", nargs="?", choices=["map", "count", "window", "words", "join"])
    parser.add_argument("--install", action="store_true")
    for name in ("bootstrap", "name", "directory", "input", "table", "output", "delivery", "goal"):
        parser.add_argument(f"--{name}")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = options()
    if chosen.install:
        sys.exit(prepare.main(["--archive"]))
    application(chosen).run(console=False)
