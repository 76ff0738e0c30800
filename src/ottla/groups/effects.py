"""What a group wants done. Its core gets an event and the time, changes its own state and returns a list of these.

The effects of one event are carried out together, and in order:

- `Write`: a record for the group's partition of __consumer_offsets. The records of one list go into one append.
- `Reply`: an answer to a request, or to one that has been waiting. Where the list has records, the answers go out when
  these are committed. If they cannot be written, the answers are turned into errors and the whole partition is loaded
  anew from its log: so a core changes its state at once and never has to take anything back.
- `Become`: the group goes on as another kind. What follows in the list is that kind's; the one before has put its own
  timers off.
- `Timer`: the core's `timer(name, now)` is called at that time; setting the same name again moves it, None ends it.

Times are milliseconds of a clock that never goes back. Time of day is given apart, where a record needs it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, TypeAlias


class Reply(NamedTuple):
    """`to` is what came with the request: the driver calls it with the response, the core only keeps it."""

    to: Any
    message: Any


class Write(NamedTuple):
    """A record; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class Timer(NamedTuple):
    name: Hashable
    at: int | None


class Become(NamedTuple):
    core: Any


Effect: TypeAlias = Reply | Write | Timer | Become
