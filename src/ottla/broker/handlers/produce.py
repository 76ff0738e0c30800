"""Produce (0), versions 0-13.

Each partition's batch is checked and appended on its own, and answered on its own. With acks=0 nothing is answered,
and a failure closes the connection, since the client would not learn of it otherwise.

- v0-2: message sets of format 0 and 1 (produce_legacy.py). v3+: one batch of format 2 per partition.
- v1 throttle time; v2 append time; v5 log start offset; v7 zstd; v8 record errors and message; v9 flexible;
  v10 leader hints (tagged, only in a cluster); v11-12 transactions (KIP-890); v13 topic ids instead of names.

The whole frame is read (produce_wire.py) before anything is done, so that a malformed one changes nothing.

Where a topic asks for flushes (`flush.messages`), the answer waits until the batch is committed (produce_committed.py).

A transactional producer's batches are appended when its coordinator agrees (produce_transactional.py).

A compacted topic takes only records with keys. A batch with too many records to look through on the spot is looked
through in a thread, while the connection waits.
"""

from __future__ import annotations

import asyncio
from time import time
from typing import TYPE_CHECKING

from ottla.broker.dispatch import handles_frames, wait_for
from ottla.broker.handlers.produce_wire import (
    FLEXIBLE,
    FORMAT_2,
    TOPIC_IDS,
    ZSTD,
    Produced,
    Topics,
    read_request,
    write_response,
    write_single,
)
from ottla.controller.names import is_internal, why_illegal
from ottla.net.connection import BadFrame, Connection, Parked, Reply
from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import NotLookedThrough, Partition
from ottla.replication.refused import Refused

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.handlers.produce_transactional import Verdicts


@handles_frames("Produce", 0, 13)
def produce(
    broker: Broker, connection: Connection, buffer: memoryview, start: int, end: int, version: int, correlation_id: int
) -> Reply | Parked | None:
    acks, _, transactional_id, topics = read_request(buffer[start:end], version)
    if version < FORMAT_2:
        from ottla.broker.handlers.produce_legacy import produce_message_sets

        return produce_message_sets(broker, connection, topics, acks, version, correlation_id)
    if not -1 <= acks <= 1:
        results = refuse_all(topics, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; it may be -1, 0 or 1")
        return write_response(results, version, correlation_id)
    if transactional_id is not None:
        return _produce_in_transaction(broker, connection, transactional_id, topics, acks, version, correlation_id)
    return _append_all(broker, connection, topics, acks, version, correlation_id)


def _produce_in_transaction(
    broker: Broker,
    connection: Connection,
    transactional_id: bytes,
    topics: Topics,
    acks: int,
    version: int,
    correlation_id: int,
) -> Reply | Parked | None:
    """The same for a transactional producer: its coordinator is asked first, which takes no time as a rule."""
    from ottla.broker.handlers.produce_transactional import ask_coordinator

    asked: asyncio.Future[Verdicts] = broker.loop.create_future()
    ask_coordinator(broker, transactional_id, topics, version, asked.set_result)
    if asked.done():
        return _append_all(broker, connection, topics, acks, version, correlation_id, asked.result())
    work = _copied(topics)

    async def go_on() -> Reply | None:
        verdicts = await asked
        return await _append_each(broker, work, [], acks, broker.now_ms(), version, correlation_id, verdicts)

    return wait_for(connection, go_on())


def _append_all(
    broker: Broker,
    connection: Connection,
    topics: Topics,
    acks: int,
    version: int,
    correlation_id: int,
    verdicts: Verdicts | None = None,
) -> Reply | Parked | None:
    """`verdicts`: of the transaction coordinator, where the producer has one."""
    now_ms = int(time() * 1000)
    known = broker.replicas.by_id if version >= TOPIC_IDS else broker.replicas.by_name
    results = []
    must_wait = False
    for topic, batches in topics:
        partitions = known.get(topic)
        answers: list[Produced] = []
        results.append((topic, answers))
        for index, records in batches:
            if partitions is None or not 0 <= index < len(partitions) or partitions[index].is_internal:
                answers.append(unknown(topic, index, version, partitions))
            elif records is None:
                answers.append(Produced(index, ErrorCode.INVALID_RECORD, message="no records"))
            else:
                partition = partitions[index]
                if verdicts is not None and (topic, index) in verdicts.refused:
                    answers.append(_not_in_transaction(index, verdicts.refused[topic, index]))
                    continue
                try:
                    offset, append_time = partition.append(
                        records,
                        now_ms,
                        all_replicas=acks == -1,
                        zstd=version >= ZSTD,
                        in_transaction=verdicts is not None,
                    )
                except Refused as refusal:
                    answers.append(refused(index, refusal))
                    continue
                except NotLookedThrough:
                    work = _copied(topics)
                    rest = _append_each(broker, work, results, acks, now_ms, version, correlation_id, verdicts)
                    return wait_for(connection, rest)
                log_start = partition.log.start_offset
                if partition.commit is not None:
                    must_wait = True
                elif acks and version >= FLEXIBLE and len(topics) == 1 and len(batches) == 1:
                    return write_single(topic, index, offset, append_time, log_start, version, correlation_id)
                answers.append(Produced(index, 0, offset, append_time, log_start))
    if acks == 0:
        answer_nothing(results)
        return None
    if must_wait:
        from ottla.broker.handlers.produce_committed import answer_when_committed

        return answer_when_committed(broker, connection, results, version, correlation_id)
    return write_response(results, version, correlation_id)


def _not_in_transaction(index: int, code: ErrorCode) -> Produced:
    return Produced(index, code, message=f"the transaction coordinator says: {code.message}")


def refused(index: int, refusal: Refused) -> Produced:
    return Produced(index, refusal.code, -1, -1, -1, refusal.message, refusal.records)


def _copied(topics: Topics) -> list[tuple[bytes, list[tuple[int, bytearray | None]]]]:
    """Batches that outlive the buffer in which they came."""
    return [
        (topic, [(index, None if records is None else bytearray(records)) for index, records in batches])
        for topic, batches in topics
    ]


async def _append_each(
    broker: Broker,
    work: list[tuple[bytes, list[tuple[int, bytearray | None]]]],
    results: list[tuple[bytes, list[Produced]]],
    acks: int,
    now_ms: int,
    version: int,
    correlation_id: int,
    verdicts: Verdicts | None,
) -> Reply | None:
    """Take up a request where its `results` end, since it has to wait for something."""
    for at, (topic, batches) in enumerate(work):
        if at == len(results):
            results.append((topic, []))
        answers = results[at][1]
        for index, records in batches[len(answers) :]:
            if verdicts is not None and (topic, index) in verdicts.refused:
                answers.append(_not_in_transaction(index, verdicts.refused[topic, index]))
                continue
            answers.append(await _append_aside(broker, topic, index, records, acks, now_ms, version, verdicts))
    if acks == 0:
        answer_nothing(results)
        return None
    from ottla.broker.handlers.produce_committed import committed

    await committed(broker, results, version)
    return write_response(results, version, correlation_id)


async def _append_aside(
    broker: Broker,
    topic: bytes,
    index: int,
    records: bytearray | memoryview | None,
    acks: int,
    now_ms: int,
    version: int,
    verdicts: Verdicts | None,
) -> Produced:
    prepared = False
    while True:
        # Looked up again after each wait: the topic may be gone, and its files with it.
        partitions = (broker.replicas.by_id if version >= TOPIC_IDS else broker.replicas.by_name).get(topic)
        if partitions is None or not 0 <= index < len(partitions) or partitions[index].is_internal:
            return unknown(topic, index, version, partitions)
        if records is None:
            return Produced(index, ErrorCode.INVALID_RECORD, message="no records")
        partition = partitions[index]
        batch = memoryview(records)
        if verdicts is not None and (code := verdicts.later(partition, batch)):
            return _not_in_transaction(index, code)
        try:
            offset, append_time = partition.append(
                batch,
                now_ms,
                all_replicas=acks == -1,
                zstd=version >= ZSTD,
                prepared=prepared,
                in_transaction=verdicts is not None,
            )
        except NotLookedThrough:
            pass
        except Refused as refusal:
            return refused(index, refusal)
        else:
            return Produced(index, 0, offset, append_time, partition.log.start_offset)
        try:
            records = await broker.run_blocking(partition.prepare, batch)
        except Refused as refusal:
            return refused(index, refusal)
        prepared = True


def unknown(topic: bytes, index: int, version: int, partitions: list[Partition] | None) -> Produced:
    """Why there is nothing to write to: no such partition, or one that only the broker itself writes to."""
    if version < TOPIC_IDS:
        name = topic.decode(errors="replace")
    elif partitions is None:
        return Produced(index, ErrorCode.UNKNOWN_TOPIC_ID, message="no topic has this id")
    else:
        name = partitions[0].topic
    if is_internal(name):
        return Produced(index, ErrorCode.INVALID_TOPIC_EXCEPTION, message=f"only the broker writes to {name}")
    illegal = why_illegal(name)
    if illegal:
        return Produced(index, ErrorCode.INVALID_TOPIC_EXCEPTION, message=illegal)
    return Produced(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"{name}-{index} is not here")


def refuse_all(topics: Topics, code: ErrorCode, message: str) -> list[tuple[bytes, list[Produced]]]:
    return [(topic, [Produced(index, code, message=message) for index, _ in batches]) for topic, batches in topics]


def answer_nothing(results: list[tuple[bytes, list[Produced]]]) -> None:
    """The answer to acks=0: none, or a closed connection."""
    for topic, answers in results:
        for answer in answers:
            if answer.code:
                raise BadFrame(f"acks=0, and partition {answer.partition} of {topic[:250]!r} refused: {answer.message}")
