"""`ottla streams compare OLD NEW`: whether two topics hold the same newest value under each key.

For a new version of an application beside the old one (A3 DP17): when both have caught up, and their results are the
same, or differ where they should, readers move to the new topic. Records that a transaction has aborted do not count;
a record without a value deletes what was under its key. What comes while the command reads is not looked at.
"""

from __future__ import annotations

import time
from typing import Any

import click

from ottla.cli.common.invocation import FAILED, Failure
from ottla.cli.common.options import Tool, int32
from ottla.cli.common.progress import progress
from ottla.cli.common.reach import Reach, kafka_error, reaches
from ottla.cli.groups.offsets import Offsets

SHOWN_BYTES = 60
BATCH, BATCH_SECONDS = 10_000, 0.1


@click.command("compare", cls=Tool, short_help="Tell whether two topics hold the same.")
@click.argument("old")
@click.argument("new")
@click.option("--show", type=int32(0), default=10, metavar="N", help="How many differences to show: 10.")
@click.option("--timeout", type=int32(1), default=30_000, metavar="MS", help="How long to wait for a record: 30000.")
@reaches
def command(old: str, new: str, show: int, timeout: int, reach: Reach) -> int | None:
    """Tell whether two topics hold the same newest value under each key; the exit status is 1 if not."""
    was, now = (_newest(reach, topic, timeout / 1000) for topic in (old, new))
    different = sorted(key for key in was.keys() & now.keys() if was[key] != now[key])
    gone, added = sorted(was.keys() - now.keys()), sorted(now.keys() - was.keys())
    same = len(was.keys() & now.keys()) - len(different)
    click.echo(
        f"{same} keys the same, {len(different)} different, {len(gone)} only in {old}, {len(added)} only in {new}"
    )
    lines = [f"  {_text(key)}: {_text(was[key])} / {_text(now[key])}" for key in different]
    lines += [f"  {_text(key)}: {_text(was[key])} / not there" for key in gone]
    lines += [f"  {_text(key)}: not there / {_text(now[key])}" for key in added]
    for line in lines[:show]:
        click.echo(line)
    if show and len(lines) > show:
        click.echo(f"  … and {len(lines) - show} more")
    return FAILED if lines else None


def _newest(reach: Reach, topic: str, seconds: float) -> dict[bytes, bytes]:
    """The newest value of each key, of all records that are there now."""
    from confluent_kafka import OFFSET_INVALID, TopicPartition

    offsets = Offsets(reach.admin(), seconds)
    partitions, missing = offsets.partitions_of([topic])
    if missing:
        raise Failure(f"there is no topic {topic}")
    starts, ends = offsets.starts(partitions), offsets.ends(partitions)
    left = {one.number: ends[one] for one in partitions if starts[one] < ends[one]}
    found: dict[bytes, bytes] = {}
    settings = {
        "group.id": "ottla-compare",  # never joined
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",  # the end may lie behind the marker of a transaction, which is no record
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    consumer = reach.consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, one.number, starts[one]) for one in partitions if one.number in left])
        read, heard = 0, time.monotonic()
        with progress(f"Reading {topic}", sum(ends.values()) - sum(starts.values())) as reached:
            while left:
                messages = consumer.consume(BATCH, BATCH_SECONDS)
                if messages:
                    heard = time.monotonic()
                elif time.monotonic() > heard + seconds:
                    raise Failure(f"{topic}: no record came for {seconds:g} s")
                for message in messages:
                    _take(message, found, left)
                read += len(messages)
                reached(read)
                for place in consumer.position([TopicPartition(topic, number) for number in left]):
                    if place.offset != OFFSET_INVALID and place.offset >= left[place.partition]:
                        del left[place.partition]
    finally:
        consumer.close()
    return found


def _take(message: Any, found: dict[bytes, bytes], left: dict[int, int]) -> None:
    problem = message.error()
    if problem is not None:
        from confluent_kafka import KafkaError

        if problem.code() != KafkaError._PARTITION_EOF:
            raise Failure(kafka_error(problem))
        left.pop(message.partition(), None)
        return
    if message.offset() >= left.get(message.partition(), 0):
        return
    key, value = message.key() or b"", message.value()
    if value is None:
        found.pop(key, None)
    else:
        found[key] = value


def _text(data: bytes) -> str:
    """Bytes as text where they are, else as hexadecimal digits; not too much of either."""
    text = data.decode(errors="replace")
    if not text.isprintable() or "�" in text:
        text = f"0x{data.hex()}"
    return text if len(text) <= SHOWN_BYTES else text[: SHOWN_BYTES - 1] + "…"
