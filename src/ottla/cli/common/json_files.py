"""JSON files that the tools of partitions take: `{"partitions": [{"topic": "t", "partition": 0, …}], "version": 1}`.

What is wrong with a file is told in one line that names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.cli.common.invocation import Failure

TopicPartition = tuple[str, int]


def entries(file: str, key: str) -> list[dict[str, Any]]:
    """The objects of the list `key`."""
    try:
        data = json.loads(Path(file).read_bytes())
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{file} is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise Failure(f"{file} must hold a JSON object")
    if data.get("version", 1) != 1:
        raise Failure(f"{file}: not supported version field value {data['version']}")
    found = data.get(key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Failure(f'{file} must have a list of objects as "{key}"')
    return found


def text(entry: dict[str, Any], name: str, file: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value:
        raise Failure(f'{file}: every entry needs a text as "{name}": {json.dumps(entry)}')
    return value


def number(entry: dict[str, Any], name: str, file: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Failure(f'{file}: every entry needs a whole number as "{name}": {json.dumps(entry)}')
    return value


def partition(entry: dict[str, Any], file: str) -> TopicPartition:
    found = text(entry, "topic", file), number(entry, "partition", file)
    if not 0 <= found[1] < 2**31:
        raise Failure(f"{file}: there is no partition {found[1]}")
    return found


def partitions(file: str) -> list[TopicPartition]:
    """The partitions that a file names, each once."""
    found = [partition(entry, file) for entry in entries(file, "partitions")]
    refuse_twice(found, file)
    return found


def refuse_twice(named: list[TopicPartition], file: str) -> None:
    twice = sorted({one for one in named if named.count(one) > 1})
    if twice:
        raise Failure(f"{file} contains duplicate topic partitions: {joined(twice, ',')}")


def joined(named: Iterable[TopicPartition], between: str = ", ") -> str:
    """`topic-partition` of each, as Kafka writes them."""
    return between.join(f"{topic}-{index}" for topic, index in named)
