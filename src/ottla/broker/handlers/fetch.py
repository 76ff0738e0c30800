"""Fetch (1), versions 0-18.

Records of several partitions, from given offsets on. The answer waits until there are `min_bytes` or `max_wait_ms` is
over; it comes at once when a partition has an error. A byte limit counts per partition and in all; the first batch
found is sent however large it is (v3+), so that a consumer always gets on. Records go from the file to the socket as
they are.

- v0-3: format 0 and 1 are made of what is stored (fetch_legacy.py). v4+: format 2; read_committed. v5 log start.
- v7 fetch sessions; v9 leader epochs; v10 zstd; v11 rack (one replica: nothing to choose); v12 flexible, diverging
  epochs; v13 topic ids; v15 replica state is tagged; v16 leader hints (tagged, only in a cluster); v18 the replica's
  watermark.
- Consumers see records up to the high watermark, with read_committed up to the last stable offset. Asking between
  those and the end of the log gives an empty answer, not an error (A2 INT-036).
- The frame is read by hand. The reader takes what the schema's takes, and also text that is not UTF-8 (the name of no
  topic); it does not look into tagged fields other than the replica's number.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.dispatch import handles_frames
from ottla.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchPartition, Session, SessionError
from ottla.broker.wire import LONGEST_TEXT, read_unsigned, skip_tags, unsigned
from ottla.net.connection import Connection, Parked, Reply
from ottla.protocol.errors import ErrorCode, MalformedMessage
from ottla.replication.partition import Partition
from ottla.storage.errors import OffsetOutOfRange, StorageError
from ottla.storage.file import FileSlice

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FORMAT_2, SESSIONS, LEADER_EPOCHS, ZSTD, RACK, FLEXIBLE, TOPIC_IDS, REPLICA_STATE_TAGGED = 4, 7, 9, 10, 11, 12, 13, 15
READ_COMMITTED = 1

log = logging.getLogger(__name__)

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
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

    def release(self) -> None:
        """The records will not be sent."""
        if isinstance(self.records, FileSlice):
            self.records.close()


@handles_frames("Fetch", 0, 18)
def fetch(
    broker: Broker, connection: Connection, buffer: memoryview, start: int, end: int, version: int, correlation_id: int
) -> Reply | Parked | None:
    request = read_request(buffer[start:end], version)
    wanted: list[FetchPartition] | dict[tuple[bytes, int], FetchPartition] = request.partitions
    session, is_incremental = None, False
    if version >= SESSIONS and not (request.session_id == NO_SESSION and request.session_epoch == FINAL_EPOCH):
        try:
            session, is_incremental = _session(broker, request, version)
        except SessionError as error:
            return write_response([], version, correlation_id, error.code, NO_SESSION)
        if is_incremental:
            wanted = session.partitions if session else {}
    if isinstance(wanted, dict):
        wanted = list(wanted.values())
    found, size, urgent = collect(broker, wanted, request, version)
    if size >= request.min_bytes or urgent or request.max_wait_ms <= 0 or not wanted:
        return answer(broker, connection, request, found, version, correlation_id, session, is_incremental)
    for one in found:
        one.release()
    return ParkedFetch(broker, connection, request, wanted, version, correlation_id, session, is_incremental, size)


def _session(broker: Broker, request: FetchRequest, version: int) -> tuple[Session | None, bool]:
    """The session of this request, and whether its answer says only what changed."""
    sessions, uses_ids = broker.fetch_sessions, version >= TOPIC_IDS
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        session = sessions.resume(request.session_id, request.session_epoch, uses_ids)
        session.update(request.partitions, request.forgotten)
        return session, True
    if request.session_id != NO_SESSION:
        sessions.end(request.session_id)
    if request.session_epoch == FINAL_EPOCH:
        return None, False
    return sessions.begin(request.partitions, uses_ids), False


def collect(
    broker: Broker, wanted: list[FetchPartition], request: FetchRequest, version: int
) -> tuple[list[Fetched], int, bool]:
    """What there is to send now, how many bytes, and whether it must not wait."""
    topics = broker.replicas.by_id if version >= TOPIC_IDS else broker.replicas.by_name
    left = min(request.max_bytes, broker.config.fetch_max_bytes)
    total, urgent = 0, False
    read = read_partition
    if version < FORMAT_2:
        from ottla.broker.handlers.fetch_legacy import read_for_old_client as read
    found = []
    for one in wanted:
        partitions = topics.get(one.topic)
        if partitions is None or not 0 <= one.index < len(partitions):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if partitions is None and version >= TOPIC_IDS:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            found.append(Fetched(one, code))
            urgent = True
            continue
        result = read(partitions[one.index], one, request, min(one.max_bytes, left), total == 0 and version >= 3)
        found.append(result)
        total += result.size
        left = max(0, left - result.size)
        if result.code or result.diverging:
            urgent = True
    return found, total, urgent


def read_partition(
    partition: Partition, wanted: FetchPartition, request: FetchRequest, limit: int, at_least_one: bool
) -> Fetched:
    if partition.offline is not None:
        return Fetched(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    epoch = wanted.leader_epoch
    if epoch != partition.leader_epoch and epoch >= 0:
        fenced = epoch < partition.leader_epoch
        return Fetched(wanted, ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH)
    log = partition.log
    high_watermark, stable = partition.high_watermark, partition.last_stable_offset
    if wanted.last_epoch >= 0:
        known, epoch_end = log.epochs.end_offset(wanted.last_epoch, log.end_offset)
        if known < 0:
            return Fetched(wanted, ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark, stable, log.start_offset)
        if known < wanted.last_epoch or epoch_end < wanted.offset:
            return Fetched(wanted, 0, high_watermark, stable, log.start_offset, None, 0, (known, epoch_end))
    visible = stable if request.isolation == READ_COMMITTED else high_watermark
    try:
        if log.start_offset <= visible <= wanted.offset <= log.end_offset:
            return Fetched(wanted, 0, high_watermark, stable, log.start_offset)
        records, size = log.read(wanted.offset, limit, visible, at_least_one)
    except OffsetOutOfRange:
        return Fetched(wanted, ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark, stable, log.start_offset)
    except (OSError, StorageError) as error:
        log.failed(error)
        return Fetched(wanted, ErrorCode.KAFKA_STORAGE_ERROR, high_watermark, stable, log.start_offset)
    return Fetched(wanted, 0, high_watermark, stable, log.start_offset, records, size)


class ParkedFetch(Parked):
    """A fetch that waits for records. Each append to one of its partitions counts towards `min_bytes`."""

    __slots__ = (
        "_broker",
        "_correlation_id",
        "_is_incremental",
        "_partitions",
        "_request",
        "_session",
        "_size",
        "_timer",
        "_version",
        "_waking",
        "_wanted",
    )

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        request: FetchRequest,
        wanted: list[FetchPartition],
        version: int,
        correlation_id: int,
        session: Session | None,
        is_incremental: bool,
        size: int,
    ) -> None:
        self.connection = connection
        self._broker = broker
        self._request = request
        self._wanted = wanted
        self._version = version
        self._correlation_id = correlation_id
        self._session = session
        self._is_incremental = is_incremental
        self._size = size
        self._waking: asyncio.Handle | None = None
        topics = broker.replicas.by_id if version >= TOPIC_IDS else broker.replicas.by_name
        self._partitions = [topics[one.topic][one.index] for one in wanted]
        for partition in self._partitions:
            partition.waiters.add(self)
        self._timer = broker.loop.call_later(request.max_wait_ms / 1000, self._finish)

    def appended(self, size: int) -> None:
        self._size += size
        if self._size >= self._request.min_bytes and self._waking is None:
            # Not here and now: what else arrives with this turn of the loop goes out in the same answer.
            self._waking = self._broker.loop.call_soon(self._finish)

    def cancel(self) -> None:
        self._timer.cancel()
        if self._waking is not None:
            self._waking.cancel()
        for partition in self._partitions:
            partition.waiters.discard(self)

    def _finish(self) -> None:
        self.cancel()
        try:
            found, _, _ = collect(self._broker, self._wanted, self._request, self._version)
            reply = answer(
                self._broker,
                self.connection,
                self._request,
                found,
                self._version,
                self._correlation_id,
                self._session,
                self._is_incremental,
            )
        except Exception:
            log.exception("a fetch that waited failed; this is a bug")
            self.connection.abandon(self, "internal error")
            return
        if isinstance(reply, Parked):
            self.connection.exchange(self, reply)
        else:
            self.connection.answer(self, reply)


def answer(
    broker: Broker,
    connection: Connection,
    request: FetchRequest,
    found: list[Fetched],
    version: int,
    correlation_id: int,
    session: Session | None,
    is_incremental: bool,
) -> Reply | Parked:
    if version < ZSTD:
        from ottla.broker.handlers.fetch_legacy import convert_for_old_client, without_zstd

        if version < FORMAT_2:
            return convert_for_old_client(broker, connection, request, found, version, correlation_id)
        found = [without_zstd(broker, one) for one in found]
    if session is not None:
        session.put_last([one.wanted for one in found if one.size])
        found = [one for one in found if _is_news(one) or not is_incremental]
    return write_response(found, version, correlation_id, 0, session.id if session else NO_SESSION)


def _is_news(found: Fetched) -> bool:
    """Whether a session's client does not know this yet; notes what it is told."""
    said = found.wanted
    news = bool(
        found.size
        or found.code
        or found.diverging
        or said.said_error
        or found.high_watermark != said.said_high_watermark
        or found.log_start != said.said_start
    )
    said.said_high_watermark, said.said_start, said.said_error = found.high_watermark, found.log_start, found.code
    return news


# -- the bytes ---------------------------------------------------------------------------------------------------


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
                out += b"\1\xff\xff\xff\xff"  # no aborted transactions, no preferred replica
                out += unsigned(one.size + 1)
            else:
                if version >= FORMAT_2:
                    out += b"\0\0\0\0"
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
