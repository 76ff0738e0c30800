"""Bytes to messages and back: a decoder and an encoder for each (message, version), compiled on first use.

    decoder(MetadataRequest, 9)(view, position) -> (message, position after it)
    encoder(MetadataResponse, 9)(message) -> bytearray of the body; given a bytearray it writes behind what is there

What holds:
- Any bytes decode to a message or raise MalformedMessage, in time and memory proportional to the bytes given.
- Unknown tagged fields are skipped; tags must rise, so none comes twice. Null where the version has no null is
  malformed, as is text that is not UTF-8 and a string longer than 32767 bytes. Any byte but 0 is true.
- `records` is a memoryview of the input, everything else is a copy.
- A field that the version lacks takes its default when decoded and is silently left out when encoded, whatever it
  holds; tagged fields that hold their default are not written.
- A value that its field cannot carry raises UnencodableValue; a bytearray that was passed in then holds a torn message.
- encode(decode(x)) == x, unless x has unknown tags, tagged defaults or varints with needless bytes.
"""

# ruff: noqa: F811  (overloads; `typing` is not imported at run time, it costs more than all of this package)

import struct
from _codecs import utf_8_decode

from ottla.protocol.errors import MalformedMessage, UnencodableValue, UnsupportedVersion
from ottla.protocol.generate import SHORT, DecoderWriter, EncoderWriter
from ottla.protocol.model import Message, message_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, Protocol, TypeVar, overload

    M = TypeVar("M", bound=Message)
    M_contra = TypeVar("M_contra", bound=Message, contravariant=True)
    M_co = TypeVar("M_co", bound=Message, covariant=True)
    Buffer = bytes | bytearray | memoryview

    class Decoder(Protocol[M_co]):
        def __call__(self, buf: memoryview, p: int = 0, /) -> tuple[M_co, int]: ...

    class Encoder(Protocol[M_contra]):
        def __call__(self, message: M_contra, out: bytearray | None = None, /) -> bytearray: ...

else:

    def overload(function):
        return function


_decoders: "dict[tuple[type[Message] | str, int], Any]" = {}
_encoders: "dict[tuple[type[Message] | str, int], Any]" = {}


@overload
def decoder(message: "type[M]", version: int) -> "Decoder[M]": ...
@overload
def decoder(message: str, version: int) -> "Decoder[Any]": ...
def decoder(message: "type[Message] | str", version: int) -> "Decoder[Any]":
    """The function that reads `message` (a class or its name) in this version from a memoryview, at a position."""
    found = _decoders.get((message, version))
    if found is None:
        cls = _class(message, version)
        writer = DecoderWriter(cls.SCHEMA, version)
        found = _compile(writer, "decode", cls, version)
        _decoders[message, version] = found
    return found


@overload
def encoder(message: "type[M]", version: int) -> "Encoder[M]": ...
@overload
def encoder(message: str, version: int) -> "Encoder[Any]": ...
def encoder(message: "type[Message] | str", version: int) -> "Encoder[Any]":
    """The function that writes `message` (a class or its name) in this version: body only, no header."""
    found = _encoders.get((message, version))
    if found is None:
        cls = _class(message, version)
        writer = EncoderWriter(cls.SCHEMA, version)
        found = _compile(writer, "encode", cls, version)
        _encoders[message, version] = found
    return found


@overload
def decode(message: "type[M]", version: int, buf: "Buffer") -> "M": ...
@overload
def decode(message: str, version: int, buf: "Buffer") -> "Any": ...
def decode(message: "type[Message] | str", version: int, buf: "Buffer") -> "Any":
    """The message that is the whole of `buf`."""
    found, position = decoder(message, version)(memoryview(buf), 0)
    if position != len(buf):
        raise MalformedMessage(f"{_name(message)} v{version}: {len(buf) - position} bytes too many")
    return found


def encode(message: Message, version: int) -> bytearray:
    """The body of `message` in this version."""
    return encoder(message.__class__, version)(message)


def source(message: "type[Message] | str", version: int) -> str:
    """What was compiled for this message and version, to read."""
    schema = _class(message, version).SCHEMA
    return DecoderWriter(schema, version).source() + "\n\n" + EncoderWriter(schema, version).source()


def _name(message: "type[Message] | str") -> str:
    return message if isinstance(message, str) else message.__qualname__


def _class(message: "type[Message] | str", version: int) -> type[Message]:
    cls = message_class(message) if isinstance(message, str) else message
    schema = cls.SCHEMA
    if cls.STRUCT is not schema.root:
        raise TypeError(f"{cls.__qualname__} is a part of a message, only the whole can be read or written")
    first, last = schema.versions
    if not first <= version <= last:
        raise UnsupportedVersion(f"{schema.name} has versions {first} to {last}, not {version}")
    return cls


def _compile(
    writer: DecoderWriter | EncoderWriter, function: str, cls: type[Message], version: int
) -> "Callable[..., Any]":
    text = writer.source()
    where = f"{cls.__qualname__} v{version}"

    def unencodable(message: Message, error: Exception) -> UnencodableValue:
        from ottla.protocol.explain import complaint

        return UnencodableValue(f"{where}: {complaint(message, cls, version) or error}")

    namespace: dict[str, object] = {
        "MalformedMessage": MalformedMessage,
        "WHERE": where,
        "bad_length": bad_length,
        "bad_tag": bad_tag,
        "iter_uuids": _iter_uuids,
        "new": object.__new__,
        "pack": struct.pack,
        "read_varint": read_varint,
        "skip_tags": skip_tags,
        "string_length": string_length,
        "struct_error": struct.error,
        "unencodable": unencodable,
        "unpack_from": struct.unpack_from,
        "utf_8_decode": utf_8_decode,
        "write_varint": write_varint,
        "C_": cls,
    }
    for name in cls.SCHEMA.structs:
        namespace[f"C_{name}"] = getattr(cls, name)
    for fmt, packer in writer.packers.items():
        name = fmt[1:].replace("?", "z")
        namespace[f"U{name}"] = packer.unpack_from
        namespace[f"P{name}"] = packer.pack
    for fmt in writer.arrays:
        packers = [struct.Struct(f">{count}{fmt}") for count in range(SHORT)]
        namespace[f"Us_{fmt}"] = [packer.unpack_from for packer in packers]
        namespace[f"Ps_{fmt}"] = [packer.pack for packer in packers]
    exec(compile(text, f"<{function} {where}>", "exec"), namespace)
    return namespace[function]  # type: ignore[return-value]


_iter_uuids = struct.Struct("16s").iter_unpack


def read_varint(buf: memoryview, p: int, first: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits whose first byte was read already: (value, position after it)."""
    if first < 128:
        return first, p
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buf[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, p
    raise MalformedMessage(f"a varint at byte {p - 1} is longer than 32 bits")


def write_varint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_length(value: int) -> bytes:
    """The varint before a string, length + 1. No string is longer than 32767 bytes, whatever the form of its length."""
    if value > 32768:
        raise ValueError(f"a string of {value - 1} bytes")
    return write_varint(value)


def skip_tags(buf: memoryview, p: int, count: int, end: int, where: str) -> int:
    """Steps over `count` tagged fields (its first byte was read already), none of which this version knows."""
    count, p = read_varint(buf, p, count)
    last = -1
    for _ in range(count):
        tag, p = read_varint(buf, p + 1, buf[p])
        size, p = read_varint(buf, p + 1, buf[p])
        p += size
        if tag <= last or p > end:
            bad_tag(where, "", tag)
        last = tag
    return p


def bad_length(where: str, path: str, length: int, most: int) -> "NoReturn":
    if length < 0:
        raise MalformedMessage(f"{where}: {path} is null (or of length {length})")
    raise MalformedMessage(f"{where}: {path} has length {length}, there is room for {most}")


def bad_tag(where: str, path: str, tag: int) -> "NoReturn":
    raise MalformedMessage(f"{where}: tagged field {tag} of {path or 'the message'} is out of order or of a wrong size")
