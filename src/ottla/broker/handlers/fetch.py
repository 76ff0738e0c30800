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
- Its bytes are read and written in fetch_wire.py.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.dispatch import handles_frames
from ottla.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchPartition, Session, SessionError
from ottla.broker.handlers.fetch_wire import (
    FORMAT_2,
    SESSIONS,
    TOPIC_IDS,
    ZSTD,
    Fetched,
    FetchRequest,
    read_request,
    write_response,
)
from ottla.net.connection import Connection, Parked, Reply
from ottla.protocol.errors import ErrorCode
from ottla.replication.partition import Partition
from ottla.storage.errors import OffsetOutOfRange, StorageError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

READ_COMMITTED = 1

log = logging.getLogger(__name__)


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
    if size and request.isolation == READ_COMMITTED and log.has_aborted:
        aborted = [(one.producer_id, one.first_offset) for one in log.aborted(wanted.offset, size)]
        return Fetched(wanted, 0, high_watermark, stable, log.start_offset, records, size, None, aborted)
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
        self._timer = broker.loop.call_later(request.max_wait_ms / 1000, self._finish, True)

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

    def _finish(self, time_is_up: bool = False) -> None:
        self._waking = None
        try:
            found, size, urgent = collect(self._broker, self._wanted, self._request, self._version)
            if not (time_is_up or urgent or size) and self._request.isolation == READ_COMMITTED:
                return  # all of it is in transactions that are not decided
            self.cancel()
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
