"""Topics as typed streaming DataFrames.

Columns: `key` and `value` as their serdes type them, `topic`, `partition`, `offset`, `timestamp`, and where asked for
`headers` (array<struct<key string, value binary>>). Records whose bytes do not fit are dealt with by a policy
(poison.py) while they still have their bytes.

Topics are read through ottla.Source, so that a batch that is run again has its rows in the same tasks; real-time mode
takes only Spark's own source. Readers see committed records only.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipelines import poison
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.preflight import REACH, Topics, check_topics
from ottla.pipelines.serdes import Bytes, Serde

Start = Literal["earliest", "latest"] | datetime.datetime | Mapping[str, Mapping[int, int]]

EARLIEST = -2  # as an offset
CONSUMER = {
    "fetch.max.wait.ms": "20",  # a batch waits for its slowest partition
    "max.poll.records": "5000",  # of 500, a third more processor time in Spark and twice that of the broker
    "isolation.level": "read_committed",
    "allow.auto.create.topics": "false",
}


def read(
    spark: SparkSession,
    bootstrap: str,
    topics: Topics,
    key: Serde = Bytes,
    value: Serde = Bytes,
    *,
    starting: Start = "earliest",
    max_per_batch: int | None = None,
    headers: bool = False,
    real_time: bool = False,
    wake: bool = False,
    poisoned: poison.Policy = poison.fail,
    step: str = "source",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Topics as a stream.

    topics: a name, names, or a pattern (re.compile) that whole names match.
    starting: where a query without a checkpoint begins: at the ends, at a time, or at offsets
              {topic: {partition: offset}} (partitions that are not named begin at their start).
    wake: a query that goes on from its checkpoint begins with a batch even if no record has come.
    options: settings of Kafka's consumer by their Kafka names, and options of Spark's source by `source.` and theirs.
    """
    reader = spark.readStream.format("kafka" if real_time else "ottla.Source")
    chosen = {**_source(bootstrap, topics, options), **_starting(starting, bootstrap, topics, options)}
    if max_per_batch is not None:
        chosen["maxOffsetsPerTrigger"] = str(max_per_batch)
    if wake and not real_time:
        chosen["wake"] = "true"
    frame = reader.options(**chosen, includeHeaders=str(headers).lower()).load()
    wanted = [key.decode(F.col("key")).alias("key"), value.decode(F.col("value")).alias("value")]
    wanted += [F.col(name) for name in ("topic", "partition", "offset", "timestamp")]
    if headers:
        wanted.append(F.col("headers"))
    raw = [F.col("key").alias("_raw_key"), F.col("value").alias("_raw_value")]
    typed = frame.select(*wanted, *raw)
    reason = _misfit(key, value)
    if reason is not None:
        record = {"key": F.col("_raw_key"), "value": F.col("_raw_value")}
        typed = poison.guard(typed, reason, _reaching(poisoned, options), step=step, bootstrap=bootstrap, record=record)
    return typed.drop("_raw_key", "_raw_value")


def _misfit(key: Serde, value: Serde) -> Column | None:
    """Why `_raw_key` or `_raw_value` do not fit, null where they do; None if everything fits."""
    told: Column | None = None
    for part, serde in (("key", key), ("value", value)):
        reason = serde.misfit(F.col(f"_raw_{part}"), F.col(part))
        if reason is not None:
            said = F.concat(F.lit(f"the {part} is no {serde.name}: "), reason)
            fails = reason.isNotNull()
            told = F.when(fails, said) if told is None else told.when(fails, said)
    return told


def _source(bootstrap: str, topics: Topics, options: Mapping[str, str] | None) -> dict[str, str]:
    chosen = {f"kafka.{name}": value for name, value in {**CONSUMER, "bootstrap.servers": bootstrap}.items()}
    for name, value in (options or {}).items():
        chosen[name.removeprefix("source.") if name.startswith("source.") else f"kafka.{name}"] = value
    if isinstance(topics, re.Pattern):
        chosen["subscribePattern"] = topics.pattern
        return chosen
    if not topics:
        raise PipelineError("no topic is named to read from")
    chosen["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    return chosen


def _starting(starting: Start, bootstrap: str, topics: Topics, options: Mapping[str, str] | None) -> dict[str, str]:
    if isinstance(starting, str):
        if starting not in ("earliest", "latest"):
            raise PipelineError(f"reading starts at 'earliest', 'latest', a datetime or offsets, not {starting!r}")
        return {"startingOffsets": starting}
    if isinstance(starting, datetime.datetime):
        if starting.tzinfo is None:
            raise PipelineError(f"the time to start from, {starting}, has no zone: say datetime(…, tzinfo=UTC)")
        milliseconds = int(starting.timestamp() * 1000)
        return {"startingTimestamp": str(milliseconds), "startingOffsetsByTimestampStrategy": "latest"}
    return {"startingOffsets": json.dumps(_offsets(starting, bootstrap, topics, options))}


def _offsets(
    starting: Mapping[str, Mapping[int, int]],
    bootstrap: str,
    topics: Topics,
    options: Mapping[str, str] | None,
) -> dict[str, dict[str, int]]:
    """With the partitions that are not named, since Spark wants them all."""
    partitions = check_topics(bootstrap, topics, options)
    for topic, offsets in starting.items():
        if topic not in partitions:
            raise PipelineError(f"offsets to start from are given for topic {topic}, which is not read")
        for partition, offset in offsets.items():
            if not 0 <= partition < partitions[topic] or offset < EARLIEST:
                raise PipelineError(
                    f"reading of topic {topic} cannot start at offset {offset} of partition {partition}: it has "
                    f"{partitions[topic]} partitions, and offsets are 0 or more, -2 for the start or -1 for the end"
                )
    return {
        topic: {str(partition): starting.get(topic, {}).get(partition, EARLIEST) for partition in range(count)}
        for topic, count in partitions.items()
    }


def _reaching(policy: poison.Policy, options: Mapping[str, str] | None) -> poison.Policy:
    """Dead letters reach the brokers the way that the reader does."""
    if not isinstance(policy, poison.DeadLetters):
        return policy
    reach = {name: value for name, value in (options or {}).items() if name.startswith(REACH)}
    return poison.DeadLetters(policy.topic, {**reach, **policy.settings})
