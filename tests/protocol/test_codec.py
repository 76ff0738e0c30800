"""The codec on bytes written by hand, and on what clients get wrong."""

import pytest

from ottla.protocol.codec import decode, decoder, encode, encoder, read_varint, source, write_varint
from ottla.protocol.errors import ErrorCode, MalformedMessage, UnencodableValue, UnsupportedVersion
from ottla.protocol.messages import (
    AddPartitionsToTxnRequest,
    AlterClientQuotasRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatResponse,
    ConsumerProtocolSubscription,
    DescribeTopicPartitionsRequest,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    SaslHandshakeRequest,
)

U = bytes(range(16))


def b(text: str) -> bytes:
    """Bytes from words: hex, or 'text' for ASCII."""
    return b"".join(w[1:-1].encode() if w.startswith("'") else bytes.fromhex(w) for w in text.split())


KNOWN = [
    (ApiVersionsRequest(), 0, ""),
    (ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7"), 3, "05 'kcat' 04 '1.7' 00"),
    (
        ApiVersionsResponse(
            api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)], throttle_time_ms=5
        ),
        1,
        "0000 00000001 0012 0000 0004 00000005",
    ),
    (
        # The range of key 18, then features under their tags: 0 what is supported, 1 the finalized epoch.
        ApiVersionsResponse(
            error_code=35,
            api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=4)],
            supported_features=[ApiVersionsResponse.SupportedFeature(name="m", min_version=1, max_version=7)],
            finalized_features_epoch=9,
        ),
        4,
        "0023 02 0012 0000 0004 00 00000000 02 00 08 02 02 'm' 0001 0007 00 01 08 0000000000000009",
    ),
    (MetadataRequest(topics=[]), 0, "00000000"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (MetadataRequest(topics=[MetadataRequest.Topic(name="ab")]), 4, "00000001 0002 'ab' 01"),
    (
        MetadataRequest(topics=[MetadataRequest.Topic(topic_id=U, name=None)], allow_auto_topic_creation=False),
        12,
        f"02 {U.hex()} 00 00 00 00 00",
    ),
    (
        MetadataResponse(
            brokers=[MetadataResponse.Broker(node_id=1, host="h", port=9092)],
            topics=[
                MetadataResponse.Topic(
                    name="t", partitions=[MetadataResponse.Partition(leader_id=1, replica_nodes=[1, 2], isr_nodes=[1])]
                )
            ],
        ),
        0,
        "00000001 00000001 0001 'h' 00002384"
        "00000001 0000 0001 't' 00000001 0000 00000000 00000001 00000002 00000001 00000002 00000001 00000001",
    ),
    (
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                ProduceRequest.Topic(name="t", partition_data=[ProduceRequest.Partition(index=3, records=b"RR")])
            ],
        ),
        2,
        "ffff 000003e8 00000001 0001 't' 00000001 00000003 00000002 'RR'",
    ),
    (
        ProduceRequest(
            acks=1, topic_data=[ProduceRequest.Topic(topic_id=U, partition_data=[ProduceRequest.Partition()])]
        ),
        13,
        f"00 0001 00000000 02 {U.hex()} 02 00000000 00 00 00 00",
    ),
    (
        ProduceResponse(
            responses=[
                ProduceResponse.Topic(
                    name="t",
                    partition_responses=[
                        ProduceResponse.Partition(
                            error_code=6, current_leader=ProduceResponse.CurrentLeader(leader_id=2, leader_epoch=5)
                        )
                    ],
                )
            ]
        ),
        10,
        "02 02 't' 02 00000000 0006 0000000000000000 ffffffffffffffff ffffffffffffffff 01 00"
        "01 00 09 00000002 00000005 00 00 00000000 00",
    ),
    (
        FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=4, replica_epoch=7),
            max_wait_ms=1,
            min_bytes=2,
            max_bytes=3,
        ),
        15,
        "00000001 00000002 00000003 00 00000000 ffffffff 01 01 01 01 01 0d 00000004 0000000000000007 00",
    ),
    (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3, "0001 'g' 00000001 0001 'm' ffff"),
    (HeartbeatRequest(group_id="g", group_instance_id=""), 3, "0001 'g' 00000000 0000 0000"),
    (HeartbeatRequest(group_id="g", member_id="m", group_instance_id=None), 4, "02 'g' 00000000 02 'm' 00 00"),
    (HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 0, "001b"),
    (ListOffsetsResponse(), 0, "00000000"),
    (ConsumerGroupHeartbeatResponse(assignment=None), 0, "00000000 0000 00 00 00000000 00000000 ff 00"),
    (
        ConsumerGroupHeartbeatResponse(
            member_id="m",
            assignment=ConsumerGroupHeartbeatResponse.Assignment(
                topic_partitions=[ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=U, partitions=[1])]
            ),
        ),
        0,
        f"00000000 0000 00 02 'm' 00000000 00000000 01 02 {U.hex()} 02 00000001 00 00 00",
    ),
    (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[0])],
        ),
        0,
        "0001 'x' 0000000000000001 0000 00000001 0001 't' 00000001 00000000",
    ),
    (ConsumerProtocolSubscription(topics=["a"], user_data=b""), 0, "00000001 0001 'a' 00000000"),
]


@pytest.mark.parametrize(("message", "version", "text"), KNOWN, ids=lambda value: str(value)[:40])
def test_known_bytes_are_read_and_written(message, version, text):
    wire = b(text)
    assert encode(message, version) == wire
    assert decode(type(message), version, wire) == message


def test_unknown_tags_are_skipped_wherever_they_stand():
    topic = b"\x02" + U + b"\x00" + b"\x02\x07\x01X\x09\x00"  # tags 7 and 9 of the topic
    wire = topic + b"\x01\x00" + b"\x01\x80\x01\x02ZZ"  # tag 128 of the message
    assert decode(MetadataRequest, 12, wire) == MetadataRequest(topics=[MetadataRequest.Topic(topic_id=U, name=None)])


def test_an_unknown_tag_beside_known_ones_is_skipped():
    known = encode(FetchRequest(cluster_id="c"), 12)
    assert known.endswith(b("01 00 02 02 'c'"))
    wire = known[:-5] + b("02 00 02 02 'c' 05 03 'xyz'")
    assert decode(FetchRequest, 12, wire) == FetchRequest(cluster_id="c")


@pytest.mark.parametrize(
    "tags",
    [
        "02 00 02 02 'c' 00 02 02 'c'",  # a known tag twice
        "02 05 00 00 02 02 'c'",  # out of order
        "01 00 03 02 'c' 00",  # longer than its value
        "01 00 01 02 'c'",  # shorter than its value
        "01 05 09 'xyz'",  # beyond the end
        "02 00 02 02 'c'",  # fewer than announced
        "ff ff ff ff 0f",  # four billion of them
    ],
)
def test_tags_that_break_the_rules_are_malformed(tags):
    known = encode(FetchRequest(), 12)
    with pytest.raises(MalformedMessage):
        decode(FetchRequest, 12, known[:-1] + b(tags))


@pytest.mark.parametrize("tags", ["02 07 00 07 00", "02 07 00 06 00", "01 07 01", "01 07"])
def test_tags_that_break_the_rules_are_malformed_where_none_are_known(tags):
    with pytest.raises(MalformedMessage):
        decode(HeartbeatResponse, 4, b("00000000 0000") + b(tags))


def test_tagged_fields_with_their_default_are_not_written():
    assert encode(FetchRequest(), 12).endswith(b("01 01 01 00"))
    partition = FetchResponse.Partition(diverging_epoch=FetchResponse.DivergingEpoch(), records=b"")
    small = encode(FetchResponse(responses=[FetchResponse.Topic(partitions=[partition])]), 12)
    partition.diverging_epoch.epoch = 0
    big = encode(FetchResponse(responses=[FetchResponse.Topic(partitions=[partition])]), 12)
    assert len(big) == len(small) + 2 + 13


def test_any_byte_but_zero_is_true():
    for byte in (1, 2, 255):
        assert decode(MetadataRequest, 4, b("00000000") + bytes([byte])).allow_auto_topic_creation is True
    assert decode(MetadataRequest, 4, b("00000000 00")).allow_auto_topic_creation is False


@pytest.mark.parametrize(
    ("cls", "version", "text", "field"),
    [
        (MetadataRequest, 0, "ffffffff", "topics"),  # null topics only from version 1
        (MetadataRequest, 1, "00000001 ffff", "topics.name"),
        (MetadataRequest, 9, "02 00 00 01 00 00 00", "topics.name"),
        (HeartbeatRequest, 0, "ffff 00000000 0000", "group_id"),
    ],
)
def test_null_where_the_version_has_none_is_malformed(cls, version, text, field):
    with pytest.raises(MalformedMessage, match=f"{cls.__name__} v{version}: {field} is null"):
        decode(cls, version, b(text))


@pytest.mark.parametrize("text", ["ff", "c3", "ed a0 80", "61 e2 82"])
def test_text_that_is_not_utf_8_is_malformed(text):
    raw = b(text)
    with pytest.raises(MalformedMessage, match="UTF-8"):
        decode(SaslHandshakeRequest, 0, len(raw).to_bytes(2, "big") + raw)
    with pytest.raises(MalformedMessage, match="UTF-8"):
        decode(MetadataRequest, 9, b"\x02" + bytes([len(raw) + 1]) + raw + b"\0\0\0\0\0")


def test_a_string_has_at_most_32767_bytes_in_both_forms_of_length():
    longest = HeartbeatRequest(group_id="g" * 32767)
    too_long = HeartbeatRequest(group_id="g" * 32768)
    for version in (0, 4):
        assert decode(HeartbeatRequest, version, encode(longest, version)) == longest
        with pytest.raises(UnencodableValue, match=r"group_id = 'ggg.*32767"):
            encode(too_long, version)
    wire = write_varint(32769) + b"g" * 32768 + b("00000000 01 00 00")
    with pytest.raises(MalformedMessage, match="group_id has length 32768"):
        decode(HeartbeatRequest, 4, wire)


def test_varints_have_at_most_32_bits():
    for value in (0, 127, 128, 16383, 16384, 2**31, 2**32 - 1):
        wire = write_varint(value)
        assert read_varint(memoryview(wire), 1, wire[0]) == (value, len(wire))
    for wire in (b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 11):
        with pytest.raises(MalformedMessage):
            read_varint(memoryview(wire), 1, wire[0])


def test_records_are_a_view_of_the_input_and_bytes_are_a_copy():
    partition = ProduceRequest.Partition(records=b"batch")
    wire = encode(ProduceRequest(topic_data=[ProduceRequest.Topic(partition_data=[partition])]), 9)
    records = decode(ProduceRequest, 9, wire).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    wire[wire.index(b"batch")] = ord("B")
    assert bytes(records) == b"Batch"
    assert type(decode(ConsumerProtocolSubscription, 0, b("00000000 00000001 'u'")).user_data) is bytes


def test_a_decoder_reads_from_a_position_and_says_where_it_stopped():
    view = memoryview(b"head" + b("001b") + b"tail")
    assert decoder(HeartbeatResponse, 0)(view, 4) == (HeartbeatResponse(error_code=27), 6)
    assert decoder("HeartbeatResponse", 0)(view, 4)[1] == 6


def test_an_encoder_writes_behind_what_a_given_buffer_holds():
    out = bytearray(b"head")
    assert encoder("HeartbeatResponse", 0)(HeartbeatResponse(error_code=27), out) is out
    assert out == b"head\x00\x1b"


def test_bytes_after_the_message_are_malformed_for_decode():
    with pytest.raises(MalformedMessage, match="HeartbeatResponse v0: 2 bytes too many"):
        decode(HeartbeatResponse, 0, bytes(4))


def test_fields_that_the_version_lacks_are_dropped_and_come_back_as_defaults():
    message = MetadataRequest(include_topic_authorized_operations=True, allow_auto_topic_creation=False)
    assert decode(MetadataRequest, 1, encode(message, 1)) == MetadataRequest()


def test_versions_out_of_range_are_refused_by_name():
    with pytest.raises(UnsupportedVersion, match="MetadataRequest has versions 0 to 13, not 14"):
        encode(MetadataRequest(), 14)
    with pytest.raises(UnsupportedVersion):
        decoder("MetadataRequest", -1)


def test_a_part_of_a_message_is_not_a_message():
    with pytest.raises(TypeError, match=r"MetadataRequest\.Topic is a part"):
        encode(MetadataRequest.Topic(), 1)


@pytest.mark.parametrize(
    ("message", "version", "complaint"),
    [
        (HeartbeatRequest(generation_id=1 << 31), 0, "HeartbeatRequest v0: generation_id = 2147483648 does"),
        (HeartbeatRequest(generation_id="7"), 4, "generation_id = '7' does not fit int32"),
        (HeartbeatRequest(group_id=None), 0, "group_id is None"),
        (HeartbeatRequest(group_id=b"g"), 4, "group_id = b'g' does not fit string"),
        (HeartbeatRequest(group_id="\udc80"), 4, "group_id = .* does not fit string"),
        (MetadataRequest(topics=None), 0, "topics is None, which this version cannot carry"),
        (MetadataRequest(topics=7), 4, "topics = 7 is not a list"),
        (MetadataRequest(topics=["t"]), 4, r"topics\[0\] is 't', which has no name"),
        (MetadataRequest(topics=[MetadataRequest.Topic(topic_id=b"short")]), 10, r"topics\[0\].topic_id = b'short'"),
        (
            FetchResponse(responses=[FetchResponse.Topic(partitions=[FetchResponse.Partition(high_watermark=None)])]),
            5,
            r"responses\[0\].partitions\[0\].high_watermark is None",
        ),
        (MetadataResponse(brokers=[MetadataResponse.Broker(port=9092.5)]), 5, r"brokers\[0\].port = 9092.5 does"),
        (ConsumerProtocolSubscription(topics=["a", 5]), 0, r"topics\[1\] = 5 does not fit string"),
        (ConsumerProtocolSubscription(topics="ab"), 0, "topics = 'ab' is not a list"),
        (ConsumerProtocolSubscription(user_data="ab"), 0, "user_data = 'ab' does not fit bytes"),
        (FetchRequest(cluster_id=5), 12, "cluster_id = 5 does not fit string"),
        (DescribeTopicPartitionsRequest(cursor="c"), 0, "cursor is 'c', which has no topic_name"),
        (FetchRequest(replica_state=None), 15, "replica_state is None"),
        (
            AlterClientQuotasRequest(
                entries=[AlterClientQuotasRequest.Entry(ops=[AlterClientQuotasRequest.Op(value=10**400)])]
            ),
            0,
            "AlterClientQuotasRequest v0",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_a_field_cannot_carry_is_refused_with_its_name_and_value(message, version, complaint):
    with pytest.raises(UnencodableValue, match=complaint):
        encode(message, version)


def test_an_encoder_refuses_a_message_of_another_class():
    with pytest.raises(UnencodableValue, match=r"HeartbeatRequest v0: .* is not a HeartbeatRequest"):
        encoder(HeartbeatRequest, 0)(HeartbeatResponse())


def test_neighbouring_fields_of_fixed_size_are_one_struct_call():
    text = source("FetchRequest", 4)
    assert "Uiqi(buf, p)" in text  # partition, fetch_offset, partition_max_bytes
    assert "Piqi(" in text


@pytest.mark.parametrize("count", [0, 1, 8, 9, 10, 127, 128, 5000])
def test_arrays_of_numbers_of_any_length_survive(count):
    numbers = [index * 7 - 3 for index in range(count)]
    topic = MetadataResponse.Topic(partitions=[MetadataResponse.Partition(replica_nodes=numbers, error_code=1)])
    for version in (0, 12):
        wire = encode(MetadataResponse(topics=[topic]), version)
        assert b"".join(number.to_bytes(4, "big", signed=True) for number in numbers) in wire
        assert decode(MetadataResponse, version, wire).topics == [topic]
