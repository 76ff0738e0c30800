"""The tables of Kafka's messages: one text file per request and response pair, read on first use.

Notation, one field per line, nesting by two spaces:

    Heartbeat 12  versions 0-4  flexible 4+      name, api key (none for `data`), versions, flexible from (KIP-482)
      request                                    section: request, response or data
        name   type   versions   tag N   = default

- versions: `3+`, `0-7` or `5`; left out when the field is there whenever its parent is.
- type: int8 int16 int32 int64 float64 bool uuid string bytes records; `string16` is a string whose length takes two
  bytes in flexible versions too (client id of the request header); `[int32]` an array; a capitalised name is a struct,
  its fields stand indented below its first use, a later use in the same section is the bare name.
- `?` after the type: may be null; `?3+`: may be null in these versions only.
- `tag N`: a tagged field, in all versions that have it.
- default: null, true, a number or a text. Without one: zero, empty, false, 16 zero bytes, a struct of defaults.

Facts (names, types, versions) are those of Kafka 4.3, and of 3.9 for the versions and the requests that 4.0 dropped.
"""

import os

DIRECTORY = os.path.join(os.path.dirname(__file__), "schemas")
SECTIONS = {"request": "Request", "response": "Response", "data": ""}
SCALARS = {"int8", "int16", "int32", "int64", "float64", "bool", "uuid", "string", "string16", "bytes", "records"}
NO_UUID = bytes(16)

Range = tuple[int, int]


class SchemaError(Exception):
    """A table is not written in the notation above."""


class UnknownMessage(LookupError):
    """There is no table for a message of this name."""


class Field:
    """One field: in `versions`, null allowed in `nullable`, an element type in `type` when `array`."""

    __slots__ = ("array", "default", "name", "nullable", "struct", "tag", "type", "versions")

    def __init__(
        self,
        name: str,
        type: str,
        versions: Range,
        *,
        array: bool = False,
        struct: "Struct | None" = None,
        nullable: Range | None = None,
        tag: int | None = None,
        default: object = None,
    ) -> None:
        self.name = name
        self.type = type
        self.versions = versions
        self.array = array
        self.struct = struct
        self.nullable = nullable
        self.tag = tag
        self.default = default  # for a struct that is not null by default: the struct's schema itself

    def present(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def nullable_in(self, version: int) -> bool:
        return self.nullable is not None and self.nullable[0] <= version <= self.nullable[1]


class Struct:
    """Named fields in wire order; the body of a message or a nested structure."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: list[Field] = []

    def in_version(self, version: int) -> tuple[list[Field], list[Field]]:
        """The untagged fields in wire order, and the tagged ones in order of tags."""
        present = [f for f in self.fields if f.present(version)]
        return [f for f in present if f.tag is None], sorted(
            (f for f in present if f.tag is not None), key=lambda f: f.tag or 0
        )


class Schema:
    """One message: `name` is that of its class (MetadataRequest), `api` that of the pair (Metadata)."""

    __slots__ = ("api", "api_key", "flexible", "name", "root", "structs", "versions")

    def __init__(self, name: str, api: str, api_key: int | None, versions: Range, flexible: int | None) -> None:
        self.name = name
        self.api = api
        self.api_key = api_key
        self.versions = versions
        self.flexible = flexible
        self.root = Struct(name)
        self.structs: dict[str, Struct] = {}

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible


_loaded: dict[str, Schema] = {}


def schema_of(name: str) -> Schema:
    """The schema of a message by the name of its class, read from its file at the first call."""
    schema = _loaded.get(name)
    if schema is None:
        path = os.path.join(DIRECTORY, file_name(name.removesuffix("Request").removesuffix("Response")))
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            raise UnknownMessage(f"no message {name}: there is no {path}") from None
        for schema in parse(text, path):
            _loaded.setdefault(schema.name, schema)
        if name not in _loaded:
            raise UnknownMessage(f"no message {name} in {path}")
        schema = _loaded[name]
    return schema


def file_name(api: str) -> str:
    """AddPartitionsToTxn -> add_partitions_to_txn.txt"""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in api).lstrip("_") + ".txt"


def message_names() -> list[str]:
    """The class names of all messages that have a table, in order of their files. Reads every table."""
    names: list[str] = []
    for entry in sorted(os.listdir(DIRECTORY)):
        if entry.endswith(".txt"):
            path = os.path.join(DIRECTORY, entry)
            with open(path, encoding="utf-8") as file:
                names += (schema.name for schema in parse(file.read(), path))
    return names


def parse(text: str, path: str = "<text>") -> list[Schema]:
    """The messages of one file."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    at = 1  # line number
    try:
        api, api_key, versions, flexible = _head(lines[0][1].split())
        schemas: list[Schema] = []
        parents: list[Struct] = []  # by depth: what a field indented so far belongs to
        for at, line in lines[1:]:  # noqa: B007
            depth, odd = divmod(len(line) - len(line.lstrip(" ")), 2)
            words = line.split()
            if odd:
                raise SchemaError("indented by an odd number of spaces")
            if depth == 1:
                (section,) = words
                schema = Schema(api + SECTIONS[section], api, api_key, versions, flexible)
                schemas.append(schema)
                parents = [schema.root]
            elif 2 <= depth < 2 + len(parents):
                del parents[depth - 1 :]
                field = _field(words, schemas[-1])
                parents[-1].fields.append(field)
                if field.struct is not None and not field.struct.fields:
                    parents.append(field.struct)
            else:
                raise SchemaError("indented deeper than the field above allows")
    except (SchemaError, ValueError, KeyError, IndexError) as error:
        raise SchemaError(f"{path}:{at}: {error}") from None
    return schemas


def _head(words: list[str]) -> tuple[str, int | None, Range, int | None]:
    api, words = words[0], words[1:]
    api_key = int(words.pop(0)) if words[0].isdigit() else None
    if words[0] != "versions":
        raise SchemaError("the first line lacks `versions`")
    versions = _range(words[1], (0, 32767))
    flexible = None
    if words[2:]:
        if words[2] != "flexible":
            raise SchemaError(f"{words[2]!r} where `flexible` is due")
        flexible = _range(words[3], versions)[0]
    return api, api_key, versions, flexible


def _range(text: str, within: Range) -> Range:
    if text.endswith("+"):
        return int(text[:-1]), within[1]
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _field(words: list[str], schema: Schema) -> Field:
    name, type_text, *rest = words
    versions = schema.versions
    if rest and rest[0][0].isdigit():
        versions = _range(rest.pop(0), schema.versions)
    tag = None
    if rest and rest[0] == "tag":
        tag = int(rest[1])
        del rest[:2]
    default_text = None
    if rest and rest[0] == "=":
        default_text = " ".join(rest[1:])
        rest = []
    if rest:
        raise SchemaError(f"cannot read {' '.join(rest)!r}")

    type_text, mark, null_versions = type_text.partition("?")
    nullable = (_range(null_versions, schema.versions) if null_versions else versions) if mark else None
    array = type_text.startswith("[") and type_text.endswith("]")
    type_name = type_text[1:-1] if array else type_text
    struct = None
    if type_name[0].isupper():
        struct = schema.structs.setdefault(type_name, Struct(type_name))
    elif type_name not in SCALARS:
        raise SchemaError(f"no type {type_name!r}")
    if default_text == "null" and nullable is None:
        raise SchemaError("null by default, but never nullable")
    default = _default(type_name, array, struct, default_text)
    return Field(name, type_name, versions, array=array, struct=struct, nullable=nullable, tag=tag, default=default)


def _default(type_name: str, array: bool, struct: Struct | None, text: str | None) -> object:
    if text == "null":
        return None
    if array:
        if text:
            raise SchemaError("an array's default is empty or null")
        return ()
    if struct is not None:
        return struct
    if type_name == "bool":
        return text == "true"
    if type_name == "float64":
        return float(text or 0)
    if type_name.startswith("int"):
        return int(text or 0)
    if type_name == "uuid":
        return NO_UUID
    return b"" if type_name in ("bytes", "records") else text or ""
