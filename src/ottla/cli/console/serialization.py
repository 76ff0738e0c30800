"""What bytes mean: Kafka's serializers and deserializers by their class names, and the user's own.

A serializer makes bytes of what was typed, a deserializer makes the text of bytes that Java's `toString` would show.
The user's own is a class on PYTHONPATH, made without arguments:

    configure(properties, is_key)        may be missing; gets what stands under `key.deserializer.` and so on
    serialize(topic, data) -> bytes      data: bytes as they were read
    deserialize(topic, data) -> object   shown by str(), bytes as they are

A plain function of one argument will do as well.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ottla.cli.console.classes import found, under_prefix


class Unserializable(Exception):
    """A value that its serializer or deserializer cannot read."""


Serializer = Callable[[str, bytes], bytes | None]
Deserializer = Callable[[str, bytes], bytes]


def serializer(name: str, *, is_key: bool, option: str, properties: Mapping[str, str] | None = None) -> Serializer:
    """The serializer of a class name: `(topic, bytes that were read) -> bytes of the record`."""
    known = found(name, SERIALIZERS, option)
    if name.rpartition(".")[2] in SERIALIZERS:
        return _guarded(lambda _, data: known(data), name)
    return _guarded(_users(known, "serialize", is_key, properties or {}), name)


def deserializer(name: str, *, is_key: bool, option: str, properties: Mapping[str, str] | None = None) -> Deserializer:
    """The deserializer of a class name: `(topic, bytes of the record) -> bytes to be shown`."""
    known = found(name, DESERIALIZERS, option)
    if name.rpartition(".")[2] in DESERIALIZERS:
        return _guarded(lambda _, data: _shown(known(data)), name)
    own = _users(known, "deserialize", is_key, under_prefix(properties or {}, f"{option}."))
    return _guarded(lambda topic, data: _shown(own(topic, data)), name)


def _users(what: Any, method: str, is_key: bool, properties: Mapping[str, str]) -> Callable[[str, bytes], Any]:
    made = what() if isinstance(what, type) else what
    if hasattr(made, "configure"):
        made.configure(dict(properties), is_key)
    if hasattr(made, method):
        chosen: Callable[[str, bytes], Any] = getattr(made, method)
        return chosen
    return lambda _, data: made(data)


def _guarded(code: Callable[[str, bytes], Any], name: str) -> Callable[[str, bytes], Any]:
    """Whatever goes wrong in a class named by the user is told, never a stack trace."""

    def call(topic: str, data: bytes) -> Any:
        try:
            return code(topic, data)
        except Exception as error:
            raise Unserializable(f"{name.rpartition('.')[2]}: {error or type(error).__name__}") from error

    return call


def _shown(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


# -- Kafka's own -------------------------------------------------------------------------------------------------------


def _integer_out(size: int) -> Callable[[bytes], bytes]:
    def write(data: bytes) -> bytes:
        try:
            return int(data).to_bytes(size, "big", signed=True)
        except OverflowError:
            raise ValueError(f"{data.decode(errors='replace')} does not fit into {size} bytes") from None
        except ValueError:
            raise ValueError(f"{data.decode(errors='replace')!r} is no whole number") from None

    return write


def _integer_in(size: int) -> Callable[[bytes], int]:
    def read(data: bytes) -> int:
        return int.from_bytes(_sized(data, size), "big", signed=True)

    return read


def _sized(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes of data, and {size} are wanted")
    return data


def _boolean_out(data: bytes) -> bytes:
    if data.lower() not in (b"true", b"false"):
        raise ValueError(f"{data.decode(errors='replace')!r} is neither true nor false")
    return b"\1" if data.lower() == b"true" else b"\0"


def _boolean_in(data: bytes) -> str:
    if _sized(data, 1) not in (b"\0", b"\1"):
        raise ValueError(f"byte {data[0]} is neither true (1) nor false (0)")
    return "true" if data == b"\1" else "false"


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _utf8(data: bytes) -> bytes:
    return data.decode(errors="replace").encode()


def _escaped(data: bytes) -> str:
    """As Java's Bytes shows itself: printable ASCII, and \\xNN."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 0x5C else f"\\x{byte:02X}" for byte in data)


def decimal(value: float, single: bool = False) -> str:
    """A number as Java writes it: the fewest digits that tell it apart, an exponent from 10 to the 7th on."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if struct.pack(">d", value)[0] else "0.0"
    digits = repr(value)
    if single:
        packed = struct.pack(">f", value)
        digits = next(short for n in range(1, 10) if struct.pack(">f", float(short := f"{value:.{n}g}")) == packed)
    from decimal import Decimal

    sign, numbers, exponent = Decimal(digits).normalize().as_tuple()
    significant, point = "".join(map(str, numbers)), len(numbers) + int(exponent)  # 0.significant * 10 ** point
    minus = "-" if sign else ""
    if not -3 < point <= 7:
        return f"{minus}{significant[0]}.{significant[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{significant}"
    return f"{minus}{significant[:point].ljust(point, '0')}.{significant[point:] or '0'}"


SERIALIZERS: dict[str, Callable[[bytes], bytes | None]] = {
    "DefaultEncoder": bytes,
    "StringEncoder": _utf8,
    "NullEncoder": lambda _: None,
    "ByteArraySerializer": bytes,
    "ByteBufferSerializer": bytes,
    "BytesSerializer": bytes,
    "StringSerializer": _utf8,
    "ShortSerializer": _integer_out(2),
    "IntegerSerializer": _integer_out(4),
    "LongSerializer": _integer_out(8),
    "FloatSerializer": lambda data: struct.pack(">f", float(data)),
    "DoubleSerializer": lambda data: struct.pack(">d", float(data)),
    "BooleanSerializer": _boolean_out,
    "UUIDSerializer": lambda data: str(uuid.UUID(data.decode())).encode(),
    "VoidSerializer": lambda _: None,
}

DESERIALIZERS: dict[str, Callable[[bytes], object]] = {
    "DefaultDecoder": bytes,
    "StringDecoder": _text,
    "ByteArrayDeserializer": bytes,
    "ByteBufferDeserializer": bytes,
    "BytesDeserializer": _escaped,
    "StringDeserializer": _text,
    "ShortDeserializer": _integer_in(2),
    "IntegerDeserializer": _integer_in(4),
    "LongDeserializer": _integer_in(8),
    "FloatDeserializer": lambda data: decimal(struct.unpack(">f", _sized(data, 4))[0], single=True),
    "DoubleDeserializer": lambda data: decimal(struct.unpack(">d", _sized(data, 8))[0]),
    "BooleanDeserializer": _boolean_in,
    "UUIDDeserializer": lambda data: uuid.UUID(data.decode()),
}
