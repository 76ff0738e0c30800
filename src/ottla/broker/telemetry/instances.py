"""Client instances: who pushes metrics, what each was asked for, and when it may come again (KIP-714).

An instance is one client (a producer, a consumer, an admin client) in one process. The broker that it asks first gives
it an id of 16 bytes (it asks with zeros); it keeps the id for its life, whichever broker it talks to.

    get    the id                           ->  what to push and how often
    push   metrics for what was asked for   ->  taken, or why not

    refused with                  when
    INVALID_REQUEST               a push without an id; anything behind a push that was `terminating`
    THROTTLING_QUOTA_EXCEEDED     a get or push sooner than the interval after the last. Let through is the first push
                                  after a get (clients put it off by a random part of the interval), a get after an
                                  error that tells the client to ask again, and a last push
    UNKNOWN_SUBSCRIPTION_ID       it was asked for something else meanwhile; it should ask again
    UNSUPPORTED_COMPRESSION_TYPE  a codec that Kafka does not have; it should ask again
    TELEMETRY_TOO_LARGE           more than telemetry.max.bytes

Changed subscriptions are worked out anew when the instance comes next, and then it may come at once. An instance that
is silent for three intervals, and at least a minute, is forgotten, as is the one silent for longest when there are more
than MAX_INSTANCES.

A plain object: time goes in as milliseconds that never run backwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.broker.telemetry.subscriptions import Attributes, Subscription, Wanted, wanted_of
from ottla.protocol import compression
from ottla.protocol.errors import ErrorCode

MAX_INSTANCES = 16_384
EXPIRY_MS = 60_000
NO_ID = bytes(16)
RESERVED_IDS = (NO_ID, bytes(15) + b"\1")
ACCEPTED_CODECS = (compression.ZSTD, compression.LZ4, compression.GZIP, compression.SNAPPY)  # the best first

_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@dataclass(slots=True)
class ClientInstance:
    id: bytes
    attributes: Attributes
    wanted: Wanted
    version: int  # of the subscriptions that `wanted` was made from
    last_seen: int
    last_get: int | None = None
    last_push: int | None = None
    last_error: ErrorCode = ErrorCode.NONE
    terminating: bool = False

    @property
    def expires(self) -> int:
        return self.last_seen + max(EXPIRY_MS, 3 * self.wanted.interval_ms)


class ClientInstances:
    """`max_bytes` is the largest push, `most` how many instances are remembered."""

    def __init__(self, max_bytes: int, most: int = MAX_INSTANCES) -> None:
        self.max_bytes = max_bytes
        self.asked = self.throttled = 0  # since the start
        self._most = most
        self._instances: dict[bytes, ClientInstance] = {}  # the one silent for longest comes first
        self._subscriptions: dict[str, Subscription] = {}
        self._version = 0

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def subscribe(self, subscriptions: Mapping[str, Subscription]) -> None:
        """From now on these hold."""
        self._subscriptions = dict(subscriptions)
        self._version += 1

    def get(self, instance_id: bytes, attributes: Attributes, now: int) -> tuple[ErrorCode, ClientInstance]:
        instance = self._find(instance_id, attributes, now)
        waited = self._since(now, instance.last_get, instance.last_push)
        if waited is not None and waited < instance.wanted.interval_ms and instance.last_error not in _ASK_AGAIN:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED, instance
        self.asked += 1
        instance.last_get = now
        instance.last_error = ErrorCode.NONE
        return ErrorCode.NONE, instance

    def push(
        self,
        instance_id: bytes,
        attributes: Attributes,
        now: int,
        *,
        subscription_id: int,
        terminating: bool,
        codec: int,
        size: int,
    ) -> tuple[ErrorCode, ClientInstance | None]:
        if instance_id in RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST, None
        instance = self._find(instance_id, attributes, now)
        error = self._judge(instance, now, subscription_id, terminating, codec, size)
        instance.last_error = error
        instance.terminating = instance.terminating or terminating
        return error, instance

    def _judge(
        self, instance: ClientInstance, now: int, subscription_id: int, terminating: bool, codec: int, size: int
    ) -> ErrorCode:
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        asked_since = instance.last_get is not None and (
            instance.last_push is None or instance.last_get > instance.last_push
        )
        waited = self._since(now, instance.last_push)
        if asked_since or waited is None or waited >= instance.wanted.interval_ms:
            instance.last_push = now
        elif not terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.wanted.id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not compression.NONE <= codec <= compression.ZSTD:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if size > self.max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def expire(self, now: int) -> list[bytes]:
        """Forget those that were silent for too long; returns their ids."""
        gone = [instance.id for instance in self._instances.values() if instance.expires <= now]
        for instance_id in gone:
            del self._instances[instance_id]
        return gone

    def _find(self, instance_id: bytes, attributes: Attributes, now: int) -> ClientInstance:
        instance = self._instances.pop(instance_id, None)
        if instance is None:
            wanted = wanted_of(instance_id, attributes, self._subscriptions)
            instance = ClientInstance(instance_id, attributes, wanted, self._version, now)
            if len(self._instances) >= self._most:
                del self._instances[next(iter(self._instances))]
        elif instance.version < self._version:
            instance.wanted = wanted_of(instance_id, instance.attributes, self._subscriptions)
            instance.version = self._version
            instance.last_get = instance.last_push = None
        self._instances[instance_id] = instance
        instance.last_seen = now
        return instance

    @staticmethod
    def _since(now: int, *moments: int | None) -> int | None:
        past = [moment for moment in moments if moment is not None]
        return now - max(past) if past else None
