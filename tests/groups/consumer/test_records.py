"""What consumer groups write is what the classes of Apache Kafka 4.3.1 write: bytes that these wrote."""

from __future__ import annotations

import pytest

from ottla.groups.consumer import records
from ottla.groups.consumer.members import REVOKING, STABLE, Classic, Member, Profile

T, U = bytes(range(1, 17)), bytes(range(17, 33))

WITH_EPOCHS = (
    "00000000000b0000000a01020102030405060708090a0b0c0d0e0f10030000000000000001010009030000000a0000000b02"
    "1112131415161718191a1b1c1d1e1f200200000003010005020000000900"
)
WITHOUT_EPOCHS = "00000000000b0000000a00020102030405060708090a0b0c0d0e0f10030000000000000001000100"
PLAIN = Profile(None, None, "client", "/127.0.0.1", frozenset({"b", "a"}), "", 300_000, None, None)
FULL = Profile("i", "r", "", "/h", frozenset(), "a.*", 5, "range", Classic(45_000, (("range", bytes(range(4))),)))
MOVING = Member("m", epoch=11, previous_epoch=10, state=REVOKING, assigned={T: {0: 10, 1: 11}}, revoking={U: {3: 9}})


@pytest.mark.parametrize(
    ("write", "key", "value"),
    [
        (
            records.group_record("grüppe", 7, 0x0102030405060708),
            "000300076772c3bc707065",
            "0000000000070100080102030405060708",
        ),
        (records.group_record("g", 1, 0), "0003000167", "00000000000100"),
        (
            records.member_record("g", Member("m", PLAIN)),
            "000500016700016d",
            "0000000007636c69656e740b2f3132372e302e302e31030261026201000493e00001000100",
        ),
        (
            records.member_record("g", Member("m", FULL)),
            "000500016700016d",
            "00000269027201032f680104612e2a000000050672616e6765010013010000afc8020672616e676505000102030000",
        ),
        (records.target_record("g", 9, 1_700_000_000_000), "0006000167", "0000000000090100080000018bcfe56800"),
        (records.target_record("g", 9, 0), "0006000167", "00000000000900"),
        (
            records.member_target_record("g", "m", {T: frozenset({5, 0, 1}), U: frozenset({3})}),
            "000700016700016d",
            "0000030102030405060708090a0b0c0d0e0f1004000000000000000100000005001112131415161718191a1b1c1d1e1f20"
            "02000000030000",
        ),
        (records.member_state_record("g", MOVING), "000800016700016d", WITH_EPOCHS),
        (
            records.pattern_record("g", "a.*", {"ab", "a"}, 1_700_000_000_001),
            "00100001670003612e2a",
            "000003026103616200000000000000000000018bcfe5680100",
        ),
    ],
    ids=lambda value: value[:8] if isinstance(value, str) else "",
)
def test_records_have_kafkas_bytes(write, key, value):
    assert (write.key.hex(), write.value.hex()) == (key, value)


def test_what_was_written_is_read_back():
    assert records.read_group(records.group_record("g", 7, -5).value) == (7, -5)
    assert records.read_target(records.target_record("g", 9, 12).value) == (9, 12)
    assert records.read_member(records.member_record("g", Member("m", PLAIN)).value) == PLAIN
    assert records.read_member(records.member_record("g", Member("m", FULL)).value) == FULL
    target = {T: frozenset({0, 2}), U: frozenset({1})}
    assert records.read_member_target(records.member_target_record("g", "m", target).value) == target
    assert records.read_pattern(records.pattern_record("g", "a.*", {"a", "b"}, 0).value) == {"a", "b"}
    member = Member("m")
    records.read_member_state(bytes.fromhex(WITH_EPOCHS), member)
    assert member == MOVING
    assert records.read_key(records.pattern_key("g", "a.*")) == ("g", "a.*")
    assert records.read_key(records.group_key(records.TARGET, "g")) == ("g", "")
    assert records.read_key(records.member_key(records.MEMBER, "g", "m")) == ("g", "m")


def test_partitions_that_older_kafkas_stored_without_epochs_have_the_members():
    member = Member("m")
    records.read_member_state(bytes.fromhex(WITHOUT_EPOCHS), member)
    assert member == Member("m", epoch=11, previous_epoch=10, state=STABLE, assigned={T: {0: 11, 1: 11}})


def test_a_group_is_taken_away_with_all_that_kafka_may_have_written_of_it():
    writes = records.tombstones("g", ["m"], ["a.*"])
    assert all(write.value is None for write in writes)
    kinds = [int.from_bytes(write.key[:2], "big") for write in writes]
    assert sorted(kinds) == [3, 4, 5, 6, 7, 8, 16]
