"""Records to send through clients, and what is left of them at the other end."""

from __future__ import annotations

from time import time

from ottla.protocol.records import Record
from support.clients.client import Client

AN_HOUR_AGO = int(time() * 1000) - 3_600_000  # much older records are gone when retention looks at them
HEADERS = (("source", b"orders/7"), ("größe", "√2".encode()))


def sample(name: str, count: int = 10, *, timestamp: int | None = None) -> list[Record]:
    """Records with and without keys, with bytes of all kinds in their values, and one with no value at all."""
    first = int(time() * 1000) - 5000 if timestamp is None else timestamp
    noise = bytes(range(256))
    return [
        Record(
            number,
            first + 7 * number,
            None if number % 3 == 1 else f"{name} key {number}".encode(),
            None if number == 3 else f"{name} {number} ".encode() + noise,
            HEADERS,
        )
        for number in range(count)
    ]


def at_the_end(records: list[Record], writer: Client, reader: Client) -> list[Record]:
    """What `reader` is to see of what `writer` was given. Offsets and times that it cannot know are left out."""
    has_headers = writer.has_headers and reader.has_headers
    has_time = writer.sets_timestamps and reader.sees_timestamps
    return [
        Record(-1, one.timestamp if has_time else -1, one.key, one.value, one.headers if has_headers else ())
        for one in records
    ]


def as_seen(records: list[Record], writer: Client, reader: Client) -> list[Record]:
    """What was read, without what cannot be known beforehand; to compare with `at_the_end`."""
    has_time = writer.sets_timestamps and reader.sees_timestamps
    return [one._replace(offset=-1, timestamp=one.timestamp if has_time else -1) for one in records]
