"""The codecs of record batches and wrapper messages, bounded when unpacking.

    id codec   what we write                                          what we read
    1  gzip    one member                                             any number of members
    2  snappy  xerial framing, blocks of 32 KiB                       xerial framing, or one raw snappy block
    3  lz4     one frame, independent blocks of 64 KiB (Java's        any frames, linked blocks too
               client refuses linked ones), block checksums
    4  zstd    one frame                                              any number of frames

Xerial framing is what snappy-java writes: magic 82 'SNAPPY' 00, int32 version 1, int32 oldest compatible version 1,
then per block an int32 length and that many bytes of raw snappy. Streams may be concatenated.

Message format 0 has lz4 frames whose header checksum was taken over the frame's magic too (KAFKA-3160). Old clients
check it that way, so it is written so for them (`broken_lz4_header`); when reading such a frame the checksum does not
count.

Unpacking never holds more than a few times what was really produced, nor more than about twice `limit`, whatever sizes
the data claims: the output buffer starts at a small multiple of the input and grows fourfold until the data fits or the
limit is passed. Levels are those of KIP-390.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ottla.protocol.batch import Buffer, CorruptBatch
from ottla.protocol.errors import ProtocolError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

GZIP_DEFAULT_LEVEL = -1
LZ4_DEFAULT_LEVEL = 9
ZSTD_DEFAULT_LEVEL = 3
LEVELS = {GZIP: range(1, 10), LZ4: range(1, 18), ZSTD: range(-131072, 23)}

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024
_XERIAL_MAGIC_HEAD = int.from_bytes(XERIAL_MAGIC[:4], "big")
_SNAPPY_MAX_RATIO = 22  # a copy of 64 bytes takes 3: no raw block can grow more than 21.3-fold
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_UINT32 = struct.Struct(">I")


class CorruptCompression(CorruptBatch):
    """Compressed bytes that do not unpack."""

    def __init__(self, codec: int, why: object) -> None:
        super().__init__(f"{NAMES[codec]} data: {why}")
        self.codec = codec


class DecompressionTooLarge(ProtocolError):
    """Compressed bytes that unpack to more than `limit` bytes."""

    def __init__(self, codec: int, limit: int) -> None:
        super().__init__(f"{NAMES[codec]} data unpacks to more than {limit} bytes")
        self.codec = codec
        self.limit = limit


class UnsupportedCodec(ProtocolError):
    """A codec id that Kafka does not have, or not in this message format."""

    def __init__(self, codec: int, where: str = "record batches") -> None:
        super().__init__(f"codec {NAMES[codec] if codec < len(NAMES) else codec} is not one of {where}")
        self.codec = codec


def compress(codec: int, data: Buffer, level: int | None = None, *, broken_lz4_header: bool = False) -> bytes:
    """`data` packed. `level` None is the codec's default; a level it does not have is a ValueError."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP and level == GZIP_DEFAULT_LEVEL:
        level = None
    if level is not None and codec in LEVELS and level not in LEVELS[codec]:
        levels = LEVELS[codec]
        raise ValueError(f"{NAMES[codec]} level {level}: legal are {levels[0]} to {levels[-1]}")
    if codec == GZIP:
        from cramjam import gzip

        return bytes(gzip.compress(data, level=level))
    if codec == SNAPPY:
        return _compress_xerial(data)
    if codec == LZ4:
        from cramjam import lz4

        # Kafka takes level 9, its default, to mean the fast compressor and every other one the thorough one.
        fast = level is None or level == LZ4_DEFAULT_LEVEL
        stream = lz4.Compressor(level=1 if fast else level, content_checksum=False, block_linked=False)
        stream.compress(bytes(data))  # takes nothing but bytes
        frame = bytes(stream.finish())
        return _with_header_checksum(frame, over_magic=True) if broken_lz4_header else frame
    if codec == ZSTD:
        from cramjam import zstd

        return bytes(zstd.compress(data, level=ZSTD_DEFAULT_LEVEL if level is None else level))
    raise UnsupportedCodec(codec)


def decompress(codec: int, data: Buffer, limit: int, *, broken_lz4_header: bool = False) -> bytes:
    """`data` unpacked. Raises CorruptCompression, DecompressionTooLarge or UnsupportedCodec, nothing else."""
    if codec == NONE:
        if len(data) > limit:
            raise DecompressionTooLarge(codec, limit)
        return bytes(data)
    if codec == GZIP:
        from cramjam import gzip

        return _grow(codec, gzip.decompress_into, data, limit)
    if codec == SNAPPY:
        return _decompress_snappy(data, limit)
    if codec == LZ4:
        from cramjam import lz4

        if broken_lz4_header:
            data = _with_header_checksum(bytes(data), over_magic=False)
        return _grow(codec, lz4.decompress_into, data, limit)
    if codec == ZSTD:
        from cramjam import zstd

        return _grow(codec, zstd.decompress_into, data, limit)
    raise UnsupportedCodec(codec)


def _grow(codec: int, decompress_into: Callable[[Any, Any], int], data: Buffer, limit: int) -> bytes:
    from cramjam import DecompressionError

    size = min(4 * len(data) + 1024, limit)
    while True:
        out = bytearray(size)
        try:
            produced = decompress_into(data, out)
        except DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise CorruptCompression(codec, error) from None
        else:
            return bytes(memoryview(out)[:produced])
        if size >= limit:
            raise DecompressionTooLarge(codec, limit)
        del out  # before the next one is made
        size = min(4 * size, limit)


def _compress_xerial(data: Buffer) -> bytes:
    from cramjam import snappy

    parts = [XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + XERIAL_BLOCK]))
        parts.append(_UINT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_raw_snappy(view, limit, limit)
    blocks: list[bytes] = []
    left, pos, end = limit, 0, len(view)
    while pos < end:
        if end - pos < 4:
            raise CorruptCompression(SNAPPY, "cut off in a block length")
        (length,) = _UINT32.unpack_from(view, pos)
        if length == _XERIAL_MAGIC_HEAD:
            if view[pos : pos + len(XERIAL_MAGIC)] != XERIAL_MAGIC or end - pos < len(XERIAL_HEADER):
                raise CorruptCompression(SNAPPY, "broken xerial header")
            pos += len(XERIAL_HEADER)
            continue
        pos += 4
        if length > end - pos:
            raise CorruptCompression(SNAPPY, f"block of {length} bytes, {end - pos} left")
        block = _decompress_raw_snappy(view[pos : pos + length], left, limit)
        left -= len(block)
        blocks.append(block)
        pos += length
    return b"".join(blocks)


def _decompress_raw_snappy(view: memoryview, left: int, limit: int) -> bytes:
    from cramjam import DecompressionError, snappy

    try:
        size = snappy.decompress_raw_len(view)
        if size > _SNAPPY_MAX_RATIO * len(view):
            raise CorruptCompression(SNAPPY, f"block of {len(view)} bytes claims to unpack to {size}")
        if size > left:
            raise DecompressionTooLarge(SNAPPY, limit)
        out = bytearray(size)
        produced = snappy.decompress_raw_into(view, out)
    except DecompressionError as error:
        raise CorruptCompression(SNAPPY, error) from None
    return bytes(memoryview(out)[:produced])


def _with_header_checksum(frame: bytes, *, over_magic: bool) -> bytes:
    """The lz4 frame with its header's checksum as KAFKA-3160 has it (over the magic too), or as it should be."""
    if frame[:4] != _LZ4_MAGIC or len(frame) < 7:
        return frame
    flags = frame[4]
    at = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if len(frame) <= at:
        return frame
    checksum = _xxh32(frame[0 if over_magic else 4 : at]) >> 8 & 0xFF
    return frame[:at] + bytes((checksum,)) + frame[at + 1 :]


def _xxh32(data: bytes) -> int:
    """xxHash-32, seed 0. For frame headers, so only for what its short form covers: less than 16 bytes."""
    mask, p1, p2, p3, p4, p5 = 0xFFFFFFFF, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    h = p5 + len(data)
    words = len(data) // 4 * 4
    for i in range(0, words, 4):
        h = (h + int.from_bytes(data[i : i + 4], "little") * p3) & mask
        h = (h << 17 | h >> 15) * p4 & mask
    for byte in data[words:]:
        h = (h + byte * p5) & mask
        h = (h << 11 | h >> 21) * p1 & mask
    h = (h ^ h >> 15) * p2 & mask
    h = (h ^ h >> 13) * p3 & mask
    return h ^ h >> 16
