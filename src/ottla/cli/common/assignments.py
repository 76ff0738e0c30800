"""Which brokers, and which of their directories, hold which partitions: the files of `reassign-partitions`.

    {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [0, 1], "log_dirs": ["any", "/d"]}]}

`log_dirs` has a directory for each replica, or "any"; it may be missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.cli.common import json_files
from ottla.cli.common.invocation import Failure
from ottla.cli.common.json_files import TopicPartition, joined

ANY = "any"


class Replica(NamedTuple):
    """One replica of a partition; in Kafka's text `topic-partition-broker`."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(slots=True)
class Assignment:
    replicas: dict[TopicPartition, list[int]] = field(default_factory=dict)
    directories: dict[Replica, str] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.replicas})

    @property
    def brokers(self) -> list[int]:
        return sorted({broker for replicas in self.replicas.values() for broker in replicas})


def read(file: str) -> Assignment:
    """The assignment that a file holds; Failure where it is none."""
    found = Assignment()
    named = []
    for entry in json_files.entries(file, "partitions"):
        place = json_files.partition(entry, file)
        named.append(place)
        what = joined([place])
        replicas, directories = entry.get("replicas"), entry.get("log_dirs")
        if not isinstance(replicas, list) or not all(type(one) is int for one in replicas):
            raise Failure(f'{file}: {what} needs a list of brokers\' ids as "replicas"')
        if not replicas:
            raise Failure("Partition replica list cannot be empty")
        twice = sorted({one for one in replicas if replicas.count(one) > 1})
        if twice:
            raise Failure(
                "Partition replica lists may not contain duplicate entries: "
                f"{what} contains multiple entries for {','.join(map(str, twice))}"
            )
        if directories is None:
            directories = [ANY] * len(replicas)
        if not isinstance(directories, list) or not all(isinstance(one, str) for one in directories):
            raise Failure(f'{file}: "log_dirs" of {what} must be a list of directories')
        if len(directories) != len(replicas):
            raise Failure(
                f"Size of replicas list {replicas} is different from size of log dirs list {directories} "
                f"for partition {what}"
            )
        found.replicas[place] = replicas
        found.directories |= {
            Replica(broker, *place): directory for broker, directory in zip(replicas, directories) if directory != ANY
        }
    json_files.refuse_twice(named, file)
    if not found.replicas:
        raise Failure("Partition reassignment list cannot be empty")
    return found


def read_topics(file: str) -> list[str]:
    """The topics of a file `{"topics": [{"topic": "t"}], "version": 1}`, each once."""
    topics = [json_files.text(entry, "topic", file) for entry in json_files.entries(file, "topics")]
    twice = sorted({one for one in topics if topics.count(one) > 1})
    if twice:
        raise Failure(f"List of topics to reassign contains duplicate entries: {', '.join(twice)}")
    return topics


def as_json(replicas: Mapping[TopicPartition, list[int]], directories: Mapping[Replica, str] | None = None) -> str:
    """An assignment in one line, as Kafka writes it; a replica whose directory is not known may lie in any."""
    known = directories or {}
    partitions = [
        {
            "topic": topic,
            "partition": index,
            "replicas": brokers,
            "log_dirs": [known.get(Replica(broker, topic, index), ANY) for broker in brokers],
        }
        for (topic, index), brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))
