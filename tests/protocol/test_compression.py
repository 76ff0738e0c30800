import gzip as stdlib_gzip
import random
import struct
import subprocess
import sys
import textwrap
import tracemalloc
import zlib

import aiokafka.codec
import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol import compression
from ottla.protocol.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    CorruptCompression,
    DecompressionTooLarge,
    UnsupportedCodec,
    compress,
    decompress,
)

PACKERS = [GZIP, SNAPPY, LZ4, ZSTD]
MIB = 1024 * 1024
TEXT = b"".join(b"line %d of some text that packs well\n" % i for i in range(5000))
NOISE = random.Random(1).randbytes(200_000)

packers = pytest.mark.parametrize("codec", PACKERS, ids=lambda codec: compression.NAMES[codec])


def lz4_blocks(frame: bytes) -> list[int]:
    """Sizes of the blocks of an lz4 frame with block checksums and nothing else in its header."""
    sizes = []
    pos = 7
    while size := int.from_bytes(frame[pos : pos + 4], "little") & 0x7FFFFFFF:
        sizes.append(size)
        pos += 4 + size + 4
    assert pos + 4 == len(frame)
    return sizes


def zstd_bomb(blocks: int, window_log: int = 17) -> bytes:
    """A frame of run-length blocks, each of 4 bytes unpacking to 128 KiB; no content size in its header."""
    frame = bytearray(b"\x28\xb5\x2f\xfd\x00") + bytes(((window_log - 10) << 3,))
    for i in range(blocks):
        frame += ((128 * 1024) << 3 | 1 << 1 | (i == blocks - 1)).to_bytes(3, "little") + b"x"
    return bytes(frame)


BOMBS = {
    "gzip": (GZIP, stdlib_gzip.compress(bytes(32 * MIB), 6)),
    "gzip members": (GZIP, stdlib_gzip.compress(bytes(MIB // 2)) * 64),
    "snappy raw": (SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(32 * MIB)))),
    "snappy blocks": (SNAPPY, compress(SNAPPY, bytes(32 * MIB))),
    "lz4": (LZ4, compress(LZ4, bytes(32 * MIB))),
    "lz4 frames": (LZ4, compress(LZ4, bytes(MIB // 2)) * 64),
    "zstd": (ZSTD, bytes(cramjam.zstd.compress(bytes(32 * MIB), level=3))),
    "zstd run lengths": (ZSTD, zstd_bomb(8192)),
    "zstd, widest window": (ZSTD, zstd_bomb(8192, 27)),
}
bombs = pytest.mark.parametrize(("codec", "bomb"), BOMBS.values(), ids=BOMBS.keys())


@packers
@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE], ids=["empty", "one byte", "text", "noise"])
def test_what_is_packed_unpacks_to_itself(codec: int, data: bytes) -> None:
    for given_as in (data, bytearray(data), memoryview(data)):
        packed = compress(codec, given_as)
        assert type(packed) is bytes
        assert decompress(codec, packed, len(data)) == data
        assert decompress(codec, memoryview(packed), 10 * MIB) == data


def test_codec_none_passes_bytes_through_up_to_the_limit() -> None:
    assert decompress(NONE, compress(NONE, bytearray(b"abc")), 3) == b"abc"
    with pytest.raises(DecompressionTooLarge):
        decompress(NONE, b"abc", 2)


@packers
@given(data=st.binary(max_size=500), repeat=st.integers(1, 300))
def test_any_data_survives_packing(codec: int, data: bytes, repeat: int) -> None:
    assert decompress(codec, compress(codec, data * repeat), len(data) * repeat) == data * repeat


@packers
def test_one_byte_over_the_limit_is_too_large(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(DecompressionTooLarge) as caught:
        decompress(codec, packed, len(TEXT) - 1)
    assert caught.value.limit == len(TEXT) - 1


@bombs
def test_a_bomb_is_too_large_and_takes_little_memory(codec: int, bomb: bytes) -> None:
    decompress(codec, compress(codec, b"warm"), 10)
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionTooLarge):
            decompress(codec, bomb, MIB)
        assert tracemalloc.get_traced_memory()[1] < 3 * MIB
    finally:
        tracemalloc.stop()


def test_bombs_do_not_make_the_process_grow() -> None:
    """The codecs allocate outside of Python's sight, so the kernel is asked, in a process of its own."""
    script = """
        import resource, sys
        from ottla.protocol.compression import DecompressionTooLarge, compress, decompress
        cases = eval(sys.stdin.read())
        for codec, _ in cases:
            decompress(codec, compress(codec, b"warm"), 10)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for codec, bomb in cases * 3:
            try:
                decompress(codec, bomb, 1 << 20)
            except DecompressionTooLarge:
                continue
            raise SystemExit("not stopped")
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        input=repr(list(BOMBS.values())),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 8 * 1024  # KiB; the bombs would take 32 MiB and more


@packers
def test_memory_follows_what_is_produced_not_the_limit(codec: int) -> None:
    packed = compress(codec, b"small" * 10)
    decompress(codec, packed, 1000)
    tracemalloc.start()
    try:
        decompress(codec, packed, 10**12)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [10**6, 2**32 - 1])
def test_a_snappy_block_that_claims_more_than_snappy_can_pack_is_corrupt_before_any_allocation(size: int) -> None:
    claim = bytearray()
    while size > 127:
        claim.append(size & 127 | 128)
        size >>= 7
    claim.append(size)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCompression, match="claims"):
            decompress(SNAPPY, claim + b"\x00x", 2**40)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


@packers
def test_concatenated_frames_are_read_as_one(codec: int) -> None:
    packed = compress(codec, TEXT) + compress(codec, b"") + compress(codec, b"end")
    assert decompress(codec, packed, MIB) == TEXT + b"end"


@packers
def test_every_truncation_is_corrupt(codec: int) -> None:
    packed = compress(codec, b"some words, some words, some more words" * 3)
    # A xerial stream may end after any block, so also right after its header.
    whole = {16} if codec == SNAPPY else set()
    for cut in set(range(len(packed))) - whole:
        with pytest.raises(CorruptCompression):
            decompress(codec, packed[:cut], MIB)


@packers
def test_garbage_after_the_data_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptCompression, match=compression.NAMES[codec]):
        decompress(codec, compress(codec, b"data") + b"garbage garbage", MIB)


@packers
@given(data=st.binary(max_size=300))
def test_any_bytes_unpack_or_are_refused_by_name(codec: int, data: bytes) -> None:
    for broken in (False, True):
        try:
            assert len(decompress(codec, data, 10_000, broken_lz4_header=broken)) <= 10_000
        except (CorruptCompression, DecompressionTooLarge):
            pass


@packers
@given(data=st.data())
def test_mutated_data_unpacks_or_is_refused_by_name(codec: int, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:3000]))
    for position, value in data.draw(st.dictionaries(st.integers(0, len(packed) - 1), st.integers(0, 255))).items():
        packed[position] = value
    try:
        assert len(decompress(codec, packed, 10_000)) <= 10_000
    except (CorruptCompression, DecompressionTooLarge):
        pass


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_kafka_does_not_have_are_unsupported(codec: int) -> None:
    with pytest.raises(UnsupportedCodec, match=str(codec)):
        decompress(codec, b"abc", 100)
    with pytest.raises(UnsupportedCodec, match=str(codec)):
        compress(codec, b"abc")


def test_gzip_is_what_every_gzip_reads() -> None:
    assert stdlib_gzip.decompress(compress(GZIP, TEXT)) == TEXT
    assert decompress(GZIP, stdlib_gzip.compress(TEXT), MIB) == TEXT


def test_snappy_is_written_in_xerial_framing_with_32_kib_blocks() -> None:
    packed = compress(SNAPPY, bytes(70_000))
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    unpacked, pos = [], 16
    while pos < len(packed):
        (length,) = struct.unpack_from(">i", packed, pos)
        unpacked.append(len(bytes(cramjam.snappy.decompress_raw(packed[pos + 4 : pos + 4 + length]))))
        pos += 4 + length
    assert unpacked == [32768, 32768, 70_000 - 65536]


def test_raw_snappy_is_read_too() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), MIB) == TEXT


@pytest.mark.parametrize(
    "tail", [b"\x00\x00\x00", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\x82SNAPPX\x00" + bytes(8)]
)
def test_a_broken_xerial_block_is_corrupt(tail: bytes) -> None:
    with pytest.raises(CorruptCompression, match="snappy"):
        decompress(SNAPPY, compress(SNAPPY, b"abc") + tail, MIB)


def test_a_snappy_limit_counts_all_blocks_together() -> None:
    packed = compress(SNAPPY, bytes(40_000))
    assert len(decompress(SNAPPY, packed, 40_000)) == 40_000
    with pytest.raises(DecompressionTooLarge):
        decompress(SNAPPY, packed, 39_999)


@pytest.mark.parametrize("level", [None, 1, 9, 12, 17])
def test_lz4_frames_have_independent_blocks_of_at_most_64_kib(level: int | None) -> None:
    frame = compress(LZ4, NOISE, level)
    flags, block_size = frame[4], frame[5]
    assert flags >> 6 == 1  # version
    assert flags & 0x20  # blocks are independent: Java's client refuses others
    assert not flags & 0x09  # no content size, no dictionary
    assert block_size == 0x40
    assert max(lz4_blocks(frame)) <= 64 * 1024
    assert len(lz4_blocks(frame)) == 4


def test_lz4_frames_with_linked_blocks_and_content_checksum_are_read() -> None:
    frame = bytes(cramjam.lz4.compress(TEXT))
    assert not frame[4] & 0x20
    assert decompress(LZ4, frame, MIB) == TEXT


def test_lz4_of_format_0_has_its_header_checksum_over_the_magic_too() -> None:
    frame = compress(LZ4, TEXT, broken_lz4_header=True)
    right = compress(LZ4, TEXT)
    assert frame[:6] == right[:6]
    assert frame[6] != right[6]
    assert frame[7:] == right[7:]
    assert decompress(LZ4, frame, MIB, broken_lz4_header=True) == TEXT
    assert decompress(LZ4, right, MIB, broken_lz4_header=True) == TEXT
    with pytest.raises(CorruptCompression):
        decompress(LZ4, frame, MIB)


@pytest.mark.parametrize(("header", "right", "broken"), [("04224d186040", 0x82, 0x1A), ("04224d187040", 0xAD, None)])
def test_header_checksums_are_those_that_java_writes(header: str, right: int, broken: int | None) -> None:
    data = bytes.fromhex(header)
    assert compression._xxh32(data[4:]) >> 8 & 0xFF == right
    if broken is not None:
        assert compression._xxh32(data) >> 8 & 0xFF == broken


def test_zstd_frames_without_content_size_are_read() -> None:
    assert decompress(ZSTD, zstd_bomb(3), MIB) == b"x" * (3 * 128 * 1024)


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, [-1, 1, 9]), (LZ4, [1, 9, 17]), (ZSTD, [-131072, -5, 1, 22])])
def test_every_level_of_kip_390_packs(codec: int, levels: list[int]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), MIB) == TEXT


@pytest.mark.parametrize(("codec", "low", "high"), [(GZIP, 1, 9), (LZ4, 1, 12), (ZSTD, -100, 19)])
def test_a_higher_level_packs_tighter(codec: int, low: int, high: int) -> None:
    text = b"".join(b"%d %x\n" % (i * i % 977, i) for i in range(20_000))
    assert len(compress(codec, text, high)) < len(compress(codec, text, low))


@pytest.mark.parametrize(("codec", "level"), [(GZIP, 0), (GZIP, 10), (LZ4, 0), (LZ4, 18), (ZSTD, 23), (ZSTD, -131073)])
def test_a_level_that_the_codec_does_not_have_is_refused(codec: int, level: int) -> None:
    with pytest.raises(ValueError, match="legal are"):
        compress(codec, b"abc", level)


@packers
def test_packed_data_is_read_by_aiokafka_and_the_other_way_round(codec: int) -> None:
    name = compression.NAMES[codec]
    encode, decode = getattr(aiokafka.codec, f"{name}_encode"), getattr(aiokafka.codec, f"{name}_decode")
    assert decode(compress(codec, TEXT)) == TEXT
    assert decompress(codec, bytes(encode(TEXT)), MIB) == TEXT


def test_importing_the_codecs_does_not_load_cramjam() -> None:
    script = "import sys, ottla.protocol.records, ottla.protocol.legacy; sys.exit('cramjam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_gzip_without_wrapping_header_is_corrupt() -> None:
    with pytest.raises(CorruptCompression, match="gzip"):
        decompress(GZIP, zlib.compress(TEXT), MIB)
