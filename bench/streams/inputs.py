"""What the input topics hold, and the result that must come out of them.

An input is a pool of records, made from a fixed seed, that is gone through again and again: record `i` is
`pool[i % len(pool)]`. Values are lines of 100 bytes. A key always goes to the same partition, and the topics of a join
agree on it, as Kafka's own partitioner would have it.

  map     10,000 keys; out comes every value in upper case
  count   10,000 keys; out come the counts, long by key
  window  1,000 keys, 50,000 records a second of event time, in order; counts by key and second
  words   lines without keys, of a vocabulary of 5,000 words, the n-th of them 1/n times as often as the first
  join    100,000 keys, each in the table; out comes value + " " + the table's value
"""

from __future__ import annotations

import itertools
import random
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Topology = Literal["map", "count", "window", "words", "join"]
PARTITIONS = 4
VALUE_BYTES = 100
KEYS: dict[Topology, int] = {"map": 10_000, "count": 10_000, "window": 1_000, "words": 0, "join": 100_000}
VOCABULARY = 5_000
POOL = 100_000
EVENTS_PER_MS = 50
WINDOW_MS = 1000

Record = tuple[int, bytes | None, bytes, int]  # partition, key, value, timestamp in ms


def user(number: int) -> bytes:
    """A key; `number % PARTITIONS` is its partition (the load generator has the same keys)."""
    return b"user%06d" % number


def table_value(number: int) -> bytes:
    return b"name%06d" % number


@dataclass(frozen=True, slots=True)
class Expected:
    """What an output topic holds in the end: either records by number and checksum, or the last value of each key."""

    records: int = 0
    checksum: int = 0
    finals: dict[bytes, int] = field(default_factory=dict)


class Input:
    def __init__(self, topology: Topology) -> None:
        self.topology: Topology = topology
        self._began = int(time.time() * 1000) // WINDOW_MS * WINDOW_MS
        chance = random.Random(topology)
        keys = KEYS[topology]
        if topology == "join":
            numbers = chance.sample(range(keys), keys)
        elif keys:
            numbers = chance.choices(range(keys), k=POOL)
        else:
            numbers = list(range(POOL))
        words = _vocabulary(chance)
        weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
        lines = [_line(chance, words, weights) for _ in range(POOL // 10)]
        self._pool = [
            (number % PARTITIONS, user(number) if keys else None, lines[at % len(lines)])
            for at, number in enumerate(numbers)
        ]

    def records(self, start: int, stop: int) -> Iterator[Record]:
        pool, began = self._pool, self._began
        for at in range(start, stop):
            partition, key, value = pool[at % len(pool)]
            yield partition, key, value, began + at // EVENTS_PER_MS

    def table(self) -> Iterator[Record]:
        """The table of a join: each key once, older than any record of the stream."""
        if self.topology == "join":
            for number in range(KEYS["join"]):
                yield number % PARTITIONS, user(number), table_value(number), self._began - 1

    def expected(self, stop: int) -> Expected:
        """After the first `stop` records."""
        match self.topology:
            case "map":
                return self._expect_each(stop, lambda _, value: value.upper())
            case "join":
                # user000123 is name000123 in the table
                return self._expect_each(stop, lambda key, value: value + b" name" + key[4:])
            case "count":
                return Expected(finals=self._times(stop, lambda key, _: [key]))
            case "words":
                return Expected(finals=self._times(stop, lambda _, value: value.lower().split(b" ")))
            case "window":
                counts: Counter[bytes] = Counter()
                for _, key, _, timestamp in self.records(0, stop):
                    assert key is not None
                    counts[key + struct.pack(">q", timestamp - timestamp % WINDOW_MS)] += 1
                return Expected(finals=dict(counts))

    def _expect_each(self, stop: int, result: Callable[[bytes, bytes], bytes]) -> Expected:
        whole, rest = divmod(stop, len(self._pool))
        sums = [zlib.crc32(result(key or b"", value)) for _, key, value in self._pool]
        return Expected(records=stop, checksum=whole * sum(sums) + sum(sums[:rest]))

    def _times(self, stop: int, keys_of: Callable[[bytes, bytes], Iterable[bytes]]) -> dict[bytes, int]:
        whole, rest = divmod(stop, len(self._pool))
        counts: Counter[bytes] = Counter()
        for at, (_, key, value) in enumerate(self._pool):
            for name in keys_of(key or b"", value):
                counts[name] += whole + (at < rest)
        return {key: count for key, count in counts.items() if count}


def _vocabulary(chance: random.Random) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    words: dict[str, None] = {}  # a set that keeps its order
    while len(words) < VOCABULARY:
        words["".join(chance.choices(letters, k=chance.randint(2, 9)))] = None
    return list(words)


def _line(chance: random.Random, words: list[str], weights: list[float]) -> bytes:
    """Words up to the size of a value, the last one cut off there; none ends in a space."""
    text = " ".join(chance.choices(words, cum_weights=weights, k=VALUE_BYTES))[:VALUE_BYTES]
    return text.rstrip().ljust(VALUE_BYTES, "z").encode()
