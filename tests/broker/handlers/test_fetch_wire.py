"""The hand-written reader and writer of Fetch say what the schema's say, in every version."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.broker.fetch_sessions import FetchPartition
from ottla.broker.handlers.fetch_wire import Fetched, read_request, write_response
from ottla.protocol import apis, codec, messages
from ottla.protocol.errors import MalformedMessage
from support.requests import frame_of
from support.strategies import message_strategy
from support.wire_twins import check_on_damaged_frames

VERSIONS = range(19)
FEW = settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def by_hand(frame, version):
    *fields, partitions, forgotten = read_request(memoryview(frame), version)
    return (
        *fields,
        [(one.topic, one.index, one.offset, one.max_bytes, one.leader_epoch, one.last_epoch) for one in partitions],
        forgotten,
    )


def by_schema(frame, version):
    *_, position = apis.decode_request_header(memoryview(frame))
    body, _ = codec.decoder(messages.FetchRequest, version)(memoryview(frame), position)

    def key(topic):
        return bytes(topic.topic_id) if version >= 13 else topic.topic.encode()

    return (
        body.replica_state.replica_id if version >= 15 else body.replica_id,
        body.max_wait_ms,
        body.min_bytes,
        body.max_bytes,
        body.isolation_level,
        body.session_id,
        body.session_epoch,
        [
            (
                key(topic),
                one.partition,
                one.fetch_offset,
                one.partition_max_bytes,
                one.current_leader_epoch,
                one.last_fetched_epoch,
            )
            for topic in body.topics
            for one in topic.partitions
        ],
        [(key(topic), index) for topic in body.forgotten_topics_data for index in topic.partitions],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_reader_reads_what_the_schema_reads(version):
    @FEW
    @given(message_strategy("FetchRequest", version), st.none() | st.text(max_size=5))
    def check(message, client_id):
        frame = frame_of(message, version, client_id)
        assert by_hand(frame, version) == by_schema(frame, version)
        assert by_hand(frame + b"more", version) == by_schema(frame, version)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_reader_refuses_what_the_schema_refuses(version):
    unread = ("cluster_id", "replica_state", "replica_directory_id", "high_watermark")
    if version >= 12:
        unread += ("longer than 32 bits",)  # the length of the cluster id, in its tagged field
    if version >= 15:
        unread += ("ends early",)  # inside the replica's state
    check_on_damaged_frames("FetchRequest", version, by_hand, by_schema, unread=unread)


@pytest.mark.parametrize(("version", "null_rack"), [(11, b"\xff\xff"), (12, b"\0\0")])
def test_a_rack_that_is_null_is_malformed(version, null_rack):
    frame = frame_of(messages.FetchRequest(), version, None)
    with pytest.raises(MalformedMessage):
        by_hand(frame[:-2] + null_rack, version)


@st.composite
def answers(draw, version):
    topic = st.binary(min_size=16, max_size=16) if version >= 13 else st.text(max_size=130).map(str.encode)
    found = []
    for name in draw(st.lists(topic, max_size=3, unique=True)):
        for _ in range(draw(st.integers(0, 2))):
            records = draw(st.none() | st.sampled_from([b"r", b"records" * 40]))
            offset = st.integers(-1, 2**63 - 1)
            found.append(
                Fetched(
                    FetchPartition(name, draw(st.integers(0, 2**31 - 1)), 0, 0, -1, -1),
                    draw(st.sampled_from([0, 1, 3, 74, 76])),
                    draw(offset),
                    draw(offset),
                    draw(offset),
                    records,
                    len(records or b""),
                    draw(st.none() | st.tuples(st.integers(0, 2**31 - 1), offset)) if version >= 12 else None,
                    draw(st.none() | st.lists(st.tuples(offset, offset), max_size=2)) if version >= 4 else None,
                )
            )
    return found + found[-1:] * draw(st.sampled_from([0, 130]))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_writer_writes_the_schema_reads(version):
    @FEW
    @given(answers(version), st.integers(0, 2**31 - 1), st.sampled_from([0, 70, 71]), st.integers(0, 2**31 - 1))
    def check(found, correlation_id, error, session_id):
        reply = b"".join(write_response(found, version, correlation_id, error, session_id))
        assert int.from_bytes(reply[:4], "big") == len(reply) - 4
        assert int.from_bytes(reply[4:8], "big") == correlation_id
        if version >= 12:
            assert reply[8] == 0
        body = codec.decode("FetchResponse", version, reply[9 if version >= 12 else 8 :])
        assert body.throttle_time_ms == 0
        assert (body.error_code, body.session_id) == ((error, session_id) if version >= 7 else (0, 0))
        read = [
            (
                bytes(topic.topic_id) if version >= 13 else topic.topic.encode(),
                one.partition_index,
                one.error_code,
                one.high_watermark,
                one.last_stable_offset,
                one.log_start_offset,
                bytes(one.records),
                (one.diverging_epoch.epoch, one.diverging_epoch.end_offset),
                [(each.producer_id, each.first_offset) for each in one.aborted_transactions],
                one.preferred_read_replica,
            )
            for topic in body.responses
            for one in topic.partitions
        ]
        assert read == [
            (
                one.wanted.topic,
                one.wanted.index,
                one.code,
                one.high_watermark,
                one.last_stable if version >= 4 else -1,
                one.log_start if version >= 5 else -1,
                one.records or b"",
                one.diverging or (-1, -1),
                one.aborted or [],
                -1,
            )
            for one in found
        ]

    check()
