"""Records that a step cannot take: bytes that do not fit a serde, rows that come too late for their window.

A policy says what becomes of them:

    fail                the query fails, and its message names topic, partition, offset and reason (see explain.py)
    skip                left out and counted
    DeadLetters(topic)  left out, counted, and sent to a topic: the record's own bytes, headers and time, and headers
                        that say why and from where: ottla.error.reason, .exception, .step, .topic, .partition, .offset,
                        .timestamp (in ms)

`rejected()` gives the counts by step. A filter in the JVM does it all (jvm/Reject.scala), and records that are fine
cost nothing but the look at the reason. Dead letters are at-least-once, also where the query is exactly-once: a batch
that is run again sends them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.pipelines import columns

RECORD = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
}


@dataclass(frozen=True)
class Fail:
    """The first such record fails the query."""


@dataclass(frozen=True)
class Skip:
    """Such records are left out and counted."""


@dataclass(frozen=True)
class DeadLetters:
    """Such records are left out, counted and sent to `topic`; `settings` are those of Kafka's producer."""

    topic: str
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


Policy = Fail | Skip | DeadLetters
fail = Fail()
skip = Skip()


def guard(
    frame: DataFrame,
    reason: Column,
    policy: Policy,
    *,
    step: str,
    bootstrap: str,
    kind: str | Column = "Misfit",
    record: Mapping[str, Column] | None = None,
) -> DataFrame:
    """The rows of `frame` whose `reason` (text) is null; the others are dealt with by the policy.

    step: the name that counts and messages go by.
    kind: what kind of fault it is, for the header ottla.error.exception.
    record: columns of the record that a rejected row stands for, by the names of RECORD (key and value binary);
            those that are not given are the frame's own of that name, if it has them in that type.
    """
    rejected = columns.reject(
        _rejector(policy, step, bootstrap),
        reason,
        F.lit(kind) if isinstance(kind, str) else kind,
        _record(frame, record or {}),
    )
    return frame.where(F.when(reason.isNotNull(), rejected).otherwise(True))


def late(
    frame: DataFrame,
    window_end: Column,
    policy: Policy,
    *,
    step: str,
    bootstrap: str,
    record: Mapping[str, Column] | None = None,
) -> DataFrame:
    """The rows of `frame` that are not too late for the stateful operator that it goes to.

    window_end: when the window of the row ends, where a row has several its last one (the event time itself where there
    are no windows). The operator drops what has a window that ended before the watermark; here just those rows are
    rejected before it (jvm/Late.scala), so that none is dropped unseen. The frame must have its watermark already.
    """
    micros = F.unix_micros(window_end)
    closed = F.date_format(F.timestamp_micros(columns.late_watermark()), "yyyy-MM-dd HH:mm:ss.SSS")
    ended = F.date_format(window_end, "yyyy-MM-dd HH:mm:ss.SSS")
    told = F.concat(F.lit("late: its window ended at "), ended, F.lit(" and the watermark is "), closed)
    reason = F.when(micros <= columns.late_watermark(), told)
    return guard(frame, reason, policy, step=step, bootstrap=bootstrap, kind="Late", record=record)


def rejected() -> dict[str, int]:
    """How many records each step has left out since the session started."""
    told: dict[str, int] = json.loads(columns.scala("ottla.Rejector").rejected())
    return told


def _rejector(policy: Policy, step: str, bootstrap: str) -> Any:
    made = columns.scala("ottla.Rejector").make
    if isinstance(policy, DeadLetters):
        settings = {"bootstrap.servers": bootstrap, **policy.settings}
        return made(step, False, policy.topic, {f"kafka.{name}": value for name, value in settings.items()})
    return made(step, isinstance(policy, Fail), None, {})


def _record(frame: DataFrame, given: Mapping[str, Column]) -> Column:
    own = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    parts = []
    for name, kind in RECORD.items():
        wanted = kind.replace(": ", ":").replace(", ", ",")
        column = given.get(name)
        if column is None:
            column = F.col(name) if own.get(name) == wanted else F.lit(None).cast(kind)
        parts.append(column.alias(name))
    return F.struct(*parts)
