"""Produce (0), versions 0-13.

Each partition's batch is checked and appended on its own, and answered on its own. With acks=0 nothing is answered,
and a failure closes the connection, since the client would not learn of it otherwise.

- v0-2: message sets of format 0 and 1 (produce_legacy.py). v3+: one batch of format 2 per partition.
- v1 throttle time; v2 append time; v5 log start offset; v7 zstd; v8 record errors and message; v9 flexible;
  v10 leader hints (tagged, only in a cluster); v11-12 transactions (KIP-890); v13 topic ids instead of names.

The frame is read by hand, in two steps: first all of it (so that a malformed one changes nothing), then partition by
partition. The reader takes what the schema's takes, and also text that is not UTF-8: such a name is that of no topic.

Where a topic asks for flushes (`flush.messages`), the answer waits until the batch is committed (produce_committed.py).

A compacted topic takes only records with keys. A batch with too many records to look through on the spot is looked
through in a thread, while the connection waits.
"""

from __future__ import annotations

import struct
from time import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.broker.dispatch import handles_frames, wait_for
from ottla.broker.wire import LONGEST_TEXT, read_unsigned, skip_tags, unsigned
from ottla.controller.names import is_internal, why_illegal
from ottla.net.connection import BadFrame, Connection, Parked, Reply
from ottla.protocol.errors import ErrorCode, MalformedMessage
from ottla.replication.partition import NotLookedThrough, Partition
from ottla.replication.refused import Refused

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FLEXIBLE, TOPIC_IDS, FORMAT_2, ZSTD = 9, 13, 3, 7

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_ACKS_TIMEOUT_COUNT = struct.Struct(">hii")
_ACKS_TIMEOUT = struct.Struct(">hi")
_INDEX_LENGTH = struct.Struct(">ii")

# What a partition's answer is when nothing went wrong, and what follows it: no record errors, no message, no tags.
_ANSWER = {
    **dict.fromkeys((0, 1), struct.Struct(">ihq")),
    **dict.fromkeys((2, 3, 4), struct.Struct(">ihqq")),
    **dict.fromkeys((5, 6, 7, 8, 9, 10, 11, 12, 13), struct.Struct(">ihqqq")),
}
_NO_ERRORS = {8: b"\0\0\0\0\xff\xff", **dict.fromkeys((9, 10, 11, 12, 13), b"\1\0\0")}


class Produced(NamedTuple):
    """What happened to one partition's batch."""

    partition: int
    code: int
    base_offset: int = -1
    append_time: int = -1
    log_start: int = -1
    message: str | None = None
    records: tuple[tuple[int, str], ...] = ()


# name or id -> (index, records)
Topics: TypeAlias = list[tuple[bytes, list[tuple[int, memoryview | None]]]]
# acks, timeout, transactional id, topics; a plain tuple, since making one of a class costs as much as reading a field
ProduceRequest: TypeAlias = tuple[int, int, bytes | None, Topics]


@handles_frames("Produce", 0, 13)
def produce(
    broker: Broker, connection: Connection, buffer: memoryview, start: int, end: int, version: int, correlation_id: int
) -> Reply | Parked | None:
    acks, _, _, topics = read_request(buffer[start:end], version)
    if version < FORMAT_2:
        from ottla.broker.handlers.produce_legacy import produce_message_sets

        return produce_message_sets(broker, connection, topics, acks, version, correlation_id)
    if not -1 <= acks <= 1:
        results = refuse_all(topics, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; it may be -1, 0 or 1")
        return write_response(results, version, correlation_id)
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
                try:
                    offset, append_time = partition.append(
                        records, now_ms, all_replicas=acks == -1, zstd=version >= ZSTD
                    )
                except Refused as refusal:
                    answers.append(refused(index, refusal))
                    continue
                except NotLookedThrough:
                    return _go_on_aside(broker, connection, topics, results, acks, now_ms, version, correlation_id)
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


def refused(index: int, refusal: Refused) -> Produced:
    return Produced(index, refusal.code, -1, -1, -1, refusal.message, refusal.records)


def _go_on_aside(
    broker: Broker,
    connection: Connection,
    topics: Topics,
    results: list[tuple[bytes, list[Produced]]],
    acks: int,
    now_ms: int,
    version: int,
    correlation_id: int,
) -> Parked:
    """Take up a request from the batch on that must be looked through in a thread."""
    work = [
        (topic, [(index, None if records is None else bytearray(records)) for index, records in batches])
        for topic, batches in topics
    ]

    async def go_on() -> Reply | None:
        for at, (topic, batches) in enumerate(work):
            if at == len(results):
                results.append((topic, []))
            answers = results[at][1]
            for index, records in batches[len(answers) :]:
                answers.append(await _append_aside(broker, topic, index, records, acks, now_ms, version))
        if acks == 0:
            answer_nothing(results)
            return None
        from ottla.broker.handlers.produce_committed import committed

        await committed(broker, results, version)
        return write_response(results, version, correlation_id)

    return wait_for(connection, go_on())


async def _append_aside(
    broker: Broker,
    topic: bytes,
    index: int,
    records: bytearray | memoryview | None,
    acks: int,
    now_ms: int,
    version: int,
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
        try:
            offset, append_time = partition.append(
                batch, now_ms, all_replicas=acks == -1, zstd=version >= ZSTD, prepared=prepared
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


# -- the bytes ---------------------------------------------------------------------------------------------------


def read_request(frame: memoryview, version: int) -> ProduceRequest:
    try:
        (length,) = _INT16.unpack_from(frame, 8)
        position = 10 + length if length > 0 else 10
        if version >= FLEXIBLE:
            return _read_flexible(frame, position, version)
        return _read_plain(frame, position, version)
    except (struct.error, IndexError):
        raise MalformedMessage(f"the request ends early, after {len(frame)} bytes") from None


def _read_flexible(frame: memoryview, position: int, version: int) -> ProduceRequest:
    end = len(frame)
    tags = frame[position]
    position = position + 1 if not tags else skip_tags(frame, position)
    transactional_id = None
    length = frame[position]
    position += 1
    if length:
        length, position = read_unsigned(frame, position - 1)
        if length > LONGEST_TEXT:
            raise MalformedMessage(f"transactional id of {length - 1} bytes")
        transactional_id = bytes(frame[position : position + length - 1])
        position += length - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topic_count, position = read_unsigned(frame, position + 6)
    topics = []
    if not topic_count:
        raise MalformedMessage("the topics are null")
    for _ in range(topic_count - 1):
        if version >= TOPIC_IDS:
            after = position + 16
        else:
            length = frame[position]
            position += 1
            if length > 127:
                length, position = read_unsigned(frame, position - 1)
            if not 0 < length <= LONGEST_TEXT:
                raise MalformedMessage(f"topic name of {length - 1} bytes")
            after = position + length - 1
        if after > end:
            raise MalformedMessage(f"topic name of {length - 1} bytes, {end - position} are left")
        topic = bytes(frame[position:after])
        batch_count, position = read_unsigned(frame, after)
        if not batch_count:
            raise MalformedMessage("the partitions are null")
        batches: list[tuple[int, memoryview | None]] = []
        for _ in range(batch_count - 1):
            (index,) = _INT32.unpack_from(frame, position)
            length, second = frame[position + 4], frame[position + 5]
            if length >= 128 and second < 128:
                length += (second - 1) << 7  # two bytes: the usual case
                position += 6
            else:
                length, position = read_unsigned(frame, position + 4)
            if length:
                after = position + length - 1
                if after > end:
                    raise MalformedMessage(f"records of {length - 1} bytes, {end - position} are left")
                batches.append((index, frame[position:after]))
                position = after
            else:
                batches.append((index, None))
            position = position + 1 if not frame[position] else skip_tags(frame, position)
        topics.append((topic, batches))
        position = position + 1 if not frame[position] else skip_tags(frame, position)
    position = position + 1 if not frame[position] else skip_tags(frame, position)
    return acks, timeout_ms, transactional_id, topics


def _read_plain(frame: memoryview, position: int, version: int) -> ProduceRequest:
    end = len(frame)
    transactional_id = None
    if version >= FORMAT_2:
        (length,) = _INT16.unpack_from(frame, position)
        position += 2
        if length >= 0:
            transactional_id = bytes(frame[position : position + length])
            position += length
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(frame, position)
    position += 10
    topics = []
    if topic_count < 0:
        raise MalformedMessage("the topics are null")
    for _ in range(topic_count):
        (length,) = _INT16.unpack_from(frame, position)
        position += 2
        after = position + length
        if length < 0 or after > end:
            raise MalformedMessage(f"topic name of {length} bytes, {end - position} are left")
        topic = bytes(frame[position:after])
        (batch_count,) = _INT32.unpack_from(frame, after)
        position = after + 4
        if batch_count < 0:
            raise MalformedMessage("the partitions are null")
        batches: list[tuple[int, memoryview | None]] = []
        for _ in range(batch_count):
            index, length = _INDEX_LENGTH.unpack_from(frame, position)
            position += 8
            if length < 0:
                batches.append((index, None))
                continue
            after = position + length
            if after > end:
                raise MalformedMessage(f"records of {length} bytes, {end - position} are left")
            batches.append((index, frame[position:after]))
            position = after
        topics.append((topic, batches))
    return acks, timeout_ms, transactional_id, topics


def write_single(
    topic: bytes, index: int, offset: int, append_time: int, log_start: int, version: int, correlation_id: int
) -> bytes:
    """The answer when one batch was sent and taken, from version 9 on: nearly all there are."""
    head = _heads.get((topic, version))
    if head is None:
        name = topic if version >= TOPIC_IDS else unsigned(len(topic) + 1) + topic
        if len(_heads) > 1000:
            _heads.clear()
        head = _heads[topic, version] = b"\0\2" + name + b"\2"
    return (
        _SIZE_AND_CORRELATION.pack(len(head) + 4 + _SINGLE.size, correlation_id)
        + head
        + _SINGLE.pack(index, 0, offset, append_time, log_start, 1, 0, 0, 0, 0, 0)
    )


_heads: dict[tuple[bytes, int], bytes] = {}  # (topic, version) -> header tags, one topic, its name, one partition
# the answer, no record errors, no message, tags of partition and topic, throttle time, tags of the response
_SINGLE = struct.Struct(">ihqqqBBBBiB")


def write_response(results: list[tuple[bytes, list[Produced]]], version: int, correlation_id: int) -> bytearray:
    answer_struct = _ANSWER[version]
    fields = 3 if version < 2 else 4 if version < 5 else 5
    no_errors = _NO_ERRORS.get(version, b"")
    flexible = version >= FLEXIBLE
    out = bytearray(8)
    if flexible:
        out.append(0)
        out += unsigned(len(results) + 1)
    else:
        out += _INT32.pack(len(results))
    for topic, answers in results:
        if version >= TOPIC_IDS:
            out += topic
        elif flexible:
            out += unsigned(len(topic) + 1)
            out += topic
        else:
            out += _INT16.pack(len(topic))
            out += topic
        out += unsigned(len(answers) + 1) if flexible else _INT32.pack(len(answers))
        for answer in answers:
            out += answer_struct.pack(*answer[:fields])
            if version >= 8 and answer.code:
                out += _write_errors(answer, flexible)
            else:
                out += no_errors
        if flexible:
            out.append(0)
    if version >= 1:
        out += b"\0\0\0\0"
    if flexible:
        out.append(0)
    _SIZE_AND_CORRELATION.pack_into(out, 0, len(out) - 4, correlation_id)
    return out


_SIZE_AND_CORRELATION = struct.Struct(">ii")


def _write_errors(answer: Produced, flexible: bool) -> bytes:
    out = bytearray()
    out += unsigned(len(answer.records) + 1) if flexible else _INT32.pack(len(answer.records))
    for index, message in answer.records:
        out += _INT32.pack(index) + _text(message, flexible) + (b"\0" if flexible else b"")
    out += _text(answer.message, flexible)
    if flexible:
        out.append(0)
    return bytes(out)


def _text(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    return (unsigned(len(data) + 1) if flexible else _INT16.pack(len(data))) + data
