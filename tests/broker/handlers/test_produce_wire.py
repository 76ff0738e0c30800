"""The hand-written reader and writers of Produce say what the schema's say, in every version."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.broker.handlers import produce
from ottla.broker.handlers.produce_wire import Produced, read_request, write_response, write_single
from ottla.protocol import apis, codec, messages
from ottla.protocol.errors import MalformedMessage
from support.requests import frame_of
from support.strategies import message_strategy
from support.wire_twins import check_on_damaged_frames

VERSIONS = range(14)
FEW = settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def by_hand(frame, version):
    acks, timeout_ms, transactional_id, topics = read_request(memoryview(frame), version)
    return (
        acks,
        timeout_ms,
        transactional_id,
        [
            (topic, [(index, None if records is None else bytes(records)) for index, records in batches])
            for topic, batches in topics
        ],
    )


def by_schema(frame, version):
    *_, position = apis.decode_request_header(memoryview(frame))
    body, _ = codec.decoder(messages.ProduceRequest, version)(memoryview(frame), position)
    return (
        body.acks,
        body.timeout_ms,
        None if body.transactional_id is None else body.transactional_id.encode(),
        [
            (
                bytes(topic.topic_id) if version >= 13 else topic.name.encode(),
                [(one.index, None if one.records is None else bytes(one.records)) for one in topic.partition_data],
            )
            for topic in body.topic_data
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_reader_reads_what_the_schema_reads(version):
    @FEW
    @given(message_strategy("ProduceRequest", version), st.none() | st.text(max_size=5))
    def check(message, client_id):
        frame = frame_of(message, version, client_id)
        assert by_hand(frame, version) == by_schema(frame, version)
        assert by_hand(frame + b"more", version) == by_schema(frame, version)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_reader_refuses_what_the_schema_refuses(version):
    check_on_damaged_frames("ProduceRequest", version, by_hand, by_schema)


@pytest.mark.parametrize("version", [9, 12])
@pytest.mark.parametrize("size", [32768, 40000])
def test_a_name_longer_than_the_protocol_has_is_malformed(version, size):
    message = messages.ProduceRequest(acks=1, topic_data=[messages.ProduceRequest.Topic(name="x" * 32767)])
    frame = frame_of(message, version, None)
    name = codec.write_varint(32768) + b"x" * 32767
    assert name in frame
    with pytest.raises(MalformedMessage):
        by_hand(frame.replace(name, codec.write_varint(size + 1) + b"x" * size), version)


ANSWERS = st.builds(
    Produced,
    st.integers(0, 2**31 - 1),
    st.sampled_from([0, 0, 2, 45, 87]),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.none() | st.text(max_size=200),
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.text(max_size=150)), max_size=2).map(tuple),
)


def read_response(reply, version):
    """What a client reads of a reply: the correlation id, and (topic, answers) as the writer got them."""
    size, correlation_id = int.from_bytes(reply[:4], "big"), int.from_bytes(reply[4:8], "big")
    assert size == len(reply) - 4
    start = 8
    if apis.response_header_version(0, version):
        assert reply[8] == 0
        start = 9
    body = codec.decode("ProduceResponse", version, bytes(reply[start:]))
    assert body.throttle_time_ms == 0
    topics = []
    for topic in body.responses:
        answers = [
            Produced(
                one.index,
                one.error_code,
                one.base_offset,
                one.log_append_time_ms,
                one.log_start_offset,
                one.error_message,
                tuple((error.batch_index, error.batch_index_error_message) for error in one.record_errors),
            )
            for one in topic.partition_responses
        ]
        topics.append((bytes(topic.topic_id) if version >= 13 else topic.name.encode(), answers))
    return correlation_id, topics


def as_version_says(answer, version):
    """An answer without what this version has no place for, or what is only said of errors."""
    if version < 2:
        answer = answer._replace(append_time=-1)
    if version < 5:
        answer = answer._replace(log_start=-1)
    if version < 8 or not answer.code:
        answer = answer._replace(message=None, records=())
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_writer_writes_the_schema_reads(version):
    topic = st.binary(min_size=16, max_size=16) if version >= 13 else st.text(max_size=130).map(str.encode)

    @FEW
    @given(st.lists(st.tuples(topic, st.lists(ANSWERS, max_size=130)), max_size=3), st.integers(0, 2**31 - 1))
    def check(results, correlation_id):
        reply = write_response(results, version, correlation_id)
        expected = [(name, [as_version_says(answer, version) for answer in answers]) for name, answers in results]
        assert read_response(reply, version) == (correlation_id, expected)

    check()


@pytest.mark.parametrize("version", range(produce.FLEXIBLE, 14))
def test_the_short_way_for_one_batch_writes_the_same_bytes(version):
    for topic in (b"t" * 16, b"x" * 200 if version < 13 else b"\xff" * 16):
        for offset, append_time in ((0, -1), (2**40, 1_700_000_000_000)):
            answer = Produced(3, 0, offset, append_time, 7)
            again = [write_single(topic, 3, offset, append_time, 7, version, 99) for _ in range(2)]
            assert again == [write_response([(topic, [answer])], version, 99)] * 2
