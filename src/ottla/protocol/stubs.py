"""Writes messages.pyi, the types of all message classes, from the tables: `python -m ottla.protocol.stubs`."""

import os

from ottla.protocol.schema import Field, Schema, Struct, message_names, schema_of

PATH = os.path.join(os.path.dirname(__file__), "messages.pyi")
WIDTH = 120
HEAD = '''"""Types of the message classes. Written by `python -m ottla.protocol.stubs` from schemas/, not by hand."""

from ottla.protocol.model import Message as Message

Buffer = bytes | bytearray | memoryview
'''
TYPES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "int",
    "float64": "float",
    "bool": "bool",
    "uuid": "bytes",
    "string": "str",
    "string16": "str",
    "bytes": "bytes",
    "records": "Buffer",
}


def stub_text() -> str:
    parts = [HEAD]
    for name in message_names():
        schema = schema_of(name)
        lines = [f"class {name}(Message):"]
        for struct in schema.structs.values():
            lines += [f"    class {struct.name}(Message):", *_members(schema, struct, " " * 8), ""]
        lines += _members(schema, schema.root, " " * 4)
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _members(schema: Schema, struct: Struct, indent: str) -> list[str]:
    types = [(field.name, _type(schema, field)) for field in struct.fields]
    lines = [f"{indent}{name}: {type}" for name, type in types]
    parameters = [f"{name}: {type} = ..." for name, type in types]
    one_line = f"{indent}def __init__(self{', *, ' if parameters else ''}{', '.join(parameters)}) -> None: ..."
    if len(one_line) <= WIDTH:
        return [*lines, one_line]
    return [
        *lines,
        f"{indent}def __init__(",
        *(f"{indent}    {parameter}," for parameter in ["self", "*", *parameters]),
        f"{indent}) -> None: ...",
    ]


def _type(schema: Schema, field: Field) -> str:
    text = TYPES[field.type] if field.struct is None else f"{schema.name}.{field.struct.name}"
    if field.array:
        text = f"list[{text}]"
    return f"{text} | None" if field.nullable is not None else text


if __name__ == "__main__":
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(stub_text())
