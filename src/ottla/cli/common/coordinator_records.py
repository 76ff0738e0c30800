"""Records of __consumer_offsets and __transaction_state as JSON, as Kafka's tools show them.

Every key and value begins with an int16: of a key it is the kind of the record, of a value its version. The rest has
the form of the table of that kind (protocol/schemas/*_key.txt, *_value.txt). In JSON a field has its name in camel
case, bytes are base64, ids are Kafka's text of a UUID; a tagged field with its default is left out.
"""

from __future__ import annotations

import base64
import struct
from typing import Any, NamedTuple

from ottla.protocol import codec
from ottla.protocol.errors import ProtocolError, UnsupportedVersion
from ottla.protocol.model import Message, message_class
from ottla.protocol.schema import Field, UnknownMessage

OFFSET_COMMIT, GROUP_METADATA = (0, 1), 2
# kind of a record: the name of its tables, without Key or Value
GROUP_RECORDS = {
    0: "OffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
}
TRANSACTION_RECORDS = {0: "TransactionLog"}

_INT16 = struct.Struct(">h")


class UnknownRecord(Exception):
    """A kind of record that has no table here."""

    def __init__(self, kind: int) -> None:
        super().__init__(f"Unknown record type {kind}")
        self.kind = kind


class UnreadableRecord(Exception):
    """Bytes that are not what their first two say."""


class CoordinatorRecord(NamedTuple):
    kind: int
    key: dict[str, Any]
    version: int | None  # of the value; None where it is gone
    value: dict[str, Any] | None


def read(kinds: dict[int, str], key: bytes, value: bytes | None) -> CoordinatorRecord:
    """The record in the fields of JSON. Raises UnknownRecord and UnreadableRecord."""
    kind = _int16(key, "key")
    name = kinds.get(kind)
    if name is None:
        raise UnknownRecord(kind)
    try:
        oldest, newest = message_class(f"{name}Key").SCHEMA.versions
        # a key's version is its kind in __consumer_offsets, where the table says so
        key_fields = _fields(f"{name}Key", kind if oldest <= kind <= newest else oldest, key)
        if value is None:
            return CoordinatorRecord(kind, key_fields, None, None)
        version = _int16(value, "value")
        return CoordinatorRecord(kind, key_fields, version, _fields(f"{name}Value", version, value))
    except UnknownMessage:
        raise UnknownRecord(kind) from None


def _int16(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise UnreadableRecord(f"a {what} of {len(data)} bytes")
    return int(_INT16.unpack_from(data)[0])


def _fields(name: str, version: int, data: bytes) -> dict[str, Any]:
    try:
        message = codec.decode(message_class(name), version, memoryview(data)[2:])
    except UnsupportedVersion as error:
        raise UnreadableRecord(f"{name}: version {version} is not known") from error
    except ProtocolError as error:
        raise UnreadableRecord(str(error)) from error
    return as_json(message, version)


def as_json(message: Message, version: int) -> dict[str, Any]:
    """A message's fields of this version."""
    shown = {}
    for field in message.STRUCT.fields:
        if not field.present(version):
            continue
        value = getattr(message, field.name)
        if field.tag is not None and value == getattr(type(message)(), field.name):
            continue
        shown[_camel_case(field.name)] = _value(value, field, version)
    return shown


def _value(value: Any, field: Field, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_value(one, field, version) for one in value]
    if isinstance(value, Message):
        return as_json(value, version)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(value).decode()
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def with_protocol_opened(record: CoordinatorRecord) -> CoordinatorRecord:
    """Of a classic group of consumers: subscriptions and assignments are taken apart, where they can be read."""
    if record.kind != GROUP_METADATA or not record.value or record.value.get("protocolType") != "consumer":
        return record
    for member in record.value["members"]:
        for field, name in (
            ("subscription", "ConsumerProtocolSubscription"),
            ("assignment", "ConsumerProtocolAssignment"),
        ):
            data = base64.b64decode(member[field])
            if len(data) < 2:
                continue
            version = min(_int16(data, field), message_class(name).SCHEMA.versions[1])
            try:
                message, _ = codec.decoder(message_class(name), version)(memoryview(data), 2)
            except (ProtocolError, ValueError):
                continue
            member[field] = as_json(message, version)
    return record
