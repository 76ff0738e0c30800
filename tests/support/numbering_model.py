"""Numbered records, and what state in Python must make of them (numbering_steps.py).

The record of number n has the key n % KEYS and the time BEGIN + n ms. What comes out, as JSON, under its key:

    ["event", i, …]       for the i-th record of a key, by a processor: the values, lists and maps that it holds then
    ["event rung", i, t]  the i-th timer of a key; each record sets one for its own time
    ["clock", i, …]       the same with timers by the clock,
    ["clock rung", i]     which are due i ms later
    ["fold", [i, d]]      an aggregate of the first i records of a key, once for each batch; d depends on their order
    ["window", s, [i, d]] the same of the i records of a window that begins at s ms, once it has closed
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

KEYS = 30
PARTITIONS = 2  # of each step's state
WITH_RECORDS = range(3 * PARTITIONS)  # the tasks that write when records come; those of the window write when it closes
BEGIN = 1_000_000
WINDOW, GRACE = 1000, 2000  # ms: no record comes so late
RUNG = "rung"  # in all that timers make


def nothing() -> list[int]:
    return [0, 0]


def add(key: object, number: int, folded: list[int]) -> list[int]:
    return [folded[0] + 1, (folded[1] * 31 + number) % 1_000_003]


def counts(fed: int) -> Counter[str]:
    """How many of each name must come of the numbers below `fed`; of "fold" any number will do."""
    closed = len(range(0, fed - WINDOW - GRACE, WINDOW))
    return Counter({**dict.fromkeys(["event", "event rung", "clock", "clock rung"], fed), "window": closed * KEYS})


def counted(made: Iterable[tuple[bytes, bytes]]) -> Counter[str]:
    return Counter(value.split(b'"')[1].decode() for _, value in made)


def faults(made: Iterable[tuple[bytes, bytes]], fed: int) -> list[str]:
    """What is wrong with the records that have come of the numbers below `fed`, in the order in which they came."""
    seen: dict[tuple[int, str], list[list[Any]]] = defaultdict(list)
    for key, value in made:
        row = json.loads(value)
        seen[int(key), row[0]].append(row)
    wanted = _wanted(fed)
    found = [f"key {key} has {name!r}" for key, name in seen if (key, name) not in wanted]
    for (key, name), rows in wanted.items():
        there = sorted(seen[key, name]) if name == "window" else seen[key, name]  # windows are in tasks of their own
        if name == "fold":  # which of them come is a matter of batches, but the last one does
            told = {row[1][0] for row in [*there, rows[-1]]}
            rows = [row for row in rows if row[1][0] in told]
        if there != rows:
            found.append(f"key {key}: {_difference(there, rows)}")
    return found


def _difference(there: list[list[Any]], rows: list[list[Any]]) -> str:
    at = next((i for i, (one, other) in enumerate(zip(there, rows, strict=False)) if one != other), None)
    differing = f", the first that differs is {there[at]} for {rows[at]}" if at is not None else ""
    return f"{len(there)} rows of {len(rows)} {rows[0][0]!r}{differing}"


def _wanted(fed: int) -> dict[tuple[int, str], list[list[Any]]]:
    wanted: dict[tuple[int, str], list[list[Any]]] = {}
    for key in range(min(fed, KEYS)):
        numbers = range(key, fed, KEYS)
        ends: dict[str, int] = defaultdict(int)
        folded = nothing()
        rows: dict[str, list[list[Any]]] = defaultdict(list)
        windows: dict[int, list[int]] = {}
        for count, number in enumerate(numbers, 1):
            ends[str(number % 7)] += 1
            last = list(numbers[max(0, count - 3) : count])
            held = [list(pair) for pair in sorted(ends.items())]
            folded = add(key, number, folded)
            start = (BEGIN + number) // WINDOW * WINDOW
            windows[start] = add(key, number, windows.get(start, nothing()))
            rows["event"].append(["event", count, last, held])
            rows["event rung"].append(["event rung", count, BEGIN + number])
            rows["clock"].append(["clock", count, last, held])
            rows["clock rung"].append(["clock rung", count])
            rows["fold"].append(["fold", folded])
        closed = {start: made for start, made in windows.items() if start + WINDOW + GRACE < BEGIN + fed}
        rows["window"] = [["window", start, made] for start, made in closed.items()]
        wanted.update({(key, name): made for name, made in rows.items() if made})
    return wanted
