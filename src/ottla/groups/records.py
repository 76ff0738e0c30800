"""The records of __consumer_offsets, in Kafka's formats: what groups are on disk.

Every key and value begins with an int16. That of a key is the kind of the record, that of a value its version; the body
follows in the form of protocol/schemas/*_key.txt and *_value.txt. A record without a value takes the thing away.

    0, 1   a committed offset          OffsetCommitKey       OffsetCommitValue
    2      a classic group             GroupMetadataKey      GroupMetadataValue

Written are the versions that Kafka writes: offsets in version 3, or 1 when the client asked for an expiry of its own
(OffsetCommit 2-4); groups in version 3. Read are all. Offsets are written by hand, since commits are frequent; a test
holds that to the tables.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.protocol import codec, messages

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2
OFFSET_VERSION, OFFSET_VERSION_WITH_EXPIRY, GROUP_VERSION = 3, 1, 3
NO_EXPIRY = -1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_KEY_HEAD = struct.Struct(">hh")
_VALUE_HEAD = struct.Struct(">hqih")
_VALUE_HEAD_WITH_EXPIRY = struct.Struct(">hqh")
_TIME = struct.Struct(">q")
_TIMES = struct.Struct(">qq")


class Committed(NamedTuple):
    """A committed offset: the next one to read. Times in milliseconds since 1970."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at: int
    expires_at: int = NO_EXPIRY  # as the client wished; otherwise the broker's retention holds


def kind_of(key: bytes) -> int:
    return int(_INT16.unpack_from(key)[0])


def offset_key(group: str, topic: str, partition: int) -> bytes:
    who, what = group.encode(), topic.encode()
    return b"%b%b%b%b%b" % (
        _KEY_HEAD.pack(OFFSET_KEYS[-1], len(who)),
        who,
        _INT16.pack(len(what)),
        what,
        _INT32.pack(partition),
    )


def offset_value(committed: Committed) -> bytes:
    offset, leader_epoch, text, committed_at, expires_at = committed
    metadata = text.encode()
    if expires_at == NO_EXPIRY:
        head = _VALUE_HEAD.pack(OFFSET_VERSION, offset, leader_epoch, len(metadata))
        return head + metadata + _TIME.pack(committed_at)
    head = _VALUE_HEAD_WITH_EXPIRY.pack(OFFSET_VERSION_WITH_EXPIRY, offset, len(metadata))
    return head + metadata + _TIMES.pack(committed_at, expires_at)


def read_offset_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic and partition. MalformedMessage when it is no such key."""
    read = codec.decode(messages.OffsetCommitKey, 1, memoryview(key)[2:])
    return read.group, read.topic, read.partition


def read_offset_value(value: bytes) -> Committed:
    read = codec.decode(messages.OffsetCommitValue, kind_of(value), memoryview(value)[2:])
    return Committed(read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp)


def group_key(group: str) -> bytes:
    return _INT16.pack(GROUP_KEY) + codec.encode(messages.GroupMetadataKey(group=group), GROUP_KEY)


def read_group_key(key: bytes) -> str:
    return codec.decode(messages.GroupMetadataKey, GROUP_KEY, memoryview(key)[2:]).group


def group_value(value: messages.GroupMetadataValue) -> bytes:
    return _INT16.pack(GROUP_VERSION) + codec.encode(value, GROUP_VERSION)


def read_group_value(value: bytes) -> messages.GroupMetadataValue:
    return codec.decode(messages.GroupMetadataValue, kind_of(value), memoryview(value)[2:])
