"""A partition on the broker that leads it: checks what producers send, and wakes those who wait for records.

A batch is opaque. Its 61-byte header and its CRC are looked at, its records only where the topic asks for it: a
compacted topic takes no record without a key, and `compression.type` may ask for another codec. If there are many,
`append` leaves that to its caller: it raises NotLookedThrough, and is called again with what `prepare` makes of the
batch. What is refused, and how (A2 INT-028, notes of KIP-467):

    not format 2, more or less than one batch, impossible counts, control      INVALID_RECORD
    wrong length or CRC                                                        CORRUPT_MESSAGE
    larger than max.message.bytes, as stored                                   MESSAGE_TOO_LARGE
    larger than a whole segment                                                RECORD_LIST_TOO_LARGE
    a timestamp too far from the broker's clock                                INVALID_TIMESTAMP
    an unknown codec, zstd from a client that cannot know it                   UNSUPPORTED_COMPRESSION_TYPE
    fewer replicas in sync than min.insync.replicas, with acks=all             NOT_ENOUGH_REPLICAS
    a producer's epoch or sequence                                             see storage/producers.py

A transactional batch needs a transaction that the coordinator knows of. With read_committed, consumers see what lies
below the last stable offset, where the oldest undecided transaction begins.

With one replica, a record is committed when it is written, or flushed where the topic asks for it (commit.py): that is
the high watermark.
"""

from __future__ import annotations

from typing import Protocol

from ottla.config.topic import TopicConfig
from ottla.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
    CorruptBatch,
    crc32c,
    set_max_timestamp,
)
from ottla.protocol.compression import ZSTD, DecompressionTooLarge
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.records import keys_missing
from ottla.replication.commit import Commit
from ottla.replication.refused import Refused
from ottla.storage.errors import StorageError
from ottla.storage.flush import LogFlusher
from ottla.storage.log import Log
from ottla.storage.producers import CoordinatorFenced, InvalidProducerEpoch, OutOfOrderSequence
from ottla.storage.recompression import compression_levels, recompressed, wanted_codec

MAX_LONG = (1 << 63) - 1
SMALL_BATCH, SMALL_PAYLOAD = 64 * 1024, 256 * 1024  # looked through on the spot: as sent, and unpacked
SMALL_PACKED = 16 * 1024  # and packed anew on the spot
ATTRIBUTES = CRC_START + 1  # their lower byte
MARKER_SIZE = 78  # of the batch that ends a transaction
PAYLOAD_LIMIT = 128 * 1024 * 1024  # that a batch may unpack to where its records must be looked at


class NotLookedThrough(Exception):
    """The records must be looked at, and that would take too long here."""


class Waiter(Protocol):
    """Somebody who waits for records of this partition."""

    def appended(self, size: int) -> None: ...


class Partition:
    __slots__ = (
        "commit",
        "config",
        "flusher",
        "high_watermark",
        "index",
        "is_internal",
        "isr_size",
        "last_stable_offset",
        "leader_epoch",
        "log",
        "offline",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self, topic: str, topic_id: bytes, index: int, log: Log, leader_epoch: int, *, is_internal: bool
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.config: TopicConfig = log.config
        self.leader_epoch = leader_epoch
        self.is_internal = is_internal
        self.isr_size = 1
        self.last_stable_offset = 0
        self.advance(log.end_offset)
        self.offline: str | None = None  # why nobody can use it
        self.waiters: set[Waiter] = set()
        self.commit: Commit | None = None
        self.flusher: LogFlusher | None = None

    def flush_with(self, flusher: LogFlusher) -> None:
        """Take part in group commit: appends wait for `flusher` where `flush.messages` asks for it."""
        self.flusher = flusher
        flusher.on_done = self._flushed
        self.configure(self.config)
        if self.log.end_offset - self.log.recovery_point >= self.config.flush_messages:
            flusher.request(self.log.end_offset)  # left by a crash

    def configure(self, config: TopicConfig) -> None:
        """The topic's settings have changed."""
        self.config = config
        self.log.configure(config)
        if self.commit is None and self.flusher is not None and config.flush_messages < MAX_LONG:
            self.commit = Commit(self, self.flusher)

    def _flushed(self) -> None:
        if self.commit is not None:
            self.commit.flushed()

    def close(self) -> None:
        """The topic is deleted: who waits for records, or for their being committed, learns it at once."""
        self._end(Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is deleted"))

    def take_offline(self, reason: str) -> None:
        """Nobody can use it any more until the next start; those who wait learn it at once."""
        self.offline = reason
        self._end(Refused(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        self.log.abandon()

    def _end(self, refusal: Refused) -> None:
        if self.flusher is not None:
            self.flusher.close()
        if self.commit is not None:
            self.commit.refuse(refusal)
        self.wake(1 << 62)

    def wake(self, size: int) -> None:
        for waiter in tuple(self.waiters):
            waiter.appended(size)

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.start_offset

    def append(
        self,
        batch: memoryview,
        now_ms: int,
        *,
        all_replicas: bool,
        zstd: bool,
        prepared: bool = False,
        in_transaction: bool = False,
        by_broker: bool = False,
    ) -> tuple[int, int]:
        """Write what a producer sent. Returns its first offset and its append time (-1: records keep their own).

        `zstd`: the producer may know that codec. `prepared`: this is what `prepare` has made of what was sent.
        `in_transaction`: the coordinator knows of a transaction of this producer on this partition. `by_broker`: a
        coordinator writes to its own topic, for a producer's transaction perhaps; it has no sequence numbers.
        """
        if self.offline is not None:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)
        size = len(batch)
        config = self.config
        if size < HEADER_SIZE:
            raise Refused(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a record batch")
        header = HEADER.unpack_from(batch)
        (
            _,
            length,
            _,
            magic,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            timestamp,
            producer_id,
            epoch,
            first,
            count,
        ) = header
        if size > config.max_message_bytes:
            raise Refused(
                ErrorCode.MESSAGE_TOO_LARGE, f"batch of {size} bytes; max.message.bytes is {config.max_message_bytes}"
            )
        if length != size - LENGTH_OVERHEAD or magic != MAGIC:
            raise self._misshapen(size, length, magic)
        if crc != crc32c(batch[CRC_START:]):
            raise Refused(ErrorCode.CORRUPT_MESSAGE, "the batch's CRC does not fit its bytes")
        if count <= 0 or last_delta != count - 1:
            raise Refused(ErrorCode.INVALID_RECORD, f"{count} records, last offset delta {last_delta}")
        if attributes & (CONTROL | TRANSACTIONAL | TIMESTAMP_TYPE) or attributes & CODEC_MASK >= ZSTD:
            self._check_attributes(attributes, zstd or prepared, in_transaction or by_broker)
        if all_replicas and self.isr_size < config.min_insync_replicas:
            raise Refused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.isr_size} replicas in sync; min.insync.replicas is {config.min_insync_replicas}",
            )
        if producer_id >= 0 and by_broker:
            self._check_epoch(producer_id, epoch)
        elif producer_id >= 0:
            if first < 0:
                raise Refused(ErrorCode.INVALID_RECORD, f"producer {producer_id} sent no sequence number")
            duplicate = self._check_sequence(producer_id, epoch, first, (first + last_delta) & 0x7FFFFFFF)
            if duplicate is not None:
                return duplicate
            if producer_id in self.log.producers.open and not attributes & TRANSACTIONAL:
                raise Refused(ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has a transaction open here")
        if size > config.segment_bytes:
            raise Refused(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"batch of {size} bytes; segment.bytes is {config.segment_bytes}"
            )
        if (
            (config.compression_type != "producer" or "compact" in config.cleanup_policy)
            and not prepared
            and not by_broker
        ):
            batch, was = self._prepare_small(batch), batch
            if batch is not was:
                return self.append(
                    batch, now_ms, all_replicas=all_replicas, zstd=True, prepared=True, in_transaction=in_transaction
                )
        append_time = -1
        if config.message_timestamp_type == "CreateTime":
            self._check_timestamps(base_timestamp, timestamp, now_ms)
        else:
            append_time = timestamp = now_ms
            set_max_timestamp(batch, 0, now_ms)
        try:
            base_offset = self.log.append(batch, self.leader_epoch, header, timestamp)
        except (StorageError, OSError) as error:
            self.log.failed(error)
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if self.commit is not None:
            self.commit.appended(size)
            return base_offset, append_time
        self.high_watermark = self.last_stable_offset = self.log.end_offset
        if self.log.producers.open:
            self._find_stable()
        if self.waiters:
            self.wake(size)
        return base_offset, append_time

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, commit: bool, now_ms: int
    ) -> int:
        """Write the marker of a producer's transaction; returns the offset behind it."""
        if self.offline is not None:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)
        log = self.log
        try:
            log.producers.check_marker(producer_id, epoch, coordinator_epoch)
            log.append_marker(producer_id, epoch, coordinator_epoch, self.leader_epoch, commit=commit, now_ms=now_ms)
        except InvalidProducerEpoch as error:
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, str(error)) from None
        except CoordinatorFenced as error:
            raise Refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED, str(error)) from None
        except (StorageError, OSError) as error:
            log.failed(error)
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if self.commit is not None:
            self.commit.appended(MARKER_SIZE)
        else:
            self.advance(log.end_offset)
            self.wake(MARKER_SIZE)
        return log.end_offset

    def advance(self, high_watermark: int) -> None:
        """All below is committed."""
        self.high_watermark = high_watermark
        self._find_stable()

    def _find_stable(self) -> None:
        """Transactions that began before the log does are no more to be seen, decided or not."""
        stable = self.log.producers.stable_below(self.high_watermark)
        self.last_stable_offset = max(stable, min(self.log.start_offset, self.high_watermark))

    def delete_records(self, offset: int) -> int:
        """Let the log begin at `offset`, or at the high watermark for -1. Returns where it begins now."""
        if self.is_internal:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker deletes records of {self.topic}")
        if "delete" not in self.config.cleanup_policy:
            raise Refused(ErrorCode.POLICY_VIOLATION, "cleanup.policy of the topic does not have delete")
        wanted = self.high_watermark if offset == -1 else offset
        if not 0 <= wanted <= self.high_watermark:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset}; the high watermark is {self.high_watermark}")
        self.log.move_start(wanted)
        self._find_stable()
        return self.log.start_offset

    # -- checks --------------------------------------------------------------------------------------------------

    def _misshapen(self, size: int, length: int, magic: int) -> Refused:
        if magic != MAGIC:
            return Refused(ErrorCode.INVALID_RECORD, f"message format {magic}; this request takes format 2 only")
        if HEADER_SIZE <= length + LENGTH_OVERHEAD < size:
            return Refused(ErrorCode.INVALID_RECORD, "a request carries one batch for each partition")
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} in {size} bytes")

    def _check_attributes(self, attributes: int, zstd: bool, in_transaction: bool) -> None:
        if attributes & CONTROL:
            raise Refused(ErrorCode.INVALID_RECORD, "clients may not write control records")
        if attributes & TRANSACTIONAL and not in_transaction:
            message = "a batch of a transaction, and the request has no transactional id"
            raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message)
        if attributes & TIMESTAMP_TYPE and self.config.message_timestamp_type == "CreateTime":
            raise Refused(ErrorCode.INVALID_TIMESTAMP, "a producer may not claim LogAppendTime")
        codec = attributes & CODEC_MASK
        if codec > ZSTD:
            raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {codec}")
        if codec == ZSTD and not zstd:
            raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")

    def _check_sequence(self, producer_id: int, epoch: int, first: int, last: int) -> tuple[int, int] | None:
        try:
            known = self.log.producers.check(producer_id, epoch, first, last)
        except InvalidProducerEpoch as error:
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, str(error)) from None
        except OutOfOrderSequence as error:
            raise Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, str(error)) from None
        if known is None:
            return None
        return known if self.config.message_timestamp_type == "LogAppendTime" else (known[0], -1)

    def _check_epoch(self, producer_id: int, epoch: int) -> None:
        try:
            self.log.producers.check_epoch(producer_id, epoch)
        except InvalidProducerEpoch as error:
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, str(error)) from None

    def _prepare_small(self, batch: memoryview) -> memoryview:
        if len(batch) > SMALL_BATCH:
            raise NotLookedThrough
        try:
            return self.prepare(batch, packs_up_to=SMALL_PACKED, unpacks_up_to=SMALL_PAYLOAD)
        except DecompressionTooLarge:
            raise NotLookedThrough from None

    def prepare(
        self, batch: memoryview, *, packs_up_to: int = PAYLOAD_LIMIT, unpacks_up_to: int = PAYLOAD_LIMIT
    ) -> memoryview:
        """What is to be written: the batch as it is, or packed anew in the topic's codec. May run in any thread.

        Refuses a batch that has a record without a key where the topic is compacted. DecompressionTooLarge when it
        unpacks to more than the smaller limits of work that is done on the spot.
        """
        config = self.config
        limit = unpacks_up_to
        try:
            if "compact" in config.cleanup_policy:
                keyless = keys_missing(batch, limit)
                if keyless is not None:
                    message = "a compacted topic takes no record without a key"
                    raise Refused(ErrorCode.INVALID_RECORD, message, ((keyless, message),))
            codec = wanted_codec(config)
            if codec is None or batch[ATTRIBUTES] & CODEC_MASK == codec:
                return batch
            limit = packs_up_to
            return memoryview(recompressed(batch, codec, compression_levels(config)[codec], limit))
        except ProtocolError as error:
            if isinstance(error, DecompressionTooLarge) and limit < PAYLOAD_LIMIT:
                raise
            code = ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptBatch) else ErrorCode.INVALID_RECORD
            raise Refused(code, str(error)) from None

    def _check_timestamps(self, base: int, largest: int, now_ms: int) -> None:
        """KIP-937. Records without a timestamp (-1, from message format 0) are not judged."""
        before, after = self.config.message_timestamp_before_max_ms, self.config.message_timestamp_after_max_ms
        if before < MAX_LONG and 0 <= base < now_ms - before:
            raise Refused(ErrorCode.INVALID_TIMESTAMP, f"timestamp {base} is more than {before} ms old")
        if largest > now_ms + after:
            raise Refused(ErrorCode.INVALID_TIMESTAMP, f"timestamp {largest} is more than {after} ms ahead")
