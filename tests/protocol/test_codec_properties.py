"""What must hold for every message in every version, whatever the values and whatever the bytes."""

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.codec import decode, decoder, encode
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import message_names, schema_of

NAMES = message_names()
PAIRS = [(name, v) for name in NAMES for v in range(schema_of(name).versions[0], schema_of(name).versions[1] + 1)]
FEW = settings(
    max_examples=5,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@pytest.mark.parametrize(("name", "version"), PAIRS)
def test_a_message_survives_the_wire_and_no_part_of_it_passes_for_the_whole(messages_of, name, version):
    @FEW
    @given(messages_of(name, version), st.data())
    def check(message, data):
        wire = bytes(encode(message, version))
        again = decode(name, version, wire)
        assert again == message
        assert encode(again, version) == wire

        for length in range(max(0, len(wire) - 200), len(wire)):
            with pytest.raises(MalformedMessage):
                decode(name, version, wire[:length])
        with pytest.raises(MalformedMessage):
            decode(name, version, wire + b"\0")

        if wire:
            damaged = bytearray(wire)
            damaged[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
            try:
                read = decode(name, version, damaged)
            except MalformedMessage:
                return
            encode(read, version)

    check()


@pytest.mark.parametrize("name", NAMES)
def test_arbitrary_bytes_are_a_message_or_malformed_in_every_version(name):
    first, last = schema_of(name).versions
    decoders = [decoder(name, version) for version in range(first, last + 1)]

    @settings(FEW, max_examples=25)
    @given(st.binary(max_size=120) | st.lists(st.sampled_from([0, 1, 2, 3, 127, 128, 255]), max_size=80).map(bytes))
    def check(data):
        view = memoryview(data)
        for read in decoders:
            try:
                _, position = read(view, 0)
            except MalformedMessage:
                continue
            assert position <= len(data)

    check()


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x7f\xff\xff\xff" * 8,
        b"\0\0\0\1\x7f\xff\xff\xff" * 4,
        b"\xff\xff\xff\xff\x0f" * 6,
        b"\2\xff\xff\xff\xff\x07" * 5,
    ],
    ids=["huge count", "huge count inside", "huge varint", "huge varint inside"],
)
def test_a_length_field_allocates_nothing_before_its_bytes_are_there(hostile):
    view = memoryview(hostile)
    decoders = [decoder(name, version) for name, version in PAIRS]
    tracemalloc.start()
    try:
        for read in decoders:
            # another thread may allocate meanwhile, but not in each of the tries
            assert min(_peak(read, view) for _ in range(3)) < 16_384, read
    finally:
        tracemalloc.stop()


def _peak(read, view):
    """How much more memory was held at one time, in bytes, while `read` found out that it cannot read."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        read(view, 0)
    except MalformedMessage:
        pass
    return tracemalloc.get_traced_memory()[1] - before
