"""What groups write: the formats, and which partition it goes to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinators.hashing import java_hash, partition_of
from ottla.groups.records import (
    Committed,
    group_key,
    group_value,
    kind_of,
    offset_key,
    offset_value,
    read_group_key,
    read_group_value,
    read_offset_key,
    read_offset_value,
)
from ottla.protocol import codec, messages

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(NAMES, NAMES, st.integers(0, 2**31 - 1))
def test_a_key_of_an_offset_is_that_of_the_table(group, topic, partition):
    key = offset_key(group, topic, partition)
    body = codec.encode(messages.OffsetCommitKey(group=group, topic=topic, partition=partition), 1)
    assert key == b"\0\1" + body
    assert read_offset_key(key) == (group, topic, partition)


@given(NUMBERS, st.integers(-1, 2**31 - 1), NAMES, NUMBERS)
def test_a_value_of_an_offset_is_that_of_the_table(offset, epoch, metadata, time):
    committed = Committed(offset, epoch, metadata, time)
    value = messages.OffsetCommitValue(offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=time)
    assert offset_value(committed) == b"\0\3" + codec.encode(value, 3)
    assert read_offset_value(offset_value(committed)) == committed


def test_an_offset_with_an_expiry_of_its_own_is_of_version_1_which_has_no_epoch():
    value = offset_value(Committed(5, 7, "m", 100, 200))
    assert kind_of(value) == 1
    assert read_offset_value(value) == Committed(5, -1, "m", 100, 200)


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_all_versions_are_read(version):
    written = messages.OffsetCommitValue(offset=9, metadata="x", commit_timestamp=3)
    value = version.to_bytes(2, "big") + codec.encode(written, version)
    assert read_offset_value(value) == Committed(9, -1, "x", 3)


@pytest.mark.parametrize("version", range(5))
def test_groups_of_all_versions_are_read(version):
    member = messages.GroupMetadataValue.Member(member_id="m", client_id="c", client_host="/h", session_timeout=5)
    written = messages.GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", members=[member])
    read = read_group_value(version.to_bytes(2, "big") + codec.encode(written, version))
    assert (read.generation, read.protocol, [one.member_id for one in read.members]) == (3, "range", ["m"])


def test_a_group_is_written_in_version_3_under_key_2():
    assert group_key("g") == b"\0\2\0\1g"
    assert read_group_key(group_key("g")) == "g"
    assert kind_of(group_value(messages.GroupMetadataValue())) == 3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_the_hash_is_that_of_java(text, number):
    assert java_hash(text) == number


def test_the_smallest_number_has_partition_0_and_others_that_of_their_absolute_value():
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("group", 50) == 98629247 % 50
    assert java_hash("😀") == 0xD83D * 31 + 0xDE00  # a pair of units
