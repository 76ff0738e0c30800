"""Why a message could not be encoded: finds the first field whose value its type cannot carry.

Runs only after an encoder has failed, so encoders need no checks of their own on the good path.
"""

from ottla.protocol.model import Message
from ottla.protocol.schema import Field, Struct

INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def complaint(message: object, cls: type[Message], version: int) -> str | None:
    """One line that names the field and its value, or None when all is well."""
    if not isinstance(message, cls):
        return f"{message!r} is not a {cls.__qualname__}"
    return _struct(message, cls.STRUCT, version, "")


def _struct(message: object, struct: Struct, version: int, path: str) -> str | None:
    for field in struct.fields:
        if field.present(version):
            name = f"{path}.{field.name}" if path else field.name
            try:
                value = getattr(message, field.name)
            except AttributeError:
                return f"{path or 'the message'} is {_short(message)}, which has no {field.name}"
            found = _field(value, field, version, name)
            if found:
                return found
    return None


def _field(value: object, field: Field, version: int, path: str) -> str | None:
    if value is None:
        return None if field.nullable_in(version) else f"{path} is None, which this version cannot carry"
    if not field.array:
        return _element(value, field, version, path)
    if not isinstance(value, (list, tuple)):
        return f"{path} = {_short(value)} is not a list"
    for index, element in enumerate(value):
        found = _element(element, field, version, f"{path}[{index}]")
        if found:
            return found
    return None


def _element(value: object, field: Field, version: int, path: str) -> str | None:
    if field.struct is not None:
        return _struct(value, field.struct, version, path)
    kind = field.type
    bits = INTEGERS.get(kind)
    if bits is not None:
        fits = isinstance(value, int) and -(1 << bits - 1) <= value < 1 << bits - 1
    elif kind == "float64":
        fits = isinstance(value, (int, float))
    elif kind == "bool":
        fits = True
    elif kind == "uuid":
        fits = isinstance(value, bytes) and len(value) == 16
        kind = "uuid (16 bytes)"
    elif kind in ("bytes", "records"):
        fits = isinstance(value, (bytes, bytearray, memoryview))
    else:
        fits = isinstance(value, str)
        if isinstance(value, str):
            kind = "string (at most 32767 bytes of UTF-8)"
            try:
                fits = len(value.encode()) <= 32767
            except UnicodeEncodeError:
                fits = False
    return None if fits else f"{path} = {_short(value)} does not fit {kind}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
