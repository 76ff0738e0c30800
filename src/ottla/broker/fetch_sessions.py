"""Fetch sessions (KIP-227): the broker remembers what a consumer fetches, and answers only what has changed.

    request                            means
    id 0,  epoch -1                    no session, fetch all that is listed
    id 0,  epoch 0                     the same, and begin a session with it
    id n,  epoch e                     the session's partitions, changed by those listed and those forgotten
    id n,  epoch -1                    end session n, fetch all that is listed
    id n,  epoch 0                     end session n, begin another

The epoch counts a session's requests: e must be one more than the last. A session that is not used makes room for a
new one when the cache is full (`max.incremental.fetch.session.cache.slots`): one is put out if it has been idle for
two minutes, or is smaller than the new one and has been kept for two minutes. When none can be, the client gets no
session (id 0).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from time import monotonic

from ottla.protocol.errors import ErrorCode

MIN_EVICTION_SECONDS = 120.0
NO_SESSION, FINAL_EPOCH, INITIAL_EPOCH = 0, -1, 0


class FetchPartition:
    """What is wanted of one partition, and what was last said about it."""

    __slots__ = (
        "index",
        "last_epoch",
        "leader_epoch",
        "max_bytes",
        "offset",
        "said_error",
        "said_high_watermark",
        "said_start",
        "topic",
    )

    def __init__(
        self, topic: bytes, index: int, offset: int, max_bytes: int, leader_epoch: int, last_epoch: int
    ) -> None:
        self.topic = topic  # name or id, as on the wire
        self.index = index
        self.offset = offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_epoch = last_epoch
        self.said_high_watermark = -1
        self.said_start = -1
        self.said_error = 0


class Session:
    __slots__ = ("created", "epoch", "id", "last_used", "partitions", "uses_ids")

    def __init__(self, session_id: int, partitions: Iterable[FetchPartition], uses_ids: bool, now: float) -> None:
        self.id = session_id
        self.epoch = 1
        self.partitions = {(one.topic, one.index): one for one in partitions}
        self.uses_ids = uses_ids
        self.created = self.last_used = now

    def update(self, changed: Iterable[FetchPartition], forgotten: Iterable[tuple[bytes, int]]) -> None:
        partitions = self.partitions
        for one in changed:
            known = partitions.get((one.topic, one.index))
            if known is None:
                partitions[one.topic, one.index] = one
            else:
                known.offset, known.max_bytes = one.offset, one.max_bytes
                known.leader_epoch, known.last_epoch = one.leader_epoch, one.last_epoch
        for key in forgotten:
            partitions.pop(key, None)

    def put_last(self, served: list[FetchPartition]) -> None:
        """Who got records waits behind the others next time, so that a byte limit starves nobody."""
        for one in served:
            # One that is no longer here was forgotten by a later request, while this one waited.
            if self.partitions.pop((one.topic, one.index), None) is not None:
                self.partitions[one.topic, one.index] = one


class SessionError(Exception):
    """The session asked for is not there, or not at that epoch; the client starts again with a full fetch."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessions:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.evicted = 0
        self._sessions: dict[int, Session] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(self, session_id: int, epoch: int, uses_ids: bool) -> Session:
        """The session of an incremental fetch, its epoch counted on."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise SessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            raise SessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == 0x7FFFFFFF else epoch + 1
        session.last_used = monotonic()
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session

    def end(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def begin(self, partitions: list[FetchPartition], uses_ids: bool) -> Session | None:
        """A new session, or None when there is no room for it."""
        if not partitions or not self._make_room(len(partitions)):
            return None
        session_id = random.randrange(1, 1 << 31)
        while session_id in self._sessions:
            session_id = random.randrange(1, 1 << 31)
        session = self._sessions[session_id] = Session(session_id, partitions, uses_ids, monotonic())
        return session

    def _make_room(self, size: int) -> bool:
        if len(self._sessions) < self.slots:
            return True
        now = monotonic()
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now - oldest.last_used > MIN_EVICTION_SECONDS:
            victim: Session | None = oldest
        else:
            victim = min(
                (
                    one
                    for one in self._sessions.values()
                    if len(one.partitions) < size and now - one.created > MIN_EVICTION_SECONDS
                ),
                key=lambda one: len(one.partitions),
                default=None,
            )
        if victim is None:
            return False
        del self._sessions[victim.id]
        self.evicted += 1
        return True
