"""The notation of the tables, and what the tables themselves must obey."""

import os

import pytest

from ottla.protocol.schema import DIRECTORY, SchemaError, UnknownMessage, file_name, message_names, parse, schema_of

EXAMPLE = """\
Sample 99  versions 1-7  flexible 5+
  request
    name     string?3+           = null
    count    int32      2-4      = -1
    items    [Item]
      id     uuid       6+
      part   Part
        low  int8
    other    [Item]?    7
    extra    Part       5+  tag 0
  response
    ok       bool                = true
"""


def test_a_table_gives_a_schema_per_section():
    request, response = parse(EXAMPLE)
    assert (request.name, request.api, request.api_key) == ("SampleRequest", "Sample", 99)
    assert (request.versions, request.flexible) == ((1, 7), 5)
    assert response.name == "SampleResponse"
    assert [field.name for field in request.root.fields] == ["name", "count", "items", "other", "extra"]
    name, count, items, other, extra = request.root.fields
    assert name.default is None
    assert not name.nullable_in(2)
    assert name.nullable_in(3)
    assert (count.versions, count.default) == ((2, 4), -1)
    assert items.array
    assert items.struct is other.struct
    assert [field.name for field in items.struct.fields] == ["id", "part"]
    assert (other.versions, other.nullable) == ((7, 7), (7, 7))
    assert extra.tag == 0
    assert extra.struct is request.structs["Part"]
    assert response.root.fields[0].default is True


def test_tagged_fields_are_apart_and_in_order_of_tags():
    (schema,) = parse("S  versions 0  flexible 0+\n  data\n    b int8 tag 1\n    a int8 tag 0\n    c int8\n")
    untagged, tagged = schema.root.in_version(0)
    assert [field.name for field in untagged] == ["c"]
    assert [field.name for field in tagged] == ["a", "b"]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("S 1\n", ":1: "),
        ("S 1  versions 0  flixible 1+\n", "`flexible` is due"),
        ("S 1  versions 0\n  reply\n", ":2: 'reply'"),
        ("S 1  versions 0\n  request\n    a int33\n", ":3: no type 'int33'"),
        ("S 1  versions 0\n  request\n   a int32\n", ":3: indented by an odd"),
        ("S 1  versions 0\n  request\n      a int32\n", ":3: indented deeper"),
        ("S 1  versions 0\n  request\n    a int32\n      b int32\n", ":4: indented deeper"),
        ("S 1  versions 0\n  request\n    a string = null\n", ":3: null by default"),
        ("S 1  versions 0\n  request\n    a int32 maybe\n", ":3: cannot read 'maybe'"),
        ("S 1  versions 0\n  request\n    a [int32] = 5\n", ":3: an array's default"),
        ("S 1  versions 0\n  request\n    a\n", ":3: "),
        ("S 1  versions 0\n  request\n    a int32 = x\n", ":3: "),
    ],
)
def test_a_mistake_in_a_table_is_reported_with_its_line(table, complaint):
    with pytest.raises(SchemaError, match=complaint):
        parse(table, "file")


def test_a_name_without_a_table_is_unknown():
    for name in ("NoSuchRequest", "Metadata", "../../x", "ConsumerProtocolSubscriptionRequest"):
        with pytest.raises(UnknownMessage):
            schema_of(name)


def test_every_file_is_named_after_its_message_and_holds_a_pair_or_data():
    for entry in os.listdir(DIRECTORY):
        with open(os.path.join(DIRECTORY, entry), encoding="utf-8") as file:
            schemas = parse(file.read(), entry)
        assert file_name(schemas[0].api) == entry
        suffixes = [schema.name.removeprefix(schema.api) for schema in schemas]
        assert suffixes == (["Request", "Response"] if schemas[0].api_key is not None else [""])


def test_tables_are_aligned_and_free_of_redundant_versions():
    for entry in sorted(os.listdir(DIRECTORY)):
        with open(os.path.join(DIRECTORY, entry), encoding="utf-8") as file:
            text = file.read()
        assert text.endswith("\n")
        columns = None
        for line in text.splitlines():
            assert line == line.rstrip(), entry
            if len(line) - len(line.lstrip()) < 4:
                columns = None
            else:
                name = line.split()[0]
                start = line.index(line.split()[1], line.index(name) + len(name))
                columns = columns or start
                assert start == columns, f"{entry}: {line}"


def test_field_names_are_unique_and_tags_rise_from_zero():
    for name in message_names():
        schema = schema_of(name)
        for struct in [schema.root, *schema.structs.values()]:
            names = [field.name for field in struct.fields]
            assert len(names) == len(set(names))
            assert all(field.isidentifier() for field in names)
            for version in range(schema.versions[0], schema.versions[1] + 1):
                tags = [field.tag for field in struct.in_version(version)[1]]
                assert len(tags) == len(set(tags))
                assert not tags or schema.is_flexible(version)
