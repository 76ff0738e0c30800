"""What clients did and saw, and whether a log that keeps its promises could have made them see it.

A history is a list of events: dictionaries with `op` and `at` (a clock for all processes: CLOCK_MONOTONIC), as they
were written down by whoever did something. Records are [topic, partition, offset, value]; each value is written once.

    begin    txn, process                  a transaction, whose name nobody else uses
    send     txn, process, place, value    about to be sent; place is [topic, partition]. txn is null outside of one
    sent     txn, process, record          the broker has acknowledged it
    poll     reader, txn, records          a consumer with read_committed got these, in a transaction perhaps
    moved    reader                        its position was changed: it was assigned partitions, or went back
    offsets  txn                           its reader's positions are part of it
    commit   txn                           it is about to be committed
    committed, aborted   txn               the broker has said so; what ends with neither is unknown
    final    place, records                all of a partition, by a reader with read_committed, when all was quiet

`check` returns the anomalies, by the names that public analyses of Kafka-like systems have for them (Jepsen's of
Redpanda and Bufstream; Adya's G1a and G1c):

    lost write             acknowledged, committed, and not there in the end
    duplicate              one value at two offsets
    inconsistent offsets   two values at one offset
    aborted read (G1a)     somebody saw what was aborted
    circular flow (G1c)    transactions that read from each other in a circle. Circles that need the order of writes
                           are left out: Kafka has no write isolation, so that they are legal (G0)
    early read             somebody saw a record before its transaction was to be committed
    torn transaction       of what it wrote some is there in the end, and some is not
    non-monotonic poll     a reader saw an offset again, or an older one, without having been moved
    skipping poll          a reader went past a record that is there in the end
    non-monotonic send     a producer's records have offsets in another order than it sent them in
    phantom                a value that nobody has sent
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Event = dict[str, Any]
Place = tuple[str, int]


class Anomaly(NamedTuple):
    name: str
    what: str


def read(directory: Path) -> list[Event]:
    """The events of all files of a directory, in the order of their time. A torn line at the end of one is left out."""
    events = []
    for path in sorted(directory.glob("*.jsonl")):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                events.append(json.loads(line))
    return sorted(events, key=lambda event: int(event["at"]))


def check(history: Iterable[Event]) -> list[Anomaly]:
    return list(Checker(list(history)).anomalies())


class Checker:
    def __init__(self, history: list[Event]) -> None:
        self.history = history
        self.writer: dict[str, str | None] = {}  # of values: transaction
        self.values: dict[str, list[str]] = defaultdict(list)  # of transactions
        self.outcome: dict[str, str] = {}
        self.commit_at: dict[str, int] = {}
        self.acknowledged: set[str] = set()
        self.final: dict[Place, dict[int, str]] = {}
        for event in history:
            match event["op"]:
                case "send":
                    self.writer[event["value"]] = event["txn"]
                    if event["txn"] is not None:
                        self.values[event["txn"]].append(event["value"])
                case "sent":
                    self.acknowledged.add(event["record"][3])
                case "commit":
                    self.commit_at[event["txn"]] = event["at"]
                case "committed" | "aborted" as outcome:
                    self.outcome[event["txn"]] = outcome
                case "final":
                    place = tuple(event["place"])
                    self.final[place] = {offset: value for _, _, offset, value in event["records"]}
        self.there = {value for records in self.final.values() for value in records.values()}

    def anomalies(self) -> Iterator[Anomaly]:
        yield from self._places_of_values()
        yield from self._outcomes()
        yield from self._reads()
        yield from self._circles()
        yield from self._order_of_polls()
        yield from self._order_of_sends()

    def _records(self) -> Iterator[tuple[str, int, int, str]]:
        """All records that anybody knows of, more than once perhaps."""
        for event in self.history:
            for record in event.get("records", ()):
                yield tuple(record)
            if "record" in event:
                yield tuple(event["record"])

    def _places_of_values(self) -> Iterator[Anomaly]:
        at: dict[tuple[str, int, int], set[str]] = defaultdict(set)
        of: dict[str, set[tuple[str, int, int]]] = defaultdict(set)
        for topic, partition, offset, value in self._records():
            at[topic, partition, offset].add(value)
            of[value].add((topic, partition, offset))
        for place, values in at.items():
            if len(values) > 1:
                yield Anomaly("inconsistent offsets", f"{place}: {sorted(values)}")
        for value, places in of.items():
            # a batch may be written anew where its transaction was aborted; only what can be seen counts
            visible = {place for place in places if self.final.get(place[:2], {}).get(place[2]) == value}
            if len(visible) > 1:
                yield Anomaly("duplicate", f"{value}: {sorted(visible)}")
            if value not in self.writer:
                yield Anomaly("phantom", f"{value}: {sorted(places)}")

    def _outcomes(self) -> Iterator[Anomaly]:
        for transaction, values in self.values.items():
            there = [value for value in values if value in self.there]
            outcome = self.outcome.get(transaction)
            if outcome == "committed":
                for value in values:
                    if value not in self.there:
                        yield Anomaly("lost write", f"{value} of {transaction}")
            if there and outcome == "aborted":
                yield Anomaly("aborted read", f"{transaction} was aborted, and in the end there are {there}")
            if there and len(there) < len(values):
                yield Anomaly("torn transaction", f"{transaction}: {there} of {values}")
        for value, transaction in self.writer.items():
            if transaction is None and value in self.acknowledged and value not in self.there:
                yield Anomaly("lost write", value)

    def _reads(self) -> Iterator[Anomaly]:
        for event in self._polls():
            for _, _, offset, value in event["records"]:
                transaction = self.writer.get(value)
                if transaction is None:
                    continue
                if self.outcome.get(transaction) == "aborted":
                    yield Anomaly("aborted read", f"{event['reader']} saw {value} of {transaction} at {offset}")
                if transaction not in self.commit_at or event["at"] < self.commit_at[transaction]:
                    yield Anomaly(
                        "early read", f"{event['reader']} saw {value}, and {transaction} was not to be committed"
                    )

    def _polls(self) -> Iterator[Event]:
        return (event for event in self.history if event["op"] == "poll")

    def _circles(self) -> Iterator[Anomaly]:
        reads: dict[str, set[str]] = defaultdict(set)  # transaction -> those that it has read from
        for event in self._polls():
            for record in event["records"]:
                writer = self.writer.get(record[3])
                if event["txn"] is not None and writer is not None and writer != event["txn"]:
                    reads[event["txn"]].add(writer)
        done: set[str] = set()
        for start in list(reads):
            path: dict[str, Iterator[str]] = {}
            if start not in done:
                path[start] = iter(reads[start])
            while path:
                node = next(reversed(path))
                following = next(path[node], None)
                if following is None:
                    del path[node]
                    done.add(node)
                elif following in path:
                    names = list(path)
                    yield Anomaly("circular flow", " reads from ".join([*names[names.index(following) :], following]))
                elif following not in done:
                    path[following] = iter(reads.get(following, ()))

    def _order_of_polls(self) -> Iterator[Anomaly]:
        positions: dict[str, dict[Place, int]] = defaultdict(dict)
        for event in self.history:
            if event["op"] == "moved":
                positions[event["reader"]].clear()
            elif event["op"] == "poll":
                position = positions[event["reader"]]
                for topic, partition, offset, value in event["records"]:
                    last = position.get((topic, partition))
                    if last is not None and offset <= last:
                        yield Anomaly("non-monotonic poll", f"{event['reader']}: {value} at {offset} after {last}")
                    elif last is not None:
                        final = self.final.get((topic, partition), {})
                        for between in range(last + 1, offset):
                            if between in final:
                                yield Anomaly("skipping poll", f"{event['reader']}: {final[between]} at {between}")
                    position[topic, partition] = offset

    def _order_of_sends(self) -> Iterator[Anomaly]:
        offsets: dict[str, int] = {}
        for event in self.history:
            if event["op"] == "sent":
                offsets[event["record"][3]] = event["record"][2]
        last: dict[tuple[str, str, int], tuple[int, str]] = {}
        for event in self.history:
            if event["op"] == "send" and event["value"] in offsets:
                key = (event["process"], *event["place"])
                now = (offsets[event["value"]], event["value"])
                before = last.get(key)
                if before is not None and now[0] <= before[0]:
                    yield Anomaly("non-monotonic send", f"{event['process']}: {before} and then {now}")
                last[key] = now
