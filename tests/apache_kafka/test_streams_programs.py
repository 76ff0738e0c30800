"""Programs of the Streams DSL give what Kafka Streams gives for the same records, from topic to topic.

All programs read the same story. It has at most one record of a key in a batch, so that a batch is for each key what a
record is for Kafka Streams; of groups, several of which change in a batch, the last result counts. Values come and go,
but none follows itself, since a table of ours does not pass on what changes nothing. Timestamps go back and forth, on
the bounds of windows and graces too, and a record is late, if it is, by the batches before its own: within a batch
nothing closes that the batch has records for. The rows that are found by letters, or in a global table, come first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from support import kafka_streams
from support.kafka_streams import Batch, Result

if TYPE_CHECKING:
    from ottla.streams.testing import Driver

PROGRAMS = [
    "stream:left group_by_key count",
    "stream:left group_by:python aggregate",
    "stream:left group_by_key tumbling:10:5 count",
    "stream:left group_by_key hopping:10:4:5:final aggregate",
    "stream:left group_by_key session:6:30:final count",
    "table:left group_by:python reduce",
    "table:left filter:sql map_values:python",
    "stream:left select_key:sql to_table filter_not:python",
    "stream:left map_values:sql stream:right merge split:python",
    "stream:left flat_map_values:python select_key:bare table:right join:left:python",
    "stream:left global:rows join:left:bare",
    "table:left filter:python table:right map_values:sql join:outer:sql",
]
STEPS = (9, 5, 3)  # how far time goes on, from batch to batch
KEYS = [*(f"k{number}" for number in range(40)), None, None]
START = 1  # early: hopping windows would begin before 1970


def story() -> list[Batch]:
    chance = random.Random("programs")
    rows: Batch = [("rows", f"k{number}", f"a{number}", START) for number in range(7)]
    rows += [("rows", "k3", None, START), ("rows", None, "b1", START)]
    rows += [("right", letter, f"b{number}", START) for number, letter in enumerate("abe")]
    batches: list[Batch] = []
    now = START
    newest: dict[tuple[str, str | None], str | None] = {}
    for step in STEPS:
        end = now + step
        times = [t for t in range(START, end + 1) if not any(now < c <= end for c in _closings(t))]
        batch: Batch = [("left", "z", f"e{now % 10}", end), ("right", "y", f"e{now % 10}", end)]
        for key in KEYS:
            side = chance.choice(["left", "left", "right"])
            value = newest.get((side, key))
            while value == newest.get((side, key)):
                value = f"{chance.choice('aaabbcdefg')}{chance.choice('0123456799')}" if chance.random() < 0.8 else None
            newest[side, key] = value
            batch.append((side, key, value, chance.choice(times)))
        batches.append(sorted(batch, key=lambda record: record[3]))
        now = end
    batches[0] = rows + batches[0]
    return [*batches, [("left", "z", "e9", now + 50), ("right", "y", "e9", now + 50)]]


def _closings(time: int) -> Iterator[int]:
    """The stream times from which on something that has a record of this time is closed."""
    yield time // 10 * 10 + 10 + 5
    yield from (start + 10 + 5 for start in range(time // 4 * 4, max(time - 10, -1), -4))
    yield time + 6 + 30 + 1


@pytest.fixture(scope="module")
def kafka() -> dict[str, list[list[Result]]]:
    batches = story()
    return dict(zip(PROGRAMS, kafka_streams.ask([(program, batches) for program in PROGRAMS]), strict=True))


def test_programs_give_what_kafka_streams_gives(
    kafka: dict[str, list[list[Result]]], ottla_streams: Callable[..., Driver]
) -> None:
    from ottla.streams import App
    from support.streams_programs import build

    app = App("programs")
    for number, program in enumerate(PROGRAMS):
        build(app, program, f"out{number}")
    driver = ottla_streams(app)
    ours: dict[str, list[list[Result]]] = {program: [] for program in PROGRAMS}
    for batch in story():
        for topic, key, value, time in batch:
            driver.send(topic, value, key=key, timestamp=time)
        driver.run()
        for number, program in enumerate(PROGRAMS):
            found = driver._records(f"out{number}", None, None)
            ours[program].append([(record.key, record.value, record.timestamp) for record in found])
    different = []
    for program in PROGRAMS:
        mine, theirs = (_compared(program, results) for results in (ours[program], kafka[program]))
        assert any(theirs), f"{program} has no results"
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            only, missing = ([row for row in a if row not in b] for a, b in ((one, other), (other, one)))
            if one != other:
                different.append(f"{program}, batch {number}: ottla {only}, Kafka Streams {missing}")
    assert not different, "\n".join(different)


def _compared(program: str, batches: list[list[Result]]) -> list[list[Result]]:
    """Of each batch what is to be the same: all records, or the last one of each key; of joined tables what changes."""
    words = [word.split(":")[0] for word in program.split()]
    if words[0] == "stream" and not {"count", "reduce", "aggregate", "to_table"} & set(words):
        return [sorted(batch, key=str) for batch in batches]
    rows: dict[str | None, str | None] = {}
    compared = []
    for batch in batches:
        last = {key: (key, value, time) for key, value, time in batch}
        if words[-1] == "join":
            last = {key: result for key, result in last.items() if result[1] != rows.get(key)}
        rows |= {key: value for key, (_, value, _) in last.items()}
        compared.append(sorted(last.values(), key=str))
    return compared
