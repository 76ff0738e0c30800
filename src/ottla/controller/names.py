"""Names of topics: which are legal, which collide, which are the broker's own; and topic ids.

A legal name has 1 to 249 characters out of `[a-zA-Z0-9._-]` and is not `.` or `..` (names become directories, and a
file name of 255 must also hold a partition number). Names that differ only in `.` and `_` collide, since metrics write
both as `_`.

Topic ids are 16 random bytes (uuid version 4), written as 22 characters of URL-safe base64 without padding. 0 and 1 are
reserved, and none starts with `-`, which tools would take for an option (KIP-516).
"""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

MAX_LENGTH = 249
LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))
CLUSTER_METADATA = "__cluster_metadata"  # the directory of a KRaft node's own log: never a topic of clients

ZERO_ID = bytes(16)
RESERVED_IDS = (ZERO_ID, bytes(15) + b"\x01")


def why_illegal(name: str) -> str | None:
    """What is wrong with a topic's name, or None if it is legal."""
    if not name:
        return "a topic name must not be empty"
    if name in (".", ".."):
        return f"a topic name must not be {name!r}"
    if len(name) > MAX_LENGTH:
        return f"a topic name has at most {MAX_LENGTH} characters, this one has {len(name)}"
    if LEGAL.fullmatch(name) is None:
        return f"the topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def is_internal(name: str) -> bool:
    return name in INTERNAL


def collision_key(name: str) -> str:
    """Equal for names that collide."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    return "." in name or "_" in name


def new_id() -> bytes:
    """A random topic id."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40  # version 4
        raw[8] = raw[8] & 0x3F | 0x80  # variant of RFC 4122
        made = bytes(raw)
        if made not in RESERVED_IDS and not id_text(made).startswith("-"):
            return made


def id_text(raw: bytes) -> str:
    """An id as people see it."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def id_bytes(text: str) -> bytes:
    """The id behind its text; ValueError if it is none."""
    raw = urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not the base64 of 16 bytes")
    return raw
