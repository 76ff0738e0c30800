"""The records of __transaction_state, in Kafka's formats: one key for each transactional id.

Key and value begin with an int16, their version; the body is that of protocol/schemas/transaction_log_*.txt. Written is
value version 1, read are both. A record without a value takes the transactional id away.
"""

from __future__ import annotations

import struct

from ottla.protocol import codec
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.messages import TransactionLogKey, TransactionLogValue

KEY_VERSION, VALUE_VERSION = 0, 1

_INT16 = struct.Struct(">h")


def key_of(transactional_id: str) -> bytes:
    body = codec.encode(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)
    return _INT16.pack(KEY_VERSION) + bytes(body)


def value_of(value: TransactionLogValue) -> bytes:
    return _INT16.pack(VALUE_VERSION) + bytes(codec.encode(value, VALUE_VERSION))


def read_key(key: bytes) -> str:
    version = _version(key, KEY_VERSION)
    return codec.decode(TransactionLogKey, version, key[2:]).transactional_id


def read_value(value: bytes) -> TransactionLogValue:
    version = _version(value, VALUE_VERSION)
    return codec.decode(TransactionLogValue, version, value[2:])


def _version(data: bytes, highest: int) -> int:
    if len(data) < 2 or not 0 <= (version := int(_INT16.unpack_from(data)[0])) <= highest:
        raise MalformedMessage(f"a record of version {data[:2].hex()}; known are 0 to {highest}")
    return version
