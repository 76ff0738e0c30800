import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol import batch
from ottla.protocol.batch import BatchHeader, CorruptBatch, UnsupportedMagic
from ottla.protocol.errors import ProtocolError


def raw_batch(payload: bytes = b"", **fields: int) -> bytearray:
    """A batch packed here, field by field, with a right CRC unless one is given."""
    header = BatchHeader(
        base_offset=40,
        batch_length=49 + len(payload),
        partition_leader_epoch=3,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=1,
        base_timestamp=1000,
        max_timestamp=2000,
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
        record_count=2,
    )._replace(**fields)
    buf = bytearray(batch.HEADER.pack(*header) + payload)
    if "crc" not in fields:
        struct.pack_into(">I", buf, 17, batch.crc_of(buf, 0, len(buf)))
    return buf


def test_the_header_takes_61_bytes_and_its_fields_come_back_in_order() -> None:
    buf = raw_batch(b"payload", attributes=0x14)
    header = batch.check(buf)
    assert batch.HEADER_SIZE == 61
    assert header == batch.read_header(buf)
    assert (header.base_offset, header.partition_leader_epoch, header.magic) == (40, 3, 2)
    assert (header.last_offset, header.next_offset, header.size) == (41, 42, len(buf))
    assert (header.codec, header.is_transactional, header.is_control, header.timestamp_type) == (4, True, False, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (9, 1, 5, 2)


def test_the_crc_is_castagnoli_over_everything_after_itself() -> None:
    assert batch.crc_of(b"\0" * 21 + b"123456789", 0, 30) == 0xE3069283  # the check value of CRC-32C


def test_every_attribute_bit_has_its_name() -> None:
    header = batch.read_header(raw_batch(attributes=0x7A))
    assert (header.codec, header.timestamp_type) == (2, 1)
    assert header.is_transactional
    assert header.is_control
    assert header.has_delete_horizon


@pytest.mark.parametrize(
    ("base_sequence", "delta", "last"), [(5, 1, 6), (-1, 1, -1), (2**31 - 1, 1, 0), (2**31 - 2, 1, 2**31 - 1)]
)
def test_sequence_numbers_wrap_to_zero(base_sequence: int, delta: int, last: int) -> None:
    assert batch.read_header(raw_batch(base_sequence=base_sequence, last_offset_delta=delta)).last_sequence == last


def test_place_in_the_log_can_be_assigned_without_touching_the_crc() -> None:
    buf = raw_batch(b"xyz")
    before = batch.check(buf)
    batch.assign(memoryview(buf), 0, 2**40, 77)
    after = batch.check(buf)
    assert (after.base_offset, after.partition_leader_epoch, after.crc) == (2**40, 77, before.crc)
    assert after[5:] == before[5:]


def test_log_append_time_sets_type_and_max_timestamp_and_renews_the_crc() -> None:
    buf = bytearray(b"before") + raw_batch(b"xyz", attributes=0x10) + b"after"
    batch.set_max_timestamp(memoryview(buf), 6, 123456)
    header = batch.check(buf, 6)
    assert (header.attributes, header.max_timestamp, header.base_timestamp) == (0x18, 123456, 1000)
    assert buf.startswith(b"before")
    assert buf.endswith(b"xyzafter")


def test_any_changed_byte_behind_the_crc_is_found() -> None:
    good = raw_batch(b"some payload")
    for position in range(21, len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x10
        with pytest.raises(CorruptBatch):
            batch.check(bad)


def test_a_batch_is_found_at_a_position_with_bytes_around_it() -> None:
    buf = b"??" + raw_batch(b"abc") + b"more"
    assert batch.check(memoryview(buf), 2).size == len(buf) - 6


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 16, 17, 60, 61, 63])
def test_a_cut_off_batch_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptBatch, match="batch"):
        batch.check(raw_batch(b"abc")[:cut])


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 53, 2**31 - 1])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatch, match=f"length {length}"):
        batch.check(raw_batch(b"abc", batch_length=length))


@pytest.mark.parametrize(("count", "delta"), [(-1, 0), (3, 1), (0, -1), (2**31 - 1, 5), (1, -(2**31))])
def test_counts_that_contradict_each_other_are_corrupt(count: int, delta: int) -> None:
    with pytest.raises(CorruptBatch, match="records"):
        batch.check(raw_batch(record_count=count, last_offset_delta=delta))


def test_compaction_may_leave_fewer_records_than_offsets_or_none() -> None:
    assert batch.check(raw_batch(record_count=0, last_offset_delta=99)).next_offset == 140


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_another_message_format_is_named_even_when_too_short_for_a_header(magic: int) -> None:
    for buf in (raw_batch(magic=magic), raw_batch(magic=magic)[:17]):
        with pytest.raises(UnsupportedMagic) as caught:
            batch.check(buf)
        assert caught.value.magic == magic


def test_the_errors_are_protocol_errors() -> None:
    assert issubclass(CorruptBatch, ProtocolError)
    assert issubclass(UnsupportedMagic, CorruptBatch)


def test_batches_are_iterated_with_their_positions() -> None:
    first, second = raw_batch(b"abc"), raw_batch(b"", base_offset=42)
    found = list(batch.iter_batches(bytes(first + second)))
    assert [(pos, header.base_offset) for pos, header in found] == [(0, 40), (len(first), 42)]
    assert list(batch.iter_batches(b"")) == []


def test_a_cut_off_last_batch_is_corrupt_unless_it_may_be_partial() -> None:
    first, second = raw_batch(b"abc"), raw_batch(b"defg")
    for cut in range(1, len(second)):
        buf = first + second[:cut]
        with pytest.raises(CorruptBatch):
            list(batch.iter_batches(buf))
        assert [pos for pos, _ in batch.iter_batches(buf, partial=True)] == [0]


def test_a_batch_with_an_impossible_length_is_corrupt_also_when_partial() -> None:
    with pytest.raises(CorruptBatch):
        list(batch.iter_batches(raw_batch(b"abc", batch_length=0), partial=True))


@given(st.binary(max_size=200), st.integers(0, 40))
def test_any_bytes_are_a_batch_or_corrupt(data: bytes, pos: int) -> None:
    for read in (batch.check, batch.read_header):
        try:
            read(data, pos)
        except CorruptBatch:
            pass
    for partial in (False, True):
        try:
            list(batch.iter_batches(data, partial=partial))
        except CorruptBatch:
            pass


@given(st.data())
def test_a_mutated_header_is_a_batch_or_corrupt(data: st.DataObject) -> None:
    buf = raw_batch(b"payload") + raw_batch(b"second")
    for position, value in data.draw(st.dictionaries(st.integers(0, len(buf) - 1), st.integers(0, 255))).items():
        buf[position] = value
    try:
        for pos, header in batch.iter_batches(buf):
            assert pos + header.size <= len(buf)
    except CorruptBatch:
        pass
