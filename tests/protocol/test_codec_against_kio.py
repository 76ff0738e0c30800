"""The same bytes as kio, an independent implementation, in all versions that it knows.

kio reads what we write and writes it again: both must write the same bytes. Only our own well-formed bytes go to it
(it aborts the process on some hostile ones), and values are kept to what its types can hold.
"""

import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.protocol.codec import decode, encode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import file_name, message_names, schema_of

KINDS = {"Request": EntityType.request, "Response": EntityType.response, "Header": EntityType.header}


def kio_kind(name):
    return next((kind for suffix, kind in KINDS.items() if name.endswith(suffix)), EntityType.data)


def pairs():
    for name in message_names():
        schema = schema_of(name)
        api = file_name(schema.api).removesuffix(".txt")
        for version in range(schema.versions[0], schema.versions[1] + 1):
            if kio_kind(name) in schema_name_map.get(api, {}).get(version, {}):
                yield name, api, version


def within_kio(field):
    """Codes and times that kio's types can hold; -1 it takes for no time at all."""
    if field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if field.type == "int64" and ("time" in field.name or field.name.endswith("_ms")):
        return st.integers(0, 4_000_000_000_000)
    return None


PAIRS = list(pairs())


def test_kio_knows_most_of_our_versions():
    assert len(PAIRS) > 450


@pytest.mark.parametrize(("name", "api", "version"), PAIRS)
def test_kio_reads_our_bytes_and_writes_the_same(messages_of, name, api, version):
    entity = load_entity_schema(api, version, kio_kind(name))
    read, write = entity_reader(entity), entity_writer(entity)

    @settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(messages_of(name, version, within_kio))
    def check(message):
        wire = bytes(encode(message, version))
        theirs, length = read(wire, 0)
        assert length == len(wire)
        again = io.BytesIO()
        write(again, theirs)
        assert again.getvalue() == wire
        assert decode(name, version, again.getvalue()) == message

    check()
