"""The bytes of Fetch (1), versions 0-18: its frame into a FetchRequest, what was found into the parts of an answer.

Written by hand, since Fetch is half of what a broker does; a test keeps both equal to the schema's reader and writer.
The reader also takes text that is not UTF-8 (the name of no topic), and does not look into tagged fields other than the
replica's number.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.broker.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchPartition
from ottla.broker.wire import LONGEST_TEXT, read_unsigned, skip_tags, unsigned
from ottla.protocol.errors import MalformedMessage
from ottla.storage.file import FileSlice

# the first version with each of these
FORMAT_2, SESSIONS, LEADER_EPOCHS, ZSTD, RACK, FLEXIBLE, TOPIC_IDS, REPLICA_STATE_TAGGED = 4, 7, 9, 10, 11, 12, 13, 15

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_ABORTED = struct.Struct(">qq")
_SIZE_AND_CORRELATION = struct.Struct(">ii")

# replica id (to v14), max wait, min bytes, max bytes (v3), isolation (v4), session id and epoch (v7)
_HEADS = {
    **dict.fromkeys((0, 1, 2), struct.Struct(">iii")),
    3: struct.Struct(">iiii"),
    **dict.fromkeys((4, 5, 6), struct.Struct(">iiiib")),
    **dict.fromkeys((7, 8, 9, 10, 11, 12, 13, 14), struct.Struct(">iiiibii")),
    **dict.fromkeys((15, 16, 17, 18), struct.Struct(">iiibii")),
}
# index, leader epoch (v9), offset, last fetched epoch (v12), log start (v5), max bytes
_PARTITIONS = {
    **dict.fromkeys((0, 1, 2, 3, 4), struct.Struct(">iqi")),
    **dict.fromkeys((5, 6, 7, 8), struct.Struct(">iqqi")),
    **dict.fromkeys((9, 10, 11), struct.Struct(">iiqqi")),
    **dict.fromkeys((12, 13, 14, 15, 16, 17, 18), struct.Struct(">iiqiqi")),
}
# index, error, high watermark, last stable offset (v4), log start (v5)
_ANSWERS = {
    **dict.fromkeys((0, 1, 2, 3), struct.Struct(">ihq")),
    4: struct.Struct(">ihqq"),
    **dict.fromkeys(range(5, 19), struct.Struct(">ihqqq")),
}


class FetchRequest(NamedTuple):
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[tuple[bytes, int]]


class Fetched(NamedTuple):
    """What there is for one partition."""

    wanted: FetchPartition
    code: int
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    records: bytes | FileSlice | None = None
    size: int = 0
    diverging: tuple[int, int] | None = None
    aborted: list[tuple[int, int]] | None = None  # producer id and first offset of transactions

    def release(self) -> None:
        """The records will not be sent."""
        if isinstance(self.records, FileSlice):
            self.records.close()


def read_request(frame: memoryview, version: int) -> FetchRequest:
    try:
        (length,) = _INT16.unpack_from(frame, 8)
        position = 10 + length if length > 0 else 10
        if version >= FLEXIBLE:
            position = position + 1 if not frame[position] else skip_tags(frame, position)
        head = _HEADS[version]
        fields = head.unpack_from(frame, position)
        position += head.size
        session_id, session_epoch, isolation, max_bytes = NO_SESSION, FINAL_EPOCH, 0, 0x7FFFFFFF
        if version >= REPLICA_STATE_TAGGED:
            replica_id = -1
            max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = fields
        elif version >= SESSIONS:
            replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = fields
        elif version >= FORMAT_2:
            replica_id, max_wait_ms, min_bytes, max_bytes, isolation = fields
        elif version == 3:
            replica_id, max_wait_ms, min_bytes, max_bytes = fields
        else:
            replica_id, max_wait_ms, min_bytes = fields
        if version >= FLEXIBLE:
            partitions, forgotten, position, replica_id = _read_flexible(frame, position, version, replica_id)
        else:
            partitions, forgotten, position = _read_plain(frame, position, version)
    except (struct.error, IndexError):
        raise MalformedMessage(f"the request ends early, after {len(frame)} bytes") from None
    if position > len(frame):
        raise MalformedMessage(f"the request ends early, after {len(frame)} bytes")
    return FetchRequest(
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, partitions, forgotten
    )


def _read_flexible(
    frame: memoryview, position: int, version: int, replica_id: int
) -> tuple[list[FetchPartition], list[tuple[bytes, int]], int, int]:
    partition_struct = _PARTITIONS[version]
    partition_size = partition_struct.size
    partitions = []
    count, position = _count(frame, position)
    for _ in range(count):
        topic, position = _topic(frame, position, version)
        inner, position = _count(frame, position)
        for _ in range(inner):
            index, leader_epoch, offset, last_epoch, _, max_bytes = partition_struct.unpack_from(frame, position)
            position += partition_size
            position = position + 1 if not frame[position] else skip_tags(frame, position)
            partitions.append(FetchPartition(topic, index, offset, max_bytes, leader_epoch, last_epoch))
        position = position + 1 if not frame[position] else skip_tags(frame, position)
    forgotten = []
    count, position = _count(frame, position)
    for _ in range(count):
        topic, position = _topic(frame, position, version)
        inner, position = _count(frame, position)
        indexes = struct.unpack_from(f">{inner}i", frame, position) if inner * 4 <= len(frame) - position else None
        if indexes is None:
            raise MalformedMessage(f"{inner} forgotten partitions in {len(frame) - position} bytes")
        forgotten += [(topic, index) for index in indexes]
        position += inner * 4
        position = position + 1 if not frame[position] else skip_tags(frame, position)
    rack, position = read_unsigned(frame, position)
    if not 0 < rack <= LONGEST_TEXT:
        raise MalformedMessage(f"rack of {rack - 1} bytes")
    position += rack - 1
    if not frame[position]:
        return partitions, forgotten, position + 1, replica_id
    if version >= REPLICA_STATE_TAGGED:
        replica_id = _replica_id(frame, position)
    return partitions, forgotten, skip_tags(frame, position), replica_id


def _replica_id(frame: memoryview, position: int) -> int:
    """The replica's number in the tagged ReplicaState (tag 1); -1 when a consumer asks."""
    count, position = read_unsigned(frame, position)
    for _ in range(count):
        tag, position = read_unsigned(frame, position)
        size, position = read_unsigned(frame, position)
        if tag == 1 and size >= 4:
            return int(_INT32.unpack_from(frame, position)[0])
        position += size
    return -1


def _count(frame: memoryview, position: int) -> tuple[int, int]:
    count, position = read_unsigned(frame, position)
    if not count:
        raise MalformedMessage("an array is null")
    return count - 1, position


def _topic(frame: memoryview, position: int, version: int) -> tuple[bytes, int]:
    if version >= TOPIC_IDS:
        after = position + 16
    else:
        length, position = read_unsigned(frame, position)
        if not 0 < length <= LONGEST_TEXT:
            raise MalformedMessage(f"topic name of {length - 1} bytes")
        after = position + length - 1
    if after > len(frame):
        raise MalformedMessage(f"topic name of {after - position} bytes, {len(frame) - position} are left")
    return bytes(frame[position:after]), after


def _read_plain(
    frame: memoryview, position: int, version: int
) -> tuple[list[FetchPartition], list[tuple[bytes, int]], int]:
    partition_struct = _PARTITIONS[version]
    partitions = []
    (count,) = _INT32.unpack_from(frame, position)
    position += 4
    if count < 0:
        raise MalformedMessage("the topics are null")
    for _ in range(count):
        topic, inner, position = _plain_topic(frame, position)
        for _ in range(inner):
            fields = partition_struct.unpack_from(frame, position)
            position += partition_struct.size
            leader_epoch = fields[1] if version >= LEADER_EPOCHS else -1
            offset = fields[2] if version >= LEADER_EPOCHS else fields[1]
            partitions.append(FetchPartition(topic, fields[0], offset, fields[-1], leader_epoch, -1))
    forgotten = []
    if version >= SESSIONS:
        (count,) = _INT32.unpack_from(frame, position)
        position += 4
        if count < 0:
            raise MalformedMessage("the forgotten topics are null")
        for _ in range(count):
            topic, inner, position = _plain_topic(frame, position)
            if inner * 4 > len(frame) - position:
                raise MalformedMessage(f"{inner} forgotten partitions in {len(frame) - position} bytes")
            forgotten += [(topic, index) for index in struct.unpack_from(f">{inner}i", frame, position)]
            position += inner * 4
    if version >= RACK:
        (length,) = _INT16.unpack_from(frame, position)
        if length < 0:
            raise MalformedMessage("the rack is null")
        position += 2 + length
    return partitions, forgotten, position


def _plain_topic(frame: memoryview, position: int) -> tuple[bytes, int, int]:
    """A topic's name, the length of the array behind it, and where that begins."""
    (length,) = _INT16.unpack_from(frame, position)
    position += 2
    after = position + length
    if length < 0 or after > len(frame):
        raise MalformedMessage(f"topic name of {length} bytes, {len(frame) - position} are left")
    (count,) = _INT32.unpack_from(frame, after)
    if count < 0:
        raise MalformedMessage("an array is null")
    return bytes(frame[position:after]), count, after + 4


def write_response(
    found: list[Fetched], version: int, correlation_id: int, error: int = 0, session_id: int = NO_SESSION
) -> list[bytes | bytearray | FileSlice]:
    """The answer as parts: bytes of ours, and the records between them."""
    flexible = version >= FLEXIBLE
    answer_struct = _ANSWERS[version]
    stop = 3 if version < 4 else 4 if version == 4 else 5
    out = bytearray(8)
    parts: list[bytes | bytearray | FileSlice] = []
    size = 0  # of all parts so far
    if flexible:
        out += b"\0\0\0\0\0"  # header tags, throttle time
    elif version >= 1:
        out += b"\0\0\0\0"
    if version >= SESSIONS:
        out += _INT16.pack(error)
        out += _INT32.pack(session_id)
    topics = _by_topic(found)
    out += unsigned(len(topics) + 1) if flexible else _INT32.pack(len(topics))
    for topic, partitions in topics:
        if version >= TOPIC_IDS:
            out += topic
        else:
            out += unsigned(len(topic) + 1) if flexible else _INT16.pack(len(topic))
            out += topic
        out += unsigned(len(partitions) + 1) if flexible else _INT32.pack(len(partitions))
        for one in partitions:
            out += answer_struct.pack(one.wanted.index, *one[1:stop])
            if flexible:
                if one.aborted:
                    out += unsigned(len(one.aborted) + 1)
                    for transaction in one.aborted:
                        out += _ABORTED.pack(*transaction) + b"\0"
                    out += b"\xff\xff\xff\xff"
                else:
                    out += b"\1\xff\xff\xff\xff"  # no aborted transactions, no preferred replica
                out += unsigned(one.size + 1)
            else:
                if version >= FORMAT_2:
                    out += _INT32.pack(len(one.aborted or ()))
                    for transaction in one.aborted or ():
                        out += _ABORTED.pack(*transaction)
                if version >= RACK:
                    out += b"\xff\xff\xff\xff"
                out += _INT32.pack(one.size)
            if one.size:
                assert one.records is not None
                parts += (out, one.records)
                size += len(out) + one.size
                out = bytearray()
            if flexible:
                if one.diverging:
                    out += b"\1\0\x0d" + struct.pack(">iqb", *one.diverging, 0)
                else:
                    out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    parts.append(out)
    _SIZE_AND_CORRELATION.pack_into(parts[0], 0, size + len(out) - 4, correlation_id)  # type: ignore[arg-type]
    return parts


def _by_topic(found: list[Fetched]) -> list[tuple[bytes, list[Fetched]]]:
    topics: list[tuple[bytes, list[Fetched]]] = []
    for one in found:
        if topics and topics[-1][0] == one.wanted.topic:
            topics[-1][1].append(one)
        else:
            topics.append((one.wanted.topic, [one]))
    return topics
