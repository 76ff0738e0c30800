"""Segments with records in message formats 0 and 1, written anew in format 2: for logs that a Kafka began long ago.

Offsets, keys, values, timestamps and their type stay; a wrapper becomes a batch with the same codec, messages that
stand alone are put together into batches. Batches of format 2 pass as they are. The indexes of the old file do not fit
the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.protocol.batch import CODEC_MASK, CREATE_TIME, LOG_APPEND_TIME, MAGIC, TIMESTAMP_TYPE
from ottla.protocol.legacy import iter_messages
from ottla.protocol.records import Record, build_batch
from ottla.storage.dump import SegmentReader

MAGIC_AT, ATTRIBUTES_AT = 16, 17
UNPACKED_LIMIT = 512 * 1024 * 1024
BATCH_RECORDS = 500
BATCH_BYTES = 256 * 1024


def is_old(segment: Path) -> bool:
    """Whether a `.log` has records of format 0 or 1: formats only rise along a log, so its first batch tells."""
    with SegmentReader(segment) as reader:
        first = next(reader.batches(), None)
    return first is not None and first[1][MAGIC_AT] != MAGIC


def convert(segment: Path) -> Iterator[bytes | bytearray]:
    """The batches of a `.log` in format 2, without a torn one at the end. Raises ProtocolError when one is damaged."""
    alone: list[Record] = []
    size = 0
    kind = (0, CREATE_TIME)  # format and type of timestamps of the messages that stand alone
    with SegmentReader(segment) as reader:
        for _, batch in reader.batches():
            magic, attributes = batch[MAGIC_AT], batch[ATTRIBUTES_AT]
            is_wrapper = magic != MAGIC and attributes & CODEC_MASK
            timestamp_type = LOG_APPEND_TIME if magic == 1 and attributes & TIMESTAMP_TYPE else CREATE_TIME
            full = len(alone) >= BATCH_RECORDS or size + len(batch) > BATCH_BYTES
            # A LogAppendTime batch has one timestamp for all.
            if alone and (full or magic == MAGIC or is_wrapper or kind != (magic, CREATE_TIME) or timestamp_type):
                yield _batch(alone, kind[1])
                alone, size = [], 0
            if magic == MAGIC:
                yield batch
            elif is_wrapper:
                yield _batch(list(iter_messages(batch, UNPACKED_LIMIT)), timestamp_type, attributes & CODEC_MASK)
            else:
                alone += iter_messages(batch, UNPACKED_LIMIT)
                size += len(batch)
                kind = (magic, timestamp_type)
    if alone:
        yield _batch(alone, kind[1])


def _batch(records: list[Record], timestamp_type: int, codec: int = 0) -> bytearray:
    return build_batch(records, base_offset=records[0].offset, codec=codec, timestamp_type=timestamp_type)
