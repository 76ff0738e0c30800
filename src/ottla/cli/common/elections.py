"""Elections of leaders, and what came of them, for `leader-election` and `preferred-replica-election`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.cli.common.json_files import TopicPartition
from ottla.cli.common.reach import Reach, kafka_error

PREFERRED, UNCLEAN = "PREFERRED", "UNCLEAN"


@dataclass(slots=True)
class Outcome:
    elected: list[TopicPartition] = field(default_factory=list)
    not_needed: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, str] = field(default_factory=dict)


def elect(reach: Reach, kind: str, partitions: Sequence[TopicPartition] | None) -> Outcome:
    """Elect leaders for these partitions, or wherever it is of use (None)."""
    admin = reach.admin()
    import confluent_kafka as package

    asked = None if partitions is None else [package.TopicPartition(*one) for one in partitions]
    results = admin.elect_leaders(package.ElectionType[kind], asked).result()
    outcome = Outcome()
    for place, error in sorted(results.items(), key=lambda item: (item[0].topic, item[0].partition)):
        one = (place.topic, place.partition)
        if error is None:
            outcome.elected.append(one)
        elif error.name() == "ELECTION_NOT_NEEDED":
            outcome.not_needed.append(one)
        else:
            outcome.failed[one] = kafka_error(error)
    return outcome
