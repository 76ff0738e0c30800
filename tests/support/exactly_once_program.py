"""A driver of its own process: writes a topic exactly once, until it is killed or, if told to finish, until the end.

    python exactly_once_program.py '{"master": …, "bootstrap": …, "input": …, …}'

What it writes is a copy of another topic (`work`: "copy"), or what Python state makes of it ("numbering", see
numbering_model.py).

Says `ready` when its session is up, and starts the query at a line on stdin: `run`, or `finish` to do what is there
and end. Says `ended` at the query's end. A task whose number stands in a file `hold-N` in the directory `gates` stops
when it has passed on its rows, says so by a file `held-N`, and goes on when the file is gone. It does not stop for what
timers alone have made.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numbering_model
import numbering_steps
import pyarrow
from pyspark import TaskContext

from ottla.pipelines import sink
from ottla.pipelines.session import Settings, session

KINDS = pyarrow.schema([("key", pyarrow.binary()), ("value", pyarrow.binary())])
# a row that is filtered away, and larger than Python's buffer: what came before it is in the JVM
PUSH = pyarrow.RecordBatch.from_pydict({"key": [None], "value": [bytes(1 << 17)]}, KINDS)


def main(told: dict[str, Any]) -> None:
    extra = {"spark.sql.shuffle.partitions": "2", **told["settings"]}
    spark = session(Settings(master=told["master"], name="exactly-once", quick=True, extra=extra))
    print("ready", flush=True)
    finish = input() == "finish"
    gates, timed = Path(told["gates"]), numbering_model.RUNG.encode()

    def gate(rows: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        of_records = False
        for batch in rows:
            of_records = of_records or any(timed not in value for value in batch.column("value").to_pylist())
            yield batch
        yield PUSH
        hold = gates / f"hold-{context.partitionId()}"
        if of_records and hold.exists():
            (gates / f"held-{context.partitionId()}").touch()
            while hold.exists():
                time.sleep(0.02)

    options = {
        "kafka.bootstrap.servers": told["bootstrap"],
        "subscribe": told["input"],
        "startingOffsets": "earliest",
        "kafka.fetch.max.wait.ms": "20",
        **({} if finish else {"minOffsetsPerTrigger": str(told["batch"])}),
    }
    source = spark.readStream.format("ottla.Source").options(**options).load()
    made = source.select("key", "value") if told["work"] == "copy" else numbering_steps.results(source)
    query = sink.write(
        made.mapInArrow(gate, "key binary, value binary")
        .where("key is not null")
        .selectExpr(f"'{told['output']}' as topic", "key", "value"),
        bootstrap=told["bootstrap"],
        query=told["query"],
        checkpoint=told["checkpoint"],
        delivery="exactly_once",
        trigger=sink.AvailableNow() if finish else sink.Every(),
    )
    query.awaitTermination()
    print("ended", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
