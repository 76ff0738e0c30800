"""Keys, names, and the headers of requests and replies."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.apis import (
    API_KEYS,
    API_NAMES,
    NEVER,
    decode_request_header,
    encode_request_header,
    flexible_from,
    request_header_version,
    response_header_version,
    version_range,
)
from ottla.protocol.codec import encode
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.messages import RequestHeader
from ottla.protocol.schema import DIRECTORY, file_name, schema_of


def test_keys_agree_with_the_tables_and_every_table_of_a_request_has_a_key():
    assert API_KEYS["Produce"] == 0
    assert API_NAMES[18] == "ApiVersions"
    assert len(API_NAMES) == len(API_KEYS)
    for name, key in API_KEYS.items():
        assert schema_of(name + "Request").api_key == key
        assert schema_of(name + "Response").api_key == key
    data = {"request_header", "response_header", "consumer_protocol_subscription", "consumer_protocol_assignment"}
    stored = ("_record.txt", "_key.txt", "_value.txt")  # in KRaft's metadata and in __consumer_offsets
    tables = {name for name in os.listdir(DIRECTORY) if not name.endswith(stored)}
    assert {file_name(name) for name in API_KEYS} | {f"{d}.txt" for d in data} == tables


# As the issues of the broker, the administration, the groups and the transactions name them.
@pytest.mark.parametrize(
    ("name", "last"),
    [
        *[("ApiVersions", 4), ("Metadata", 13), ("Produce", 13), ("Fetch", 18), ("ListOffsets", 11)],
        *[("FindCoordinator", 6), ("InitProducerId", 6), ("OffsetForLeaderEpoch", 4), ("CreateTopics", 7)],
        *[("DeleteTopics", 6), ("DescribeCluster", 2), ("DescribeTopicPartitions", 0), ("DescribeConfigs", 4)],
        *[("CreatePartitions", 3), ("DeleteRecords", 2), ("AlterConfigs", 2), ("IncrementalAlterConfigs", 1)],
        *[("ListConfigResources", 1), ("DescribeLogDirs", 5), ("AlterReplicaLogDirs", 2), ("DescribeProducers", 0)],
        *[("ElectLeaders", 2), ("JoinGroup", 9), ("SyncGroup", 5), ("Heartbeat", 4), ("LeaveGroup", 5)],
        *[("ConsumerGroupHeartbeat", 1), ("ConsumerGroupDescribe", 1), ("OffsetCommit", 10), ("OffsetFetch", 10)],
        *[("OffsetDelete", 0), ("DescribeGroups", 6), ("ListGroups", 5), ("DeleteGroups", 2)],
        *[("AddPartitionsToTxn", 5), ("AddOffsetsToTxn", 4), ("EndTxn", 5), ("TxnOffsetCommit", 5)],
        *[("LeaderAndIsr", 7), ("StopReplica", 4), ("UpdateMetadata", 8), ("ControlledShutdown", 3)],
        *[("AlterPartition", 3), ("SaslHandshake", 1), ("SaslAuthenticate", 2), ("WriteTxnMarkers", 2)],
    ],
)
def test_versions_start_at_zero_and_end_with_those_of_today(name, last):
    assert version_range(name) == (0, last)


def test_header_versions_follow_the_flexible_versions():
    assert flexible_from("Produce") == 9
    assert flexible_from("SaslHandshake") == NEVER
    produce = API_KEYS["Produce"]
    assert [request_header_version(produce, v) for v in (0, 8, 9, 13)] == [1, 1, 2, 2]
    assert [response_header_version(produce, v) for v in (0, 8, 9, 13)] == [0, 0, 1, 1]
    handshake = API_KEYS["SaslHandshake"]
    assert (request_header_version(handshake, 1), response_header_version(handshake, 1)) == (1, 0)


def test_api_versions_is_answered_with_header_0_in_every_version():
    for version in (0, 2, 3, 4, 99):
        assert response_header_version(18, version) == 0
    assert [request_header_version(18, v) for v in (2, 3, 99)] == [1, 2, 2]


def test_only_the_first_controlled_shutdown_has_no_client_id():
    assert [request_header_version(7, v) for v in (0, 1, 2, 3)] == [0, 1, 1, 2]
    header = bytes.fromhex("0007 0000 00000009")
    assert decode_request_header(memoryview(header + b"\0\0\0\5")) == (7, 0, 9, None, 8)


@pytest.mark.parametrize(
    ("wire", "read"),
    [
        ("0003 0001 0000002a 0002 6162 ffffffff", (3, 1, 42, "ab", 12)),
        ("0003 0001 0000002a ffff ffffffff", (3, 1, 42, None, 10)),
        ("0003 000c 0000002a 0000 00 00", (3, 12, 42, "", 11)),
        ("0003 000c 0000002a 0000 01 05 02 7879 00", (3, 12, 42, "", 15)),
        ("0012 0063 00000001 ffff 00", (18, 99, 1, None, 11)),
        ("7abc 0009 00000001 ffff 00", (0x7ABC, 9, 1, None, 10)),
    ],
)
def test_a_request_header_is_read_up_to_the_body(wire, read):
    data = bytes.fromhex(wire)
    assert decode_request_header(memoryview(data)) == read
    behind = decode_request_header(memoryview(b"size" + data), 4)
    assert behind == (*read[:4], read[4] + 4)


@pytest.mark.parametrize("wire", ["", "0003", "0003 000c 00000001 0009 61", "0003 000c 00000001 ffff",
                                  "0003 000c 00000001 0001 ff 00", "0003 000c 00000001 ffff 01 05 09"])  # fmt: skip
def test_a_torn_request_header_is_malformed(wire):
    with pytest.raises(MalformedMessage, match="header"):
        decode_request_header(memoryview(bytes.fromhex(wire)))


@settings(max_examples=100, deadline=None, database=None)
@given(st.sampled_from(sorted(API_NAMES)), st.integers(0, 20), st.integers(-(2**31), 2**31 - 1), st.none() | st.text())
def test_headers_written_by_hand_equal_those_of_the_table(key, version, correlation_id, client_id):
    written = encode_request_header(key, version, correlation_id, client_id)
    header = request_header_version(key, version)
    assert written == encode(
        RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
        ),
        header,
    )
    read = decode_request_header(memoryview(written))
    assert read == (key, version, correlation_id, client_id if header else None, len(written))


@settings(max_examples=200, deadline=None, database=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_malformed(data):
    try:
        position = decode_request_header(memoryview(data))[4]
    except MalformedMessage:
        return
    assert position <= len(data)
