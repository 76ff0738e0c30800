"""Batches packed anew in the codec that their topic asks for (`compression.type`, KIP-390).

A batch that has that codec already stays as it is, whatever its level; `producer` takes what comes. The rest of the
header stays, but for length and CRC.
"""

from __future__ import annotations

from ottla.config.topic import TopicConfig
from ottla.protocol.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    Buffer,
    read_sound_header,
    seal,
)
from ottla.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, DecompressionTooLarge, compress
from ottla.protocol.records import payload
from ottla.protocol.spans import iter_spans

CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


def wanted_codec(config: TopicConfig) -> int | None:
    """The codec of batches on disk; None when it is the producer's."""
    return CODECS.get(config.compression_type)


def compression_levels(config: TopicConfig) -> list[int | None]:
    """The level of each codec, by its number."""
    levels: list[int | None] = [None] * len(CODECS)
    levels[GZIP] = config.compression_gzip_level
    levels[LZ4] = config.compression_lz4_level
    levels[ZSTD] = config.compression_zstd_level
    return levels


def recompressed(batch: Buffer, codec: int, level: int | None, limit: int) -> bytearray:
    """The batch in another codec. Its records are looked through, since nobody could tell later who broke them.

    DecompressionTooLarge when they unpack to more than `limit`; CorruptBatch when they do not fit the header.
    """
    header = read_sound_header(batch)
    data = payload(batch, header, limit)
    if len(data) > limit:
        raise DecompressionTooLarge(header.codec, limit)  # it was not packed at all
    for _ in iter_spans(data, header.record_count, header.last_offset_delta):
        pass  # raises where something is wrong
    records = compress(codec, data, level)
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(records)
    attributes = header.attributes & ~CODEC_MASK | codec
    made = bytearray(HEADER.pack(header.base_offset, length, *header[2:5], attributes, *header[6:]))
    made += records
    seal(made, 0, len(made))
    return made
