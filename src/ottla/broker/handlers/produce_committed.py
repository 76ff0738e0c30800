"""Answers to Produce that wait until what was written is committed: flushed, where the topic asks for it.

Each partition that had to wait and could not be flushed is answered with its error instead of its offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.handlers.produce import refused
from ottla.broker.handlers.produce_wire import TOPIC_IDS, Produced, write_response
from ottla.net.connection import Connection, Parked, Reply
from ottla.replication.commit import Commit
from ottla.replication.refused import Refused

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Results = list[tuple[bytes, list[Produced]]]
# what to wait for, up to which offset; the answers and the place in them where an error is put
Wait = tuple[Commit, int, list[Produced], int]


class Committing(Parked):
    """A Produce request whose records are written, and not all of them committed."""

    __slots__ = ("is_waiting",)

    is_waiting: bool


def answer_when_committed(
    broker: Broker, connection: Connection, results: Results, version: int, correlation_id: int
) -> Reply | Parked:
    waits = _waits(broker, results, version)
    if not waits:
        return write_response(results, version, correlation_id)
    parked = Committing()
    parked.connection = connection
    parked.is_waiting = True

    def finish() -> None:
        parked.is_waiting = False
        connection.answer(parked, write_response(results, version, correlation_id))

    _wait(waits, finish)
    return parked if parked.is_waiting else write_response(results, version, correlation_id)


async def committed(broker: Broker, results: Results, version: int) -> None:
    """Returns when all that was written is committed, or has its error in `results`."""
    waits = _waits(broker, results, version)
    if waits:
        done = asyncio.get_running_loop().create_future()
        _wait(waits, lambda: done.set_result(None))
        await done


def _waits(broker: Broker, results: Results, version: int) -> list[Wait]:
    known = broker.replicas.by_id if version >= TOPIC_IDS else broker.replicas.by_name
    waits = []
    for topic, answers in results:
        partitions = known.get(topic, ())
        for at, answer in enumerate(answers):
            if answer.code or not answer.partition < len(partitions):
                continue
            partition = partitions[answer.partition]
            # A duplicate has to wait too: the first of them may not be committed yet.
            if partition.commit is not None and partition.high_watermark < partition.log.end_offset:
                waits.append((partition.commit, partition.log.end_offset, answers, at))
    return waits


def _wait(waits: list[Wait], finish: Callable[[], None]) -> None:
    """Call `finish` when the last one is settled."""
    left = len(waits)

    def settle(answers: list[Produced], at: int, refusal: Refused | None) -> None:
        nonlocal left
        if refusal is not None:
            answers[at] = refused(answers[at].partition, refusal)
        left -= 1
        if not left:
            finish()

    for commit, offset, answers, at in waits:
        commit.when_committed(offset, partial(settle, answers, at))
