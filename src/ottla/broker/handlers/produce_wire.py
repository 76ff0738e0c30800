"""The bytes of Produce (0), versions 0-13: its frame into topics and batches, what became of them into an answer.

Written by hand, since Produce is half of what a broker does; a test keeps both equal to the schema's reader and writer.
The reader also takes text that is not UTF-8: such a name is that of no topic.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeAlias

from ottla.broker.wire import LONGEST_TEXT, read_unsigned, skip_tags, unsigned
from ottla.protocol.errors import MalformedMessage

# the first version with each of these
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
