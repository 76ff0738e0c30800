"""`ottla delete-records`: delete the records of partitions before certain offsets, as kafka-delete-records does.

The file: `{"partitions": [{"topic": "t", "partition": 0, "offset": 5}], "version": 1}`; offset -1 is the end.
Status 1 where a partition fails (Kafka's tool has 0 then); the others are done nevertheless.
"""

from __future__ import annotations

import click

from ottla.cli.common import json_files
from ottla.cli.common.invocation import FAILED, Failure, confirm
from ottla.cli.common.options import Tool
from ottla.cli.common.output import TEXT, output_option, show
from ottla.cli.common.reach import Reach, kafka_error, reaches


@click.command("delete-records", cls=Tool, short_help="Delete the records of partitions before certain offsets.")
@click.option("--offset-json-file", required=True, metavar="FILE", help="The partitions and offsets, as JSON.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@reaches
@output_option
def command(offset_json_file: str, yes: bool, reach: Reach, output: str) -> int:
    """Delete the records of partitions before the offsets that a file names."""
    file = offset_json_file
    entries = json_files.entries(file, "partitions")
    wanted = [(*json_files.partition(entry, file), json_files.number(entry, "offset", file)) for entry in entries]
    json_files.refuse_twice([(topic, index) for topic, index, _ in wanted], file)
    if not wanted:
        raise Failure(f"{file} names no partition")
    admin = reach.admin()
    from confluent_kafka import KafkaException, TopicPartition

    named = ", ".join(f"{topic}-{index} before {offset}" for topic, index, offset in wanted)
    confirm(f"Delete the records of {named}", yes)
    if output == TEXT:
        click.echo("Executing records delete operation")
    futures = admin.delete_records([TopicPartition(*one) for one in wanted])
    if output == TEXT:
        click.echo("Records delete operation completed:")
    rows: list[tuple[str, int, int | None, str | None]] = []
    for place, future in futures.items():
        try:
            rows.append((place.topic, place.partition, future.result().low_watermark, None))
        except KafkaException as error:
            rows.append((place.topic, place.partition, None, kafka_error(error)))
    lines = [
        f"partition: {topic}-{index}\t" + (f"error: {error}" if error else f"low_watermark: {mark}")
        for topic, index, mark, error in sorted(rows)
    ]
    show(output, ("topic", "partition", "low_watermark", "error"), sorted(rows), lines)
    return FAILED if any(error for *_, error in rows) else 0
