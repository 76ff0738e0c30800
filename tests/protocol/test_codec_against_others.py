"""The same bytes as Kafka and as kio, an independent implementation.

In the versions that kio knows, it reads what we write and writes it again: both must write the same bytes. Only our own
well-formed bytes go to it (it aborts the process on some hostile ones), and values are kept to what its types can hold.
For the versions that Kafka 4 dropped, which kio lacks, `kafka_3_9_bytes.txt` holds bytes that the Java classes of Kafka
3.9 read and write unchanged.
"""

import dataclasses
import io
import os

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
with open(os.path.join(os.path.dirname(__file__), "kafka_3_9_bytes.txt"), encoding="utf-8") as file:
    OLD = [(name, int(version), wire.replace("-", "")) for name, version, wire in (line.split() for line in file)]


def test_every_message_and_version_is_compared_with_kio_or_kafka():
    compared = {(name, version) for name, _, version in PAIRS} | {(name, version) for name, version, _ in OLD}
    # records of KRaft's and the coordinators' logs are compared in tests/apache_kafka, with those that a Kafka wrote
    requests = [name for name in message_names() if not name.endswith(("Record", "Key", "Value"))]
    versions = {name: schema_of(name).versions for name in requests}
    assert compared == {(name, v) for name, (first, last) in versions.items() for v in range(first, last + 1)}


@pytest.mark.parametrize(("name", "version", "wire"), OLD, ids=lambda value: str(value)[:40])
def test_bytes_of_dropped_versions_are_read_and_written_as_kafka_3_9_does(name, version, wire):
    assert encode(decode(name, version, bytes.fromhex(wire)), version).hex() == wire


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


def names(field_name):
    # kio drops the unit of a time.
    return field_name.removesuffix("_ms").replace("_", "")


@pytest.mark.parametrize(("name", "api", "version"), PAIRS)
def test_fields_have_kafkas_names_in_kafkas_order(name, api, version):
    def check(struct, entity):
        ours = [field for field in struct.fields if field.present(version)]
        theirs = dataclasses.fields(entity)
        assert [names(field.name) for field in ours] == [names(field.name) for field in theirs]
        for field, their in zip(ours, theirs, strict=True):
            if field.struct is not None:
                check(field.struct, next(t for t in flat(their.type) if dataclasses.is_dataclass(t)))

    def flat(annotation):
        yield annotation
        for inner in getattr(annotation, "__args__", ()):
            yield from flat(inner)

    check(schema_of(name).root, load_entity_schema(api, version, kio_kind(name)))
