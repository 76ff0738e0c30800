"""What Spark tells of a batch that is done (StreamingQueryProgress, as JSON), as far as progress is shown from it.

It also tells now and then of a query that has nothing to do, under the number of the batch that comes next.

durationMs                          has an entry addBatch, unless there was nothing to do
sources[].description               KafkaV2[Subscribe[topic]], and others that have no offsets of topics
sources[].startOffset, .endOffset   {topic: {partition: offset}}; the start is null in a new checkpoint's first batch
stateOperators[]                    numRowsTotal, memoryUsedBytes, numRowsDroppedByWatermark
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.pipelines.cluster import Partition


@dataclass(frozen=True, slots=True)
class Batch:
    number: int
    seconds: float = 0.0
    input_rows: int = 0
    rows_per_second: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0
    late: int = 0
    offsets: Mapping[Partition, int] = field(default_factory=dict)  # the first that are not in it
    first: bool = False  # of a new checkpoint: what a group had before it means nothing
    idle: bool = False  # there was nothing to do: it only says where the query is


def read(text: str) -> Batch:
    told = json.loads(text)
    states = told.get("stateOperators", [])
    sources = [source for source in told.get("sources", []) if source.get("description", "").startswith("Kafka")]
    return Batch(
        told["batchId"],
        told.get("batchDuration", 0) / 1000,
        told.get("numInputRows", 0),
        told.get("processedRowsPerSecond", 0.0),
        sum(state["numRowsTotal"] for state in states),
        sum(state["memoryUsedBytes"] for state in states),
        sum(state["numRowsDroppedByWatermark"] for state in states),
        _offsets(source.get("endOffset") for source in sources),
        any(source.get("startOffset") is None for source in sources),
        "addBatch" not in told.get("durationMs", {}),
    )


def _offsets(ends: Any) -> dict[Partition, int]:
    """The smaller one counts where two sources read the same partition."""
    found: dict[Partition, int] = {}
    for end in ends:
        for topic, partitions in (end or {}).items():
            for number, offset in partitions.items():
                partition = Partition(topic, int(number))
                found[partition] = min(offset, found.get(partition, offset))
    return found
